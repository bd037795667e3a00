//! PersistentVolumeClaims, and the templates of claims in ephemeral volumes.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::errors::Errors;
use super::labels::{validate_label_selector, validate_labels};
use super::meta::{Scope, validate_annotations, validate_object_meta};
use super::names::{self, NameRule};
use super::pod::validate_quantity;
use crate::absent::{entry, items, text};
use crate::field::{FieldError, FieldPath};
use crate::quantity;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks a PersistentVolumeClaim that is to be created.
pub fn validate_persistent_volume_claim(claim: &PersistentVolumeClaim) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&claim.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, &mut errors);
    let empty = PersistentVolumeClaimSpec::default();
    validate_claim_spec(claim.spec.as_ref().unwrap_or(&empty), &FieldPath::root("spec"), &mut errors);
    errors.into_list()
}

pub(crate) fn validate_claim_template(template: &PersistentVolumeClaimTemplate, at: &FieldPath, errors: &mut Errors) {
    if let Some(metadata) = &template.metadata {
        validate_template_metadata(metadata, &at.child("metadata"), errors);
    }
    validate_claim_spec(&template.spec, &at.child("spec"), errors);
}

/// Only labels and annotations of a template are used, so nothing else may be set.
fn validate_template_metadata(metadata: &ObjectMeta, at: &FieldPath, errors: &mut Errors) {
    validate_annotations(&metadata.annotations, &at.child("annotations"), errors);
    validate_labels(&metadata.labels, &at.child("labels"), errors);
    let fields = [
        ("name", !text(&metadata.name).is_empty()),
        ("generateName", !text(&metadata.generate_name).is_empty()),
        ("namespace", !text(&metadata.namespace).is_empty()),
        ("selfLink", !text(&metadata.self_link).is_empty()),
        ("uID", !text(&metadata.uid).is_empty()),
        ("resourceVersion", !text(&metadata.resource_version).is_empty()),
        ("generation", metadata.generation.unwrap_or(0) != 0),
        ("creationTimestamp", metadata.creation_timestamp.is_some()),
        ("deletionTimestamp", metadata.deletion_timestamp.is_some()),
        ("deletionGracePeriodSeconds", metadata.deletion_grace_period_seconds.is_some()),
        ("ownerReferences", !items(&metadata.owner_references).is_empty()),
        ("finalizers", !items(&metadata.finalizers).is_empty()),
        ("managedFields", !items(&metadata.managed_fields).is_empty()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.forbidden(&at.child(field), "cannot be set");
    }
}

fn validate_claim_spec(spec: &PersistentVolumeClaimSpec, at: &FieldPath, errors: &mut Errors) {
    validate_access_modes(items(&spec.access_modes), spec, at, errors);
    validate_storage(spec, &at.child("resources").key("storage"), errors);
    let class = text(&spec.storage_class_name);
    if !class.is_empty() {
        errors.invalid_text(&at.child("storageClassName"), class, names::dns_subdomain(class));
    }
    if let Some(mode) = &spec.volume_mode {
        errors.one_of(&at.child("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    validate_data_sources(spec, at, errors);
    let attributes = text(&spec.volume_attributes_class_name);
    if !attributes.is_empty() {
        errors.invalid_text(&at.child("volumeAttributesClassName"), attributes, names::dns_subdomain(attributes));
    }
}

fn validate_access_modes(modes: &[String], spec: &PersistentVolumeClaimSpec, at: &FieldPath, errors: &mut Errors) {
    let modes_at = at.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "at least 1 access mode is required");
    }
    validate_label_selector(spec.selector.as_ref(), &at.child("selector"), errors);
    for mode in modes {
        errors.one_of(&modes_at, mode, &ACCESS_MODES);
    }
    let is_single = |mode: &String| mode == "ReadWriteOncePod";
    let is_shared = |mode: &String| !is_single(mode) && ACCESS_MODES.contains(&mode.as_str());
    if modes.iter().any(is_single) && modes.iter().any(is_shared) {
        errors.forbidden(&modes_at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_storage(spec: &PersistentVolumeClaimSpec, at: &FieldPath, errors: &mut Errors) {
    let storage = spec.resources.as_ref().and_then(|resources| entry(&resources.requests, "storage"));
    let Some(storage) = storage else {
        errors.required(at, "");
        return;
    };
    match quantity::parse(&storage.0) {
        Ok(amount) if amount <= quantity::Amount::ZERO => {
            errors.invalid(at, quantity::canonical(storage), "must be greater than zero");
        }
        _ => validate_quantity("storage", storage, at, errors),
    }
}

fn validate_data_sources(spec: &PersistentVolumeClaimSpec, at: &FieldPath, errors: &mut Errors) {
    if let Some(source) = &spec.data_source {
        let at = at.child("dataSource");
        validate_data_source(&source.name, &source.kind, text(&source.api_group), &at, errors);
    }
    let Some(reference) = &spec.data_source_ref else { return };
    let reference_at = at.child("dataSourceRef");
    validate_data_source(&reference.name, &reference.kind, text(&reference.api_group), &reference_at, errors);
    let namespace = text(&reference.namespace);
    if !namespace.is_empty() {
        errors.invalid_text(&reference_at.child("namespace"), namespace, names::dns_label(namespace));
    }
    let Some(source) = &spec.data_source else { return };
    let is_same =
        source.api_group == reference.api_group && source.kind == reference.kind && source.name == reference.name;
    if !namespace.is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid_object(at, &serde_json::json!({}), detail);
    } else if !is_same {
        errors.invalid_object(at, &serde_json::json!({}), "must match dataSourceRef");
    }
}

fn validate_data_source(name: &str, kind: &str, group: &str, at: &FieldPath, errors: &mut Errors) {
    for (field, value) in [("name", name), ("kind", kind)] {
        if value.is_empty() {
            errors.required(&at.child(field), "");
        }
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() {
        errors.invalid_text(&at.child("apiGroup"), group, names::dns_subdomain(group));
    }
}
