//! Updates of a pod: what may change while it lives (L-1230).

use k8s_openapi::api::core::v1::{Affinity, Container, NodeAffinity, NodeSelectorTerm, Pod, PodSpec, Toleration};

use super::annotations::validate_pod_annotation_updates;
use super::scheduling::validate_tolerations;
use super::validate_metadata_and_spec;
use crate::absent::{entries, entry, items, text};
use crate::equality::{difference, is_semantically_equal};
use crate::field::{FieldError, FieldPath};
use crate::validation::errors::Errors;
use crate::validation::meta::validate_object_meta_update;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a pod that is to replace another.
pub fn validate_pod_update(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let empty = PodSpec::default();
    let spec = new.spec.as_ref().unwrap_or(&empty);
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    let (metadata_at, at) = (FieldPath::root("metadata"), FieldPath::root("spec"));
    validate_object_meta_update(&new.metadata, &old.metadata, &metadata_at, &mut errors);
    validate_metadata_and_spec(new, spec, &mut errors);
    validate_pod_annotation_updates(new, spec, old, &metadata_at.child("annotations"), &mut errors);
    validate_mutable_fields(spec, old_spec, &at, &mut errors);
    errors.into_list()
}

fn validate_mutable_fields(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let (init, old_init) = (items(&spec.init_containers), items(&old.init_containers));
    let is_comparable = validate_images(&spec.containers, &old.containers, &at.child("containers"), errors)
        && validate_images(init, old_init, &at.child("initContainers"), errors)
        && validate_deadline(spec, old, &at.child("activeDeadlineSeconds"), errors);
    if !is_comparable {
        return;
    }
    validate_added_tolerations(items(&spec.tolerations), items(&old.tolerations), &at.child("tolerations"), errors);
    validate_removed_gates(spec, old, &at.child("schedulingGates"), errors);
    if is_semantically_equal(spec, old) {
        return;
    }
    let mut masked = without_mutable_fields(spec, old);
    if !items(&old.scheduling_gates).is_empty() {
        validate_gated_changes(&mut masked, old, at, errors);
    }
    if !is_semantically_equal(&masked, old) {
        let difference = difference(old, &masked);
        errors.forbidden(at, format!("pod updates may not change fields other than {UPDATABLE}\n{difference}"));
    }
}

/// False if there are more or fewer containers, so that nothing further can be compared.
fn validate_images(new: &[Container], old: &[Container], at: &FieldPath, errors: &mut Errors) -> bool {
    if new.len() != old.len() {
        errors.forbidden(at, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in new.iter().enumerate() {
        let (at, image) = (at.index(index).child("image"), text(&container.image));
        if image.is_empty() {
            errors.required(&at, "");
        }
        if image.trim() != image {
            errors.invalid(&at, image, "must not have leading or trailing whitespace");
        }
    }
    true
}

/// The deadline may be set, and then only lowered. False if the rest is not to be looked at.
fn validate_deadline(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) -> bool {
    match (spec.active_deadline_seconds, old.active_deadline_seconds) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.in_range(at, new, 0, i64::from(i32::MAX));
            return false;
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(at, new, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(at, serde_json::Value::Null, detail);
        }
        _ => {}
    }
    true
}

/// Old tolerations stay but for their seconds.
fn validate_added_tolerations(new: &[Toleration], old: &[Toleration], at: &FieldPath, errors: &mut Errors) {
    let without_seconds = |it: &Toleration| Toleration { toleration_seconds: None, ..it.clone() };
    let stays = |old: &Toleration| new.iter().any(|new| without_seconds(new) == without_seconds(old));
    if old.iter().all(stays) {
        validate_tolerations(new, at, errors);
    } else {
        errors.forbidden(at, "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn validate_removed_gates(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    for (index, gate) in items(&spec.scheduling_gates).iter().enumerate() {
        if !items(&old.scheduling_gates).contains(gate) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate.name);
            errors.forbidden(&at.index(index).child("name"), detail);
        }
    }
}

/// The new spec with the old values of all that may change: what is left must be equal.
fn without_mutable_fields(spec: &PodSpec, old: &PodSpec) -> PodSpec {
    let mut masked = spec.clone();
    let with_old_images = |containers: &mut [Container], old: &[Container]| {
        for (container, old) in containers.iter_mut().zip(old) {
            container.image.clone_from(&old.image);
        }
    };
    with_old_images(&mut masked.containers, &old.containers);
    with_old_images(masked.init_containers.as_deref_mut().unwrap_or(&mut []), items(&old.init_containers));
    masked.active_deadline_seconds = old.active_deadline_seconds;
    masked.scheduling_gates.clone_from(&old.scheduling_gates);
    masked.tolerations.clone_from(&old.tolerations);
    let grace = old.termination_grace_period_seconds;
    if grace.is_some_and(|seconds| seconds < 0) && masked.termination_grace_period_seconds == Some(1) {
        masked.termination_grace_period_seconds = grace;
    }
    masked
}

/// A pod that is not yet scheduled may be given narrower demands on its node.
fn validate_gated_changes(masked: &mut PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let is_kept = |(key, value): (&str, &String)| entry(&masked.node_selector, key) == Some(value);
    if !entries(&old.node_selector).all(is_kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid_object(&at.child("nodeSelector"), &masked.node_selector, detail);
    }
    masked.node_selector.clone_from(&old.node_selector);
    let affinity_of = |spec: &PodSpec| spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.clone());
    let (new_affinity, old_affinity) = (affinity_of(masked), affinity_of(old));
    if is_semantically_equal(&new_affinity, &old_affinity) {
        return;
    }
    let affinity_at = at.child("affinity").child("nodeAffinity");
    validate_node_affinity_change(new_affinity.as_ref(), old_affinity.as_ref(), &affinity_at, errors);
    match &mut masked.affinity {
        None if old_affinity.is_none() => {}
        None => masked.affinity = Some(Affinity { node_affinity: old_affinity, ..Default::default() }),
        Some(affinity)
            if old.affinity.is_none() && affinity.pod_affinity.is_none() && affinity.pod_anti_affinity.is_none() =>
        {
            masked.affinity = None;
        }
        Some(affinity) => affinity.node_affinity = old_affinity,
    }
}

/// Terms that are there may only be narrowed.
fn validate_node_affinity_change(
    new: Option<&NodeAffinity>,
    old: Option<&NodeAffinity>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let terms = |affinity: Option<&NodeAffinity>| {
        let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.clone());
        required.map(|selector| selector.node_selector_terms)
    };
    let Some(old_terms) = terms(old) else { return };
    let new_terms = terms(new).unwrap_or_default();
    let at = at.child("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms");
    if !old_terms.is_empty() && old_terms.len() != new_terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid_object(&at, &new_terms, detail);
        return;
    }
    for (index, (new, old)) in new_terms.iter().zip(&old_terms).enumerate() {
        if !has_only_additions(new, old) {
            errors.invalid_object(&at.index(index), new, "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn has_only_additions(new: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    let (new_labels, old_labels) = (items(&new.match_expressions), items(&old.match_expressions));
    let (new_fields, old_fields) = (items(&new.match_fields), items(&old.match_fields));
    if old_labels.is_empty() && old_fields.is_empty() {
        return new_labels.is_empty() && new_fields.is_empty();
    }
    new_labels.starts_with(old_labels) && new_fields.starts_with(old_fields)
}
