//! Metadata that every object has, on create and on update.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};

use super::errors::Errors;
use super::labels::validate_labels;
use super::names::{self, NameRule};
use crate::absent::{entries, items, text};
use crate::equality::is_semantically_equal;
use crate::field::FieldPath;

const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
const FIELD_MANAGER_BYTES_MAX: usize = 128;
const SUBRESOURCE_BYTES_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Whether objects of a kind stand in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// Checks the metadata of an object that is to be created, its name generated already.
pub(crate) fn validate_object_meta(
    metadata: &ObjectMeta,
    scope: Scope,
    rule: NameRule,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let generate_name = text(&metadata.generate_name);
    if !generate_name.is_empty() {
        errors.invalid_text(&at.child("generateName"), generate_name, rule.check_prefix(generate_name));
    }
    let name = text(&metadata.name);
    if name.is_empty() {
        errors.required(&at.child("name"), "name or generateName is required");
    } else {
        errors.invalid_text(&at.child("name"), name, rule.check(name));
    }
    validate_namespace(metadata, scope, at, errors);
    errors.nonnegative(&at.child("generation"), metadata.generation.unwrap_or(0));
    validate_labels(&metadata.labels, &at.child("labels"), errors);
    validate_annotations(&metadata.annotations, &at.child("annotations"), errors);
    validate_owner_references(items(&metadata.owner_references), &at.child("ownerReferences"), errors);
    validate_finalizers(items(&metadata.finalizers), &at.child("finalizers"), errors);
    validate_managed_fields(items(&metadata.managed_fields), &at.child("managedFields"), errors);
    validate_finalizer_domains(metadata, at, errors);
}

/// Checks the metadata of an object that is to replace another.
pub(crate) fn validate_object_meta_update(new: &ObjectMeta, old: &ObjectMeta, at: &FieldPath, errors: &mut Errors) {
    if old.deletion_timestamp.is_some() {
        validate_no_new_finalizers(items(&new.finalizers), items(&old.finalizers), &at.child("finalizers"), errors);
    }
    if text(&new.resource_version).is_empty() {
        errors.invalid(&at.child("resourceVersion"), "", "must be specified for an update");
    }
    let generation = new.generation.unwrap_or(0);
    if generation < old.generation.unwrap_or(0) {
        errors.invalid(&at.child("generation"), generation, "must not be decremented");
    }
    validate_immutable(text(&new.name), text(&old.name), &at.child("name"), errors);
    validate_immutable(text(&new.namespace), text(&old.namespace), &at.child("namespace"), errors);
    validate_immutable(text(&new.uid), text(&old.uid), &at.child("uid"), errors);
    let created = at.child("creationTimestamp");
    validate_immutable(&new.creation_timestamp, &old.creation_timestamp, &created, errors);
    let deleted = at.child("deletionTimestamp");
    validate_immutable(&new.deletion_timestamp, &old.deletion_timestamp, &deleted, errors);
    let grace = at.child("deletionGracePeriodSeconds");
    validate_immutable(&new.deletion_grace_period_seconds, &old.deletion_grace_period_seconds, &grace, errors);
    validate_labels(&new.labels, &at.child("labels"), errors);
    validate_annotations(&new.annotations, &at.child("annotations"), errors);
    validate_owner_references(items(&new.owner_references), &at.child("ownerReferences"), errors);
    validate_managed_fields(items(&new.managed_fields), &at.child("managedFields"), errors);
    validate_finalizer_domains(new, at, errors);
}

/// The value must be what it was.
pub(crate) fn validate_immutable<T: serde::Serialize + ?Sized>(new: &T, old: &T, at: &FieldPath, errors: &mut Errors) {
    if !is_semantically_equal(new, old) {
        errors.invalid_object(at, &new, IMMUTABLE);
    }
}

pub(crate) fn validate_annotations(
    annotations: &Option<BTreeMap<String, String>>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    for (key, _) in entries(annotations) {
        // Case does not matter in the keys of annotations.
        errors.invalid_text(at, key, names::qualified_name(&key.to_lowercase()));
    }
    validate_annotations_size(annotations, at, errors);
}

