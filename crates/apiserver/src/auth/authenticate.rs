//! From a certificate or a token to a user.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::token::{Bound, Claims, TokenSigner};
use super::{AUTHENTICATED, MASTERS};
use crate::registry::Registry;
use crate::resource::ResourceType;
use crate::value;

/// Whoever asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The uid, where there is one.
    pub uid: Option<String>,
    /// The groups.
    pub groups: Vec<String>,
    /// What else is known.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user that a client certificate names: its common name, in the groups of its organisations.
    ///
    /// TLS has verified the certificate. `None` if it names nobody.
    pub fn from_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let mut groups: Vec<String> =
            subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
        groups.push(AUTHENTICATED.to_owned());
        Some(Self { name, groups, ..Self::default() })
    }

    /// The user that a service account token makes its holder.
    ///
    /// `None` unless the token is good and the account and pod it is bound to still stand, with the same uids.
    pub fn from_token(registry: &Registry, signer: &TokenSigner, token: &str) -> Option<Self> {
        let claims = signer.verify(token, registry.now())?;
        if !claims.aud.iter().any(|audience| audience == super::token::ISSUER) {
            return None;
        }
        Self::from_claims(registry, &claims)
    }

    /// The same without asking whom the token is for.
    pub fn from_claims(registry: &Registry, claims: &Claims) -> Option<Self> {
        let bound = &claims.kubernetes;
        stands(registry, "serviceaccounts", &bound.namespace, &bound.serviceaccount)?;
        if let Some(pod) = &bound.pod {
            stands(registry, "pods", &bound.namespace, pod)?;
        }
        if let Some(secret) = &bound.secret {
            stands(registry, "secrets", &bound.namespace, secret)?;
        }
        let mut user = Self {
            name: format!("system:serviceaccount:{}:{}", bound.namespace, bound.serviceaccount.name),
            uid: Some(bound.serviceaccount.uid.clone()),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{}", bound.namespace),
                AUTHENTICATED.to_owned(),
            ],
            extra: BTreeMap::new(),
        };
        user.know("credential-id", &format!("JTI={}", claims.jti));
        for (what, object) in [("pod", &bound.pod), ("node", &bound.node)] {
            if let Some(object) = object {
                user.know(&format!("{what}-name"), &object.name);
                user.know(&format!("{what}-uid"), &object.uid);
            }
        }
        Some(user)
    }

    /// True if the user may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// As `authentication.k8s.io` writes it.
    pub fn to_json(&self) -> Value {
        let mut user = json!({"username": self.name, "groups": self.groups});
        if let Some(uid) = &self.uid {
            value::set(&mut user, &["uid"], json!(uid));
        }
        if !self.extra.is_empty() {
            value::set(&mut user, &["extra"], json!(self.extra));
        }
        user
    }

    fn know(&mut self, what: &str, is: &str) {
        self.extra.insert(format!("authentication.kubernetes.io/{what}"), vec![is.to_owned()]);
    }
}

/// The object, if it is there with that uid.
fn stands(registry: &Registry, plural: &str, namespace: &str, object: &Bound) -> Option<()> {
    let resource = ResourceType::find("", "v1", plural)?;
    let found = registry.get(resource, namespace, &object.name).ok()?;
    (value::text(&found, "/metadata/uid") == Some(object.uid.as_str())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Authority;

    #[test]
    fn a_255_a_certificate_names_a_user_and_a_group() -> Result<(), Box<dyn std::error::Error>> {
        let credential = Authority::in_memory()?.client_credential("jane", "a")?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(credential.certificate.as_bytes())?;
        let user = User::from_certificate(&pem.contents).ok_or("no user")?;
        assert_eq!((user.name.as_str(), user.groups), ("jane", vec!["a".to_owned(), AUTHENTICATED.to_owned()]));
        assert_eq!(User::from_certificate(b"nonsense"), None);
        Ok(())
    }
}
