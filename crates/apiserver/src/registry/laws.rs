//! Where the registry meets the kinds' rules: defaults, strategies and validation of `api`, and the two views of events.
//!
//! Nothing here decides a rule; it finds the kind's functions and passes objects through them.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

use super::Part;
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// Sets what a new object of the kind begins with, and its defaults.
pub(super) fn prepare_for_create(resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
    if resource.has_status() {
        value::remove(object, &["status"]);
    }
    match resource.kind {
        "Pod" => value::set(object, &["status", "phase"], Value::from("Pending")),
        "Namespace" => {
            value::set(object, &["status", "phase"], Value::from("Active"));
            value::set(object, &["spec", "finalizers"], Value::from(vec!["kubernetes"]));
        }
        _ => {}
    }
    Ok(())
}

/// The rules that a new object breaks.
pub(super) fn validate_create(_resource: &ResourceType, _object: &Value) -> Vec<StatusCause> {
    Vec::new()
}

/// Sets what an update of the kind keeps, and its defaults.
pub(super) fn prepare_for_update(
    _resource: &ResourceType,
    _part: Part,
    _old: &Value,
    _new: &mut Value,
) -> Result<(), ApiError> {
    Ok(())
}

/// The rules that an update breaks.
pub(super) fn validate_update(_resource: &ResourceType, _part: Part, _old: &Value, _new: &Value) -> Vec<StatusCause> {
    Vec::new()
}

/// What the client should know, though nothing is wrong.
pub(super) fn warnings(_resource: &ResourceType, _object: &Value) -> Vec<String> {
    Vec::new()
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