pub(crate) fn validate_annotations_size(
    annotations: &Option<BTreeMap<String, String>>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let size: usize = entries(annotations).map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_BYTES_MAX {
        errors.too_long(at, ANNOTATIONS_BYTES_MAX);
    }
}

pub(crate) fn validate_finalizer_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    errors.invalid_text(at, name, names::qualified_name(name));
    validate_finalizer_domain(name, at, errors);
}

fn validate_namespace(metadata: &ObjectMeta, scope: Scope, at: &FieldPath, errors: &mut Errors) {
    let namespace = text(&metadata.namespace);
    match scope {
        Scope::Namespaced => errors.required_label(&at.child("namespace"), namespace),
        Scope::Cluster if !namespace.is_empty() => {
            errors.forbidden(&at.child("namespace"), "not allowed on this type");
        }
        Scope::Cluster => {}
    }
}

fn validate_owner_references(references: &[OwnerReference], at: &FieldPath, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for reference in references {
        validate_owner_reference(reference, at, errors);
        if reference.controller != Some(true) {
            continue;
        }
        let current = format!("{}/{}", reference.kind, reference.name);
        match &controller {
            None => controller = Some(current),
            Some(first) => errors.invalid_object(
                at,
                &references,
                format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {current}"
                ),
            ),
        }
    }
}

fn validate_owner_reference(reference: &OwnerReference, at: &FieldPath, errors: &mut Errors) {
    let version = reference.api_version.rsplit('/').next().unwrap_or("");
    if version.is_empty() || reference.api_version.matches('/').count() > 1 {
        errors.invalid(&at.child("apiVersion"), reference.api_version.as_str(), "version must not be empty");
    }
    let must_not_be_empty = [("kind", &reference.kind), ("name", &reference.name), ("uid", &reference.uid)];
    for (field, value) in must_not_be_empty {
        if value.is_empty() {
            errors.invalid(&at.child(field), "", "must not be empty");
        }
    }
    if reference.api_version == "v1" && reference.kind == "Event" {
        errors.invalid_object(at, reference, "/v1, Kind=Event is disallowed from being an owner");
    }
}

fn validate_finalizers(finalizers: &[String], at: &FieldPath, errors: &mut Errors) {
    for finalizer in finalizers {
        errors.invalid_text(at, finalizer, names::qualified_name(finalizer));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid_object(at, &finalizers, "finalizer orphan and foregroundDeletion cannot be both set");
    }
}

fn validate_finalizer_domains(metadata: &ObjectMeta, at: &FieldPath, errors: &mut Errors) {
    for (index, finalizer) in items(&metadata.finalizers).iter().enumerate() {
        validate_finalizer_domain(finalizer, &at.child("finalizers").index(index), errors);
    }
}

fn validate_finalizer_domain(name: &str, at: &FieldPath, errors: &mut Errors) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        errors.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_no_new_finalizers(new: &[String], old: &[String], at: &FieldPath, errors: &mut Errors) {
    let mut extra: Vec<&String> = new.iter().filter(|finalizer| !old.contains(finalizer)).collect();
    extra.sort();
    extra.dedup();
    if !extra.is_empty() {
        let list = extra.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ");
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
        );
        errors.forbidden(at, detail);
    }
}

fn validate_managed_fields(managed: &[ManagedFieldsEntry], at: &FieldPath, errors: &mut Errors) {
    for (index, entry) in managed.iter().enumerate() {
        let at = at.index(index);
        let operation = text(&entry.operation);
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&at.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = text(&entry.fields_type);
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.invalid(&at.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        validate_field_manager(text(&entry.manager), &at.child("manager"), errors);
        if text(&entry.subresource).len() > SUBRESOURCE_BYTES_MAX {
            errors.too_long(&at.child("subresource"), SUBRESOURCE_BYTES_MAX);
        }
    }
}

pub(crate) fn validate_field_manager(manager: &str, at: &FieldPath, errors: &mut Errors) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.too_long(at, FIELD_MANAGER_BYTES_MAX);
    }
    for (position, character) in manager.char_indices().filter(|(_, character)| character.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
        errors.invalid(at, manager, detail);
    }
}
