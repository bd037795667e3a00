//! JSON objects through their Kubernetes types: what is of the wrong type is refused, what is unknown is found and dropped.
//!
//! The registry keeps objects as JSON; this is where their shape is enforced.

use k8s_openapi::Resource;
use k8s_openapi::api::{
    authentication::v1 as authentication, authorization::v1 as authorization, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::resource::ResourceType;

/// Something in the object is not of the type it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct DecodeError {
    /// The field, as in `spec.containers[0].ports`.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// An object in the form its type gives it, and what the type does not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object, with known fields alone.
    pub object: Value,
    /// Paths of unknown fields, as in `spec.containers[0].imag`.
    pub unknown: Vec<String>,
}

/// Passes an object through its type.
pub fn decode(resource: &ResourceType, object: Value) -> Result<Decoded, DecodeError> {
    decode_kind(resource.group, resource.kind, object)
}

/// The same for any kind that the server reads, stored or not.
pub fn decode_kind(group: &str, kind: &str, object: Value) -> Result<Decoded, DecodeError> {
    let decode = decoder(group, kind).ok_or_else(|| DecodeError {
        path: "kind".to_owned(),
        message: format!("no kind {kind:?} in group {group:?}"),
    })?;
    let mut object = object;
    quantities_to_text(&mut object, false);
    let typed = decode(&object)?;
    let mut unknown = Vec::new();
    find_unknown(&object, &typed, "", &mut unknown);
    Ok(Decoded { object: typed, unknown })
}

type Decoder = fn(&Value) -> Result<Value, DecodeError>;

fn decoder(group: &str, kind: &str) -> Option<Decoder> {
    macro_rules! kinds {
        ($($kind:ty),* $(,)?) => {
            $(if (<$kind as Resource>::GROUP, <$kind as Resource>::KIND) == (group, kind) {
                return Some(through::<$kind>);
            })*
        };
    }
    kinds!(
        core::Pod,
        core::ConfigMap,
        core::Secret,
        core::Namespace,
        core::Event,
        core::Node,
        core::ServiceAccount,
        core::Service,
        core::Endpoints,
        core::PodTemplate,
        core::Binding,
        batch::Job,
        batch::CronJob,
        coordination::Lease,
        discovery::EndpointSlice,
        events::Event,
        node::RuntimeClass,
        policy::PodDisruptionBudget,
        policy::Eviction,
        scheduling::PriorityClass,
        rbac::Role,
        rbac::RoleBinding,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        authentication::TokenReview,
        authentication::TokenRequest,
        authentication::SelfSubjectReview,
        authorization::SubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
    );
    None
}

fn through<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, DecodeError> {
    let typed: K = serde_path_to_error::deserialize(object)
        .map_err(|error| DecodeError { path: error.path().to_string(), message: error.inner().to_string() })?;
    serde_json::to_value(typed).map_err(|error| DecodeError { path: String::new(), message: error.to_string() })
}

/// Go reads a number where a quantity is due (`cpu: 1`); the types here want text.
fn quantities_to_text(value: &mut Value, quantities: bool) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Number(number) if quantities || matches!(name.as_str(), "sizeLimit" | "divisor") => {
                        *field = Value::String(number.to_string());
                    }
                    _ => quantities_to_text(field, QUANTITY_MAPS.contains(&name.as_str())),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| quantities_to_text(item, false)),
        _ => {}
    }
}

/// Fields whose values are maps of quantities.
const QUANTITY_MAPS: &[&str] =
    &["requests", "limits", "capacity", "allocatable", "overhead", "podFixed", "allocatedResources"];

/// Lists what is in `given` and has been lost in `kept`; null counts as absent.
fn find_unknown(given: &Value, kept: &Value, path: &str, unknown: &mut Vec<String>) {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match kept.get(name) {
                    Some(kept) => find_unknown(value, kept, &path, unknown),
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                find_unknown(given, kept, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_147_unknown_fields_are_found_with_their_paths() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": null},
            "spec": {"containers": [{"name": "c", "imag": "x", "resources": {"limits": {"cpu": 1}}}], "foo": 1}});
        let decoded =
            decode_kind("", "Pod", pod).map(|decoded| (decoded.unknown, decoded.object.pointer("/spec").cloned()));
        let spec = json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]});
        assert_eq!(decoded, Ok((vec!["spec.containers[0].imag".to_owned(), "spec.foo".to_owned()], Some(spec))));
    }

    #[test]
    fn a_wrong_type_is_refused_with_its_path() {
        let pod = json!({"spec": {"containers": [{"name": 1}]}});
        assert_eq!(decode_kind("", "Pod", pod).map_err(|error| error.path), Err("spec.containers[0].name".to_owned()));
    }
}
