//! What every namespace has: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{Cache, Change};
use crate::object::{Kind, Object, is_being_deleted};
use crate::runner::{Reconcile, Step};
use crate::write::Action;

const ACCOUNT: &str = "default";
const CONFIG_MAP: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// Decides for namespaces; keyed by their name.
#[derive(Debug)]
pub(crate) struct Provisions {
    /// The bundle of CA certificates; without one the ConfigMap is not made.
    ca_bundle: Option<String>,
}

impl Provisions {
    /// Provisions with these CA certificates, in PEM.
    pub(crate) fn new(ca_bundle: Option<String>) -> Provisions {
        Provisions { ca_bundle }
    }
}

impl Reconcile for Provisions {
    type Key = String;

    fn affected(&self, _: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let object = change.object();
        let is_ours = (object.kind() == Kind::SERVICE_ACCOUNT && object.name() == ACCOUNT)
            || (object.kind() == Kind::CONFIG_MAP && object.name() == CONFIG_MAP);
        match object {
            Object::Namespace(_) => vec![(object.name().to_owned(), now)],
            _ if is_ours => vec![(object.namespace().to_owned(), now)],
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, _: Timestamp) -> Step {
        let namespace = cache.namespace(key);
        if namespace.is_none_or(|namespace| is_being_deleted(&namespace.metadata)) {
            return Step::rest();
        }
        let mut actions = Vec::new();
        if cache.find(&Kind::SERVICE_ACCOUNT, key, ACCOUNT).is_none() {
            let account = ServiceAccount { metadata: metadata(key, ACCOUNT), ..ServiceAccount::default() };
            actions.push(Action::Create(account.into()));
        }
        if let Some(ca_bundle) = &self.ca_bundle {
            actions.extend(publish(cache, key, ca_bundle));
        }
        Step::write(actions)
    }
}

/// Makes the ConfigMap, or mends it if somebody changed it.
fn publish(cache: &Cache, namespace: &str, ca_bundle: &str) -> Option<Action> {
    let data = BTreeMap::from([("ca.crt".to_owned(), ca_bundle.to_owned())]);
    let mut config_map = match cache.find(&Kind::CONFIG_MAP, namespace, CONFIG_MAP) {
        None => ConfigMap { metadata: metadata(namespace, CONFIG_MAP), ..ConfigMap::default() },
        Some(Object::ConfigMap(stored)) => stored.as_ref().clone(),
        // Passed by its metadata alone: it is there, and nothing more can be said.
        Some(_) => return None,
    };
    let annotations = config_map.metadata.annotations.get_or_insert_default();
    let is_described = annotations.get(DESCRIPTION).is_some_and(|text| !text.is_empty());
    if config_map.metadata.uid.is_some() && is_described && config_map.data.as_ref() == Some(&data) {
        return None;
    }
    annotations.insert(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned());
    config_map.data = Some(data);
    let is_stored = config_map.metadata.uid.is_some();
    let object = Object::from(config_map);
    Some(if is_stored { Action::Update(object) } else { Action::Create(object) })
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}
