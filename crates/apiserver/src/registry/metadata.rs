//! `metadata`, as the server keeps it: what it sets, what it restores, what it refuses.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

use crate::error::{ApiError, cause};
use crate::resource::ResourceType;
use crate::value;

/// RFC 3339 in seconds, as `metav1.Time` is written.
pub(super) fn time_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Checks `apiVersion` and `kind`, or takes them from the resource.
pub(super) fn set_type(resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!("a {} must be a map", resource.kind)));
    }
    let version = resource.api_version();
    let (given_version, given_kind) = (value::text(object, "/apiVersion"), value::text(object, "/kind"));
    if given_version.is_some_and(|given| given != version) || given_kind.is_some_and(|given| given != resource.kind) {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): {}/{} given, {version}/{} expected",
            resource.kind,
            given_version.unwrap_or_default(),
            given_kind.unwrap_or_default(),
            resource.kind,
        );
        return Err(ApiError::bad_request(message));
    }
    value::set(object, &["apiVersion"], Value::String(version));
    value::set(object, &["kind"], Value::String(resource.kind.to_owned()));
    Ok(())
}

/// Checks the namespace against that of the request, or takes it from there.
pub(super) fn set_namespace(resource: &ResourceType, object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    if !resource.namespaced {
        value::remove(object, &["metadata", "namespace"]);
        return Ok(());
    }
    match value::text(object, "/metadata/namespace") {
        Some(given) if given != namespace => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => {
            value::set(object, &["metadata", "namespace"], Value::String(namespace.to_owned()));
            Ok(())
        }
    }
}

/// What an update may not say of an object's identity is put back.
pub(super) fn restore_identity(old: &Value, new: &mut Value) {
    for field in
        ["uid", "creationTimestamp", "generateName", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        value::copy(old, new, &["metadata", field]);
    }
    value::remove(new, &["metadata", "selfLink"]);
}

/// Counts a change of anything but metadata and status.
pub(super) fn count_generation(resource: &ResourceType, old: &Value, new: &mut Value) {
    if resource.traits.generation && !same_desire(old, new) {
        bump_generation(resource, new);
    }
}

/// Adds one to `metadata.generation` of the kinds that have it.
pub(super) fn bump_generation(resource: &ResourceType, object: &mut Value) {
    if resource.traits.generation {
        let generation = value::integer(object, "/metadata/generation").unwrap_or(0) + 1;
        value::set(object, &["metadata", "generation"], Value::from(generation));
    }
}

fn same_desire(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    let desire = |name: &str| name != "metadata" && name != "status";
    let all = old.keys().chain(new.keys()).filter(|name| desire(name));
    all.into_iter().all(|name| old.get(name) == new.get(name))
}

/// Finalizers can be removed but not added while the object is being deleted.
pub(super) fn check_finalizers(old: &Value, new: &Value) -> Vec<StatusCause> {
    if !value::is_set(old, "/metadata/deletionTimestamp") {
        return Vec::new();
    }
    let before = value::texts(old, "/metadata/finalizers");
    let added: Vec<String> =
        value::texts(new, "/metadata/finalizers").into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let message = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
    );
    vec![cause("FieldValueForbidden", "metadata.finalizers", message)]
}
