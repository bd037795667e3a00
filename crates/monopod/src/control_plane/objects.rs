//! Stored objects as the controllers take them, and back.

use std::sync::Arc;

use anyhow::Context as _;
use apiserver::ResourceType;
use controllers::{Kind, Object, OtherObject};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Whether the controllers hear of a resource: all that can own or be owned, but not events, which nobody waits for.
pub(super) fn is_watched(resource: &ResourceType) -> bool {
    !resource.traits.review && resource.traits.stored_as.is_none() && resource.kind != "Event"
}

/// The resource that a kind is served as.
pub(super) fn resource_of(kind: &Kind) -> Option<&'static ResourceType> {
    ResourceType::find_kind(&kind.api_version, &kind.kind)
}

/// A stored object, typed as far as a controller reads it.
pub(super) fn decode(resource: &ResourceType, object: &Value) -> anyhow::Result<Object> {
    let api_version = resource.api_version();
    let decoded = match (api_version.as_str(), resource.kind) {
        ("v1", "Pod") => Object::Pod(typed(object)?),
        ("batch/v1", "Job") => Object::Job(typed(object)?),
        ("batch/v1", "CronJob") => Object::CronJob(typed(object)?),
        ("v1", "Namespace") => Object::Namespace(typed(object)?),
        ("v1", "Node") => Object::Node(typed(object)?),
        ("v1", "Service") => Object::Service(typed(object)?),
        ("v1", "Endpoints") => Object::Endpoints(typed(object)?),
        ("discovery.k8s.io/v1", "EndpointSlice") => Object::EndpointSlice(typed(object)?),
        ("v1", "ServiceAccount") => Object::ServiceAccount(typed(object)?),
        ("v1", "ConfigMap") => Object::ConfigMap(typed(object)?),
        _ => Object::Other(Arc::new(OtherObject {
            kind: Kind::new(&api_version, resource.kind),
            metadata: serde::Deserialize::deserialize(object.get("metadata").unwrap_or(&Value::Null))
                .with_context(|| format!("a stored {} has no metadata", resource.kind))?,
        })),
    };
    Ok(decoded)
}

/// An object as JSON; `None` for one that is known by its metadata alone and can't be written.
pub(super) fn encode(object: &Object) -> Option<Value> {
    match object {
        Object::Pod(object) => json(object),
        Object::Job(object) => json(object),
        Object::CronJob(object) => json(object),
        Object::Namespace(object) => json(object),
        Object::Node(object) => json(object),
        Object::Service(object) => json(object),
        Object::Endpoints(object) => json(object),
        Object::EndpointSlice(object) => json(object),
        Object::ServiceAccount(object) => json(object),
        Object::ConfigMap(object) => json(object),
        Object::Other(_) => None,
    }
}

fn typed<K: DeserializeOwned>(object: &Value) -> anyhow::Result<Arc<K>> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    K::deserialize(object).map(Arc::new).with_context(|| format!("the stored object `{name}` can't be read"))
}

fn json<K: Serialize>(object: &Arc<K>) -> Option<Value> {
    serde_json::to_value(&**object).ok()
}
