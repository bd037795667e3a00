//! `metadata.managedFields`: who set what.
//!
//! - `shape`: what of a kind is one value, what is merged, by which keys
//! - `field_set`: sets of fields, and their JSON form
//! - `compare`: which fields two objects differ in, and one laid over another
//!
//! `record` writes down an update; `apply` is server-side apply.
//! Pure. Kubernetes: sigs.k8s.io/structured-merge-diff.

mod compare;
mod entries;
mod field_set;
mod shape;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{StatusCause, StatusDetails};
use serde_json::Value;

use compare::{difference, lay_over, prune};
use entries::{Entries, Owner};
use field_set::FieldSet;
use shape::Shape;

use super::Part;
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// One write, as it is recorded.
#[derive(Clone, Copy)]
pub(super) struct Write<'a> {
    /// The resource.
    pub(super) resource: &'a ResourceType,
    /// Through which part it was written.
    pub(super) part: Part,
    /// Who wrote.
    pub(super) manager: &'a str,
    /// When, as `metav1.Time` writes it.
    pub(super) time: &'a str,
}

impl Write<'_> {
    fn owner(&self, operation: &str) -> Owner {
        Owner {
            manager: self.manager.to_owned(),
            operation: operation.to_owned(),
            api_version: self.resource.api_version(),
            subresource: match self.part {
                Part::Main => "",
                Part::Status => "status",
                Part::EphemeralContainers => "ephemeralcontainers",
                Part::Finalize => "finalize",
                Part::Binding => "binding",
            }
            .to_owned(),
        }
    }
}

/// Records an update: what it changed is its manager's, and nobody else's.
///
/// An object sent with an empty list keeps the stored one; one with an empty entry begins anew.
pub(super) fn record(write: Write<'_>, old: Option<&Value>, new: &mut Value) {
    if write.manager.is_empty() {
        if let Some(old) = old {
            value::copy(old, new, &["metadata", "managedFields"]);
        }
        return;
    }
    let given = new.pointer("/metadata/managedFields").and_then(Value::as_array).filter(|list| !list.is_empty());
    let reset =
        given.is_some_and(|list| list.iter().all(|entry| entry.as_object().is_some_and(serde_json::Map::is_empty)));
    if reset {
        value::remove(new, &["metadata", "managedFields"]);
        return;
    }
    let base = if given.is_some() { Some(&*new) } else { old };
    let mut entries = base.map_or_else(Entries::default, Entries::of);
    let shape = Shape::of(write.resource);
    let nothing = Value::Null;
    let change = difference(&shape, old.unwrap_or(&nothing), new);
    entries.remove_from_others(&write.owner("Update"), &change.changed);
    entries.remove_from_all(&change.removed);
    if !change.changed.is_empty() {
        entries.add(write.owner("Update"), change.changed, write.time);
    }
    entries.write_into(new);
}

/// Lays an applied configuration over the stored object: gives the new object, with its managed fields.
///
/// Fails with 409 if somebody else set a field to another value and `force` is false.
pub(super) fn apply(write: Write<'_>, force: bool, old: &Value, applied: &Value) -> Result<Value, ApiError> {
    let shape = Shape::of(write.resource);
    let owner = write.owner("Apply");
    let mut entries = Entries::of(old);
    let wanted = restrict(FieldSet::of(&shape, applied), write.part, write.resource);
    let mut merged = lay_over(&shape, old, applied);
    let before = entries.set_of(&owner).cloned().unwrap_or_default();
    let given_up = before.minus(&wanted).minus(&entries.union_of_others(&owner));
    prune(&shape, &mut merged, &given_up);
    let changed = difference(&shape, old, &merged).changed;
    let conflicts = entries.conflicts(&owner, &changed);
    if !conflicts.is_empty() && !force {
        return Err(conflict(write.resource, old, &conflicts));
    }
    entries.remove_from_others(&owner, &changed);
    entries.remove_from_all(&given_up);
    entries.set(owner, wanted, write.time);
    entries.write_into(&mut merged);
    Ok(merged)
}

/// The managed fields of an object that an apply creates.
pub(super) fn apply_new(write: Write<'_>, applied: &Value) -> Value {
    let wanted = restrict(FieldSet::of(&Shape::of(write.resource), applied), write.part, write.resource);
    let mut object = applied.clone();
    let mut entries = Entries::default();
    entries.set(write.owner("Apply"), wanted, write.time);
    entries.write_into(&mut object);
    object
}

/// the status cannot be owned through the main resource, nor the rest through the status.
fn restrict(set: FieldSet, part: Part, resource: &ResourceType) -> FieldSet {
    match part {
        Part::Status => set.only(&["status"]),
        _ if resource.has_status() => set.without(&["status"]),
        _ => set,
    }
}

///
fn conflict(resource: &ResourceType, old: &Value, conflicts: &[(Owner, Vec<String>)]) -> ApiError {
    let all: Vec<(&Owner, &String)> =
        conflicts.iter().flat_map(|(owner, paths)| paths.iter().map(move |path| (owner, path))).collect();
    let word = if all.len() == 1 { "conflict" } else { "conflicts" };
    let described = |owner: &Owner| {
        let through = if owner.subresource.is_empty() {
            String::new()
        } else {
            format!(" with subresource \"{}\"", owner.subresource)
        };
        format!("\"{}\"{through} using {}", owner.manager, owner.api_version)
    };
    let texts: Vec<String> = match conflicts {
        [(owner, paths)] if paths.len() == 1 => vec![format!("{word} with {}: {}", described(owner), paths.concat())],
        _ => conflicts
            .iter()
            .map(|(owner, paths)| {
                let lines: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
                format!("conflicts with {}:\n{}", described(owner), lines.join("\n"))
            })
            .collect(),
    };
    let message = format!("Apply failed with {} {word}: {}", all.len(), texts.join("\n"));
    let causes = all.iter().map(|(owner, path)| StatusCause {
        reason: Some("FieldManagerConflict".to_owned()),
        message: Some(format!("conflict with {}", described(owner))),
        field: Some((*path).clone()),
    });
    let details = StatusDetails {
        causes: Some(causes.collect()),
        name: value::text(old, "/metadata/name").map(str::to_owned),
        group: (!resource.group.is_empty()).then(|| resource.group.to_owned()),
        kind: Some(resource.plural.to_owned()),
        ..StatusDetails::default()
    };
    ApiError::new(409, "Conflict", message, Some(details))
}

#[cfg(test)]
mod tests;
