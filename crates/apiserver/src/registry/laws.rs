//! Where the registry meets the kinds' rules: defaults, strategies and validation of `api`, and the two views of events.
//!
//! Nothing here decides a rule; it finds the kind's functions and passes objects through them.

use std::sync::Arc;

use api::field::FieldError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

use super::Part;
use super::kinds::{Law, by_kind};
use super::typed::Object;
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// Fills in the defaults of the kind.
pub(super) fn default(resource: &ResourceType, object: Value) -> Result<Value, ApiError> {
    fn apply<K: Law>(object: Value) -> Result<Value, ApiError> {
        let mut typed: K = from_json(&object)?;
        typed.default();
        to_json(&typed)
    }
    by_kind!(resource, Ok(object), apply(object))
}

/// Sets what a new object of the kind begins with, and gives warnings.
pub(super) fn prepare_for_create(
    resource: &ResourceType,
    mut object: Value,
    now: Timestamp,
) -> Result<(Value, Vec<String>), ApiError> {
    fn apply<K: Law>(object: &Value, now: Timestamp) -> Result<(Value, Vec<String>), ApiError> {
        let mut typed: K = from_json(object)?;
        let warnings = typed.prepare_create(now);
        Ok((to_json(&typed)?, warnings))
    }
    // a new object's status is the server's to set.
    if resource.has_status() && !KEEPS_STATUS.contains(&resource.kind) {
        value::remove(&mut object, &["status"]);
    }
    by_kind!(resource, Ok((object, Vec::new())), apply(&object, now))
}

/// Kinds whose status may come with their creation: a node registers itself whole.
const KEEPS_STATUS: [&str; 1] = ["Node"];

/// The rules that a new object breaks.
pub(super) fn validate_create(resource: &ResourceType, object: &Value) -> Result<Vec<StatusCause>, ApiError> {
    fn apply<K: Law>(object: &Value) -> Result<Vec<StatusCause>, ApiError> {
        Ok(from_json::<K>(object)?.validate_create().iter().map(FieldError::cause).collect())
    }
    by_kind!(resource, Ok(Vec::new()), apply(object))
}

/// Sets what an update of the kind keeps; a binding is written past all of it, as Kubernetes does.
pub(super) fn prepare_for_update(
    resource: &ResourceType,
    part: Part,
    old: &Value,
    object: Value,
) -> Result<Value, ApiError> {
    fn apply<K: Law>(part: Part, old: &Value, new: &Value) -> Result<Value, ApiError> {
        let mut typed: K = from_json(new)?;
        typed.prepare_update(&from_json(old)?, part);
        to_json(&typed)
    }
    if part == Part::Binding {
        return Ok(object);
    }
    by_kind!(resource, Ok(object), apply(part, old, &object))
}

/// The rules that an update breaks.
pub(super) fn validate_update(
    resource: &ResourceType,
    part: Part,
    old: &Value,
    new: &Value,
) -> Result<Vec<StatusCause>, ApiError> {
    fn apply<K: Law>(part: Part, old: &Value, new: &Value) -> Result<Vec<StatusCause>, ApiError> {
        let errors = from_json::<K>(new)?.validate_update(&from_json(old)?, part);
        Ok(errors.iter().map(FieldError::cause).collect())
    }
    by_kind!(resource, Ok(Vec::new()), apply(part, old, new))
}

/// What the client should know, though nothing is wrong.
pub(super) fn warnings(resource: &ResourceType, old: Option<&Value>, new: &Value) -> Result<Vec<String>, ApiError> {
    fn apply<K: Law>(old: Option<&Value>, new: &Value) -> Result<Vec<String>, ApiError> {
        let old: Option<K> = old.map(from_json).transpose()?;
        Ok(from_json::<K>(new)?.warnings(old.as_ref()))
    }
    by_kind!(resource, Ok(Vec::new()), apply(old, new))
}

/// True if the kind's strategy counts the generation itself.
pub(super) fn counts_generation(resource: &ResourceType) -> bool {
    matches!((resource.group, resource.kind), ("", "Pod") | ("batch", "Job" | "CronJob"))
}

/// Objects here have been through their types once, so that a failure is ours.
fn from_json<K: Object>(object: &Value) -> Result<K, ApiError> {
    K::deserialize(object).map_err(|error| ApiError::internal(format!("a {} cannot be read: {error}", K::KIND)))
}

fn to_json<K: Object>(object: &K) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::internal)
}

/// The stored object with the part of the new one that the request is about.
pub(super) fn take_part(part: Part, resource: &ResourceType, old: &Value, new: Value) -> Value {
    let taken: &[&[&str]] = match part {
        Part::Main => return take_main(resource, old, new),
        Part::Status if resource.kind == "Pod" => {
            &[&["status"], &["metadata", "labels"], &["metadata", "annotations"], &["metadata", "finalizers"]]
        }
        Part::Status => &[
            &["status"],
            &["metadata", "labels"],
            &["metadata", "annotations"],
            &["metadata", "finalizers"],
            &["metadata", "ownerReferences"],
        ],
        Part::EphemeralContainers => &[&["spec", "ephemeralContainers"]],
        Part::Finalize => &[&["spec", "finalizers"]],
        Part::Binding => {
            &[&["spec", "nodeName"], &["status", "conditions"], &["metadata", "labels"], &["metadata", "annotations"]]
        }
    };
    let mut object = old.clone();
    for path in taken.iter().chain([&["metadata", "managedFields"] as &[&str]].iter()) {
        value::copy(&new, &mut object, path);
    }
    object
}

fn take_main(resource: &ResourceType, old: &Value, mut new: Value) -> Value {
    if resource.has_status() {
        value::copy(old, &mut new, &["status"]);
    }
    match resource.kind {
        "Namespace" => value::copy(old, &mut new, &["spec", "finalizers"]),
        "Pod" => value::copy(old, &mut new, &["spec", "ephemeralContainers"]),
        _ => {}
    }
    new
}

/// The fields of core events and what `events.k8s.io` calls them.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// The object as the store keeps it: events in the form of the core group.
pub(super) fn to_storage(resource: &ResourceType, object: Value) -> Value {
    if resource.traits.stored_as.is_none() {
        return object;
    }
    let names = EVENT_FIELDS.map(|(core, new)| (new, core));
    rename(object, &names, "v1")
}

/// The object as the resource shows it.
pub(super) fn from_storage(resource: &ResourceType, object: Arc<Value>) -> Arc<Value> {
    if resource.traits.stored_as.is_none() {
        return object;
    }
    rename(Arc::unwrap_or_clone(object), &EVENT_FIELDS, &resource.api_version()).into()
}

fn rename(object: Value, names: &[(&str, &str)], api_version: &str) -> Value {
    let Value::Object(fields) = object else { return object };
    let renamed = fields.into_iter().map(|(name, field)| {
        let found = names.iter().find(|(from, _)| *from == name);
        (found.map_or(name, |(_, to)| (*to).to_owned()), field)
    });
    let mut object = Value::Object(renamed.collect());
    value::set(&mut object, &["apiVersion"], Value::String(api_version.to_owned()));
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_265_an_event_reads_the_same_through_both_groups() {
        let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod"}, "note": "hello", "reason": "Started"});
        let resource = ResourceType::find("events.k8s.io", "v1", "events");
        let stored = resource.map(|resource| to_storage(resource, event.clone()));
        let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod"}, "message": "hello", "reason": "Started"});
        assert_eq!(stored, Some(core.clone()));
        assert_eq!(resource.map(|resource| from_storage(resource, core.into())), Some(event.into()));
    }
}
