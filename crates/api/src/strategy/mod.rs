//! What the server sets and clears itself when an object is created or updated.
//!
//! The order of a create is: [`crate::defaults`], [`crate::admission`], here `prepare_for_create`, then the name from
//! `generateName`, then [`crate::validation`]; of an update: defaults, `prepare_for_update`, validation.
//! Each kind's module has what it needs of `prepare_for_create`, `prepare_for_update` and `prepare_for_status_update`.
//! Name, uid and creation time are the caller's to set; they are read here where a kind needs them.
//!
//! The rules are, J-13 to J-17; Kubernetes keeps them in `pkg/registry`.

pub mod cron_job;
pub mod gates;
pub mod job;
pub mod namespace;
pub mod pod;
pub mod secret;
pub mod service;
pub mod service_account;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use crate::equality::is_semantically_equal;

/// The generation of an object that replaces another: one more if the spec means something else.
pub(crate) fn bump_generation<S: Serialize>(new: &mut ObjectMeta, old: &ObjectMeta, new_spec: &S, old_spec: &S) {
    let generation = old.generation.unwrap_or(0);
    let is_changed = !is_semantically_equal(new_spec, old_spec);
    new.generation = if is_changed { Some(generation + 1) } else { old.generation };
}

/// A write of the status changes nothing of the metadata that users or the server set otherwise.
pub(crate) fn reset_metadata_for_status(new: &mut ObjectMeta, old: &ObjectMeta) {
    new.deletion_timestamp.clone_from(&old.deletion_timestamp);
    new.generation = old.generation;
    new.self_link.clone_from(&old.self_link);
    new.labels.clone_from(&old.labels);
    new.annotations.clone_from(&old.annotations);
    new.finalizers.clone_from(&old.finalizers);
    new.owner_references.clone_from(&old.owner_references);
}
