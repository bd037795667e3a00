//! Who to be for which registry: docker configurations out of `imagePullSecrets`, matched as a kubelet does.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use super::reference::Reference;

const DEFAULT_REGISTRY: &str = "index.docker.io";

/// Accepts padded and unpadded text, as docker configurations have both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// User names and passwords for registries.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Each for a host and the beginning of a path.
    entries: Vec<(String, Login)>,
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) username: String,
    pub(crate) password: String,
}

/// A Secret that should hold a docker configuration and does not.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Its configuration is malformed.
    #[error("Secret `{secret}` holds no docker configuration")]
    Json {
        /// The Secret's name.
        secret: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Its `auth` is not base64 of `username:password`.
    #[error("Secret `{secret}` has a wrong `auth` for `{registry}`: it must be base64 of `username:password`")]
    Auth {
        /// The Secret's name.
        secret: String,
        /// The registry.
        registry: String,
    },
}

#[derive(Deserialize)]
struct DockerConfigJson {
    #[serde(default)]
    auths: Entries,
}

type Entries = BTreeMap<String, Entry>;

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

impl Credentials {
    /// Reads all Secrets of the types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`; others are passed over.
    pub fn from_secrets(secrets: &[Secret]) -> Result<Credentials, CredentialsError> {
        let mut credentials = Credentials::default();
        for secret in secrets {
            let name = secret.metadata.name.clone().unwrap_or_default();
            let malformed = |source| CredentialsError::Json { secret: name.clone(), source };
            let data = |key: &str| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice());
            let entries = match secret.type_.as_deref() {
                Some("kubernetes.io/dockerconfigjson") => data(".dockerconfigjson")
                    .map(|json| serde_json::from_slice::<DockerConfigJson>(json).map(|config| config.auths)),
                Some("kubernetes.io/dockercfg") => data(".dockercfg").map(serde_json::from_slice::<Entries>),
                _ => None,
            };
            if let Some(entries) = entries {
                credentials.add(entries.map_err(malformed)?, &name)?;
            }
        }
        // The longer and so the more particular of two that match is tried first.
        credentials.entries.sort_by(|(a, _), (b, _)| b.cmp(a));
        Ok(credentials)
    }

    fn add(&mut self, entries: Entries, secret: &str) -> Result<(), CredentialsError> {
        for (registry, entry) in entries {
            let login = entry
                .login()
                .ok_or_else(|| CredentialsError::Auth { secret: secret.to_owned(), registry: registry.clone() })?;
            self.entries.push((key_of(&registry), login));
        }
        Ok(())
    }

    /// The logins to try for an image, the most particular first; none means to come without.
    pub(crate) fn of(&self, image: &Reference) -> Vec<Login> {
        let target = format!("{}/{}", image.registry(), image.repository());
        let matching = self.entries.iter().filter(|(key, _)| matches(key, &target));
        let mut found: Vec<Login> = matching.map(|(_, login)| login.clone()).collect();
        if found.is_empty() && image.registry() == "docker.io" {
            let default = self.entries.iter().filter(|(key, _)| key.trim_end_matches('/') == DEFAULT_REGISTRY);
            found.extend(default.map(|(_, login)| login.clone()));
        }
        found
    }
}

impl Entry {
    fn login(self) -> Option<Login> {
        if self.auth.is_empty() {
            return Some(Login { username: self.username, password: self.password });
        }
        let decoded = String::from_utf8(BASE64.decode(self.auth.trim()).ok()?).ok()?;
        let (username, password) = decoded.split_once(':')?;
        Some(Login { username: username.to_owned(), password: password.to_owned() })
    }
}

/// Passwords are never printed.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(key, login)| (key, &login.username))).finish()
    }
}

/// Host and path of a registry's entry; `/v1/` and `/v2/` mean the host alone.
fn key_of(registry: &str) -> String {
    let bare = registry.strip_prefix("https://").or_else(|| registry.strip_prefix("http://")).unwrap_or(registry);
    let (host, path) = match bare.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (bare, String::new()),
    };
    let path = match path.strip_prefix("/v1/").or_else(|| path.strip_prefix("/v2/")) {
        Some(rest) => format!("/{rest}"),
        None => path,
    };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Whether an entry is for an image: same port, same number of parts in the host, each matching, and the path a prefix.
fn matches(key: &str, target: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').map_or((text, ""), |(host, path)| (host, path));
        let (host, port) = host.rsplit_once(':').map_or((host, ""), |(host, port)| (host, port));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let (key_host, key_port, key_path) = split(key);
    let (host, port, path) = split(target);
    key_port == port
        && path.starts_with(&key_path)
        && key_host.split('.').count() == host.split('.').count()
        && key_host.split('.').zip(host.split('.')).all(|(pattern, part)| glob(pattern.as_bytes(), part.as_bytes()))
}

/// `*` stands for any text, `?` for any one character.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) if glob(rest, text) => true,
        (Some((b'*', _)), Some((_, text))) => glob(pattern, text),
        (Some((wanted, rest)), Some((found, text))) => (*wanted == b'?' || wanted == found) && glob(rest, text),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(kind: &str, key: &str, json: &str) -> Secret {
        Secret {
            data: Some(BTreeMap::from([(key.to_owned(), ByteString(json.as_bytes().to_vec()))])),
            type_: Some(kind.to_owned()),
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                name: Some("pull".to_owned()),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn users(auths: &str, image: &str) -> Vec<String> {
        let secret = secret("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &format!("{{\"auths\":{auths}}}"));
        let credentials = Credentials::from_secrets(&[secret]).unwrap();
        let image = Reference::parse(image).unwrap();
        credentials.of(&image).into_iter().map(|login| format!("{}:{}", login.username, login.password)).collect()
    }

    #[test]
    fn the_most_particular_entry_comes_first_and_foreign_ones_never() {
        let auths = r#"{
            "quay.io": {"username": "host", "password": "1"},
            "https://quay.io/team": {"username": "team", "password": "2"},
            "*.example.com": {"username": "glob", "password": "3"},
            "https://index.docker.io/v1/": {"username": "hub", "password": "4"},
            "reg:5000": {"username": "port", "password": "5"}
        }"#;
        assert_eq!(users(auths, "quay.io/team/app"), ["team:2", "host:1"]);
        assert_eq!(users(auths, "quay.io/other/app"), ["host:1"]);
        assert_eq!(users(auths, "a.example.com/app"), ["glob:3"]);
        assert_eq!(users(auths, "a.b.example.com/app"), [""; 0]);
        assert_eq!(users(auths, "busybox"), ["hub:4"]);
        assert_eq!(users(auths, "reg:5000/app"), ["port:5"]);
        assert_eq!(users(auths, "reg:5001/app"), [""; 0]);
    }

    #[test]
    fn an_auth_field_is_base64_of_both() {
        assert_eq!(users(r#"{"a.b":{"auth":"dTpwOnE="}}"#, "a.b/c"), ["u:p:q"]);
        assert_eq!(users(r#"{"a.b":{"auth":"dTpwOnE"}}"#, "a.b/c"), ["u:p:q"]);
        let error = |kind, key, json| Credentials::from_secrets(&[secret(kind, key, json)]).unwrap_err().to_string();
        assert_eq!(
            error("kubernetes.io/dockercfg", ".dockercfg", r#"{"a.b":{"auth":"dQ=="}}"#),
            "Secret `pull` has a wrong `auth` for `a.b`: it must be base64 of `username:password`"
        );
        assert_eq!(
            error("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{"),
            "Secret `pull` holds no docker configuration"
        );
    }
}
