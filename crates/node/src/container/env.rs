//! A container's environment: envFrom, env, Services, and the image's (L-901 to L-909).
//!
//! Pure: what was read of ConfigMaps, Secrets, Services and env files comes in as [`Sources`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Pod, Secret, Service,
};
use lifecycle::NodeConfig;

use super::env_file::value_in_env_file;
use super::expansion::expand;
use super::fields::{FieldError, pod_field, resource_field};
use super::services::service_variables;
use crate::runtime::config;

/// What a container's environment refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Names of ConfigMaps.
    pub config_maps: BTreeSet<String>,
    /// Names of Secrets.
    pub secrets: BTreeSet<String>,
    /// Volumes and paths of env files.
    pub env_files: BTreeSet<(String, String)>,
}

/// What was found of it.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// ConfigMaps by name; the text is why one could not be asked for.
    pub config_maps: BTreeMap<String, Result<Option<Arc<ConfigMap>>, String>>,
    /// Secrets by name.
    pub secrets: BTreeMap<String, Result<Option<Arc<Secret>>, String>>,
    /// The Services of the pod's namespace and the API server's own; `None` if they could not be listed.
    pub services: Option<Vec<Arc<Service>>>,
    /// Env files by volume and path.
    pub env_files: BTreeMap<(String, String), EnvFile>,
}

/// An env file in a volume.
#[derive(Clone, Debug)]
pub struct EnvFile {
    /// Where it lies on the node, for messages.
    pub path: PathBuf,
    /// Its text, or why it cannot be read.
    pub text: Result<String, String>,
}

/// Whose environment it is.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentOf<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// The node.
    pub node: &'a NodeConfig,
    /// The pod's addresses.
    pub pod_ips: &'a [IpAddr],
}

/// Why an environment cannot be made: the message of `CreateContainerConfigError` (L-905).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A ConfigMap or Secret is not there.
    #[error("{kind} \"{name}\" not found")]
    NotFound {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// It has no such key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// The pod's namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API did not answer.
    #[error("{0}")]
    Source(String),
    /// The Services could not be listed.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    Services,
    /// A field has no value.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The volume of an env file is none of the pod's.
    #[error("cannot find the volume \"{volume}\" referenced by FileKeyRef")]
    Volume {
        /// `volumeName`.
        volume: String,
    },
    /// An env file is missing or broken.
    #[error("couldn't parse env file")]
    EnvFile,
    /// An env file does not set the key.
    #[error("environment variable key \"{key}\" not found in file \"{}\"", path.display())]
    EnvFileKey {
        /// `key`.
        key: String,
        /// The file.
        path: PathBuf,
    },
}

impl References {
    /// What has to be read before a container's environment can be made.
    pub fn of(container: &Container) -> References {
        let mut references = References::default();
        for source in container.env_from.iter().flatten() {
            references.config_maps.extend(source.config_map_ref.as_ref().map(|it| it.name.clone()));
            references.secrets.extend(source.secret_ref.as_ref().map(|it| it.name.clone()));
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            references.config_maps.extend(source.config_map_key_ref.as_ref().map(|it| it.name.clone()));
            references.secrets.extend(source.secret_key_ref.as_ref().map(|it| it.name.clone()));
            references
                .env_files
                .extend(source.file_key_ref.as_ref().map(|it| (it.volume_name.clone(), it.path.clone())));
        }
        references
    }
}

/// The variables that the pod's spec and the Services give a container; what `command` and `args` are expanded with (L-904).
pub fn declared_environment(
    of: &EnvironmentOf<'_>,
    sources: &Sources,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let spec = of.pod.spec.as_ref();
    let namespace = of.pod.metadata.namespace.as_deref().unwrap_or_default();
    let links = spec.and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let services = sources.services.as_deref().ok_or(EnvironmentError::Services)?;
    let of_services = service_variables(services.iter().map(Arc::as_ref), namespace, links);
    let mut resolver = Resolver { of, sources, namespace, declared: BTreeMap::new() };
    for source in of.container.env_from.iter().flatten() {
        resolver.add_all(source)?;
    }
    for variable in of.container.env.iter().flatten() {
        resolver.add(variable, &of_services)?;
    }
    let mut declared = resolver.declared;
    for (name, value) in of_services {
        declared.entry(name).or_insert(value);
    }
    Ok(declared)
}

/// What a container is started with beside what is declared.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeEnvironment<'a> {
    /// The image's `Env`.
    pub image: &'a [String],
    /// The pod's host name.
    pub hostname: &'a str,
    /// The user's home.
    pub home: &'a str,
    /// `tty`.
    pub tty: bool,
}

/// `PATH` of an image that sets none (containerd: oci.WithDefaultPathEnv).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The whole environment: what a runtime sets, then the image's, then what is declared; later ones win.
pub fn whole_environment(runtime: &RuntimeEnvironment<'_>, declared: &BTreeMap<String, String>) -> Vec<config::EnvVar> {
    let mut variables: Vec<(String, String)> =
        [("PATH", DEFAULT_PATH), ("HOSTNAME", runtime.hostname), ("HOME", runtime.home)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
    if runtime.tty {
        variables.push(("TERM".to_owned(), "xterm".to_owned()));
    }
    let image = runtime.image.iter().map(|entry| entry.split_once('=').unwrap_or((entry, "")));
    let declared = declared.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in image.chain(declared) {
        match variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value.to_owned(),
            None => variables.push((name.to_owned(), value.to_owned())),
        }
    }
    variables.into_iter().map(|(name, value)| config::EnvVar { name, value }).collect()
}

struct Resolver<'a> {
    of: &'a EnvironmentOf<'a>,
    sources: &'a Sources,
    namespace: &'a str,
    declared: BTreeMap<String, String>,
}

impl Resolver<'_> {
    fn add_all(&mut self, source: &EnvFromSource) -> Result<(), EnvironmentError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        if let Some(reference) = &source.config_map_ref {
            if let Some(map) = self.config_map(&reference.name, reference.optional)? {
                found.extend(map.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
            }
        } else if let Some(reference) = &source.secret_ref
            && let Some(secret) = self.secret(&reference.name, reference.optional)?
        {
            found.extend(secret.data.iter().flatten().map(|(key, value)| (key.clone(), lossy(&value.0))));
        }
        self.declared.extend(found.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value)));
        Ok(())
    }

    fn add(&mut self, variable: &EnvVar, services: &BTreeMap<String, String>) -> Result<(), EnvironmentError> {
        let value = match (variable.value.as_deref().unwrap_or_default(), &variable.value_from) {
            ("", Some(source)) => self.resolve(source)?,
            (value, _) => {
                let lookup = |name: &str| self.declared.get(name).or_else(|| services.get(name)).cloned();
                Some(expand(value, &lookup))
            }
        };
        // An optional reference to what is not there leaves the variable as it was.
        if let Some(value) = value {
            self.declared.insert(variable.name.clone(), value);
        }
        Ok(())
    }

    fn resolve(&self, source: &EnvVarSource) -> Result<Option<String>, EnvironmentError> {
        let of = self.of;
        if let Some(field) = &source.field_ref {
            return Ok(Some(pod_field(of.pod, &field.field_path, of.node, of.pod_ips)?));
        }
        if let Some(selector) = &source.resource_field_ref {
            return Ok(Some(resource_field(selector, of.pod, of.container, of.node)?));
        }
        if let Some(reference) = &source.config_map_key_ref {
            let Some(map) = self.config_map(&reference.name, reference.optional)? else { return Ok(None) };
            let value = map.data.as_ref().and_then(|data| data.get(&reference.key)).cloned();
            return self.required(value, reference.optional, "ConfigMap", &reference.name, &reference.key);
        }
        if let Some(reference) = &source.secret_key_ref {
            let Some(secret) = self.secret(&reference.name, reference.optional)? else { return Ok(None) };
            let value = secret.data.as_ref().and_then(|data| data.get(&reference.key)).map(|value| lossy(&value.0));
            return self.required(value, reference.optional, "Secret", &reference.name, &reference.key);
        }
        match &source.file_key_ref {
            Some(reference) => self.file_key(reference),
            None => Ok(Some(String::new())),
        }
    }

    fn file_key(&self, reference: &FileKeySelector) -> Result<Option<String>, EnvironmentError> {
        let key = (reference.volume_name.clone(), reference.path.clone());
        let optional = reference.optional == Some(true);
        let Some(file) = self.sources.env_files.get(&key) else {
            return Err(EnvironmentError::Volume { volume: reference.volume_name.clone() });
        };
        let Ok(text) = &file.text else {
            return if optional { Ok(None) } else { Err(EnvironmentError::EnvFile) };
        };
        let value = value_in_env_file(text, &reference.key).map_err(|_| EnvironmentError::EnvFile)?;
        // A key that is set to nothing counts as missing.
        match value.filter(|value| !value.is_empty()) {
            Some(value) => Ok(Some(value)),
            None if optional => Ok(None),
            None => Err(EnvironmentError::EnvFileKey { key: reference.key.clone(), path: file.path.clone() }),
        }
    }

    fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<Arc<ConfigMap>>, EnvironmentError> {
        found("configmap", name, optional, self.sources.config_maps.get(name))
    }

    fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<Arc<Secret>>, EnvironmentError> {
        found("secret", name, optional, self.sources.secrets.get(name))
    }

    fn required(
        &self,
        value: Option<String>,
        optional: Option<bool>,
        kind: &'static str,
        name: &str,
        key: &str,
    ) -> Result<Option<String>, EnvironmentError> {
        if value.is_some() || optional == Some(true) {
            return Ok(value);
        }
        let (namespace, name, key) = (self.namespace.to_owned(), name.to_owned(), key.to_owned());
        Err(EnvironmentError::Key { key, kind, namespace, name })
    }
}

fn found<T>(
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
    source: Option<&Result<Option<Arc<T>>, String>>,
) -> Result<Option<Arc<T>>, EnvironmentError> {
    match source {
        Some(Ok(Some(object))) => Ok(Some(Arc::clone(object))),
        Some(Err(text)) => Err(EnvironmentError::Source(text.clone())),
        Some(Ok(None)) | None if optional == Some(true) => Ok(None),
        Some(Ok(None)) | None => Err(EnvironmentError::NotFound { kind, name: name.to_owned() }),
    }
}

/// Bytes that are no text can't be kept in the runtime's configuration; each is shown as a replacement character.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
