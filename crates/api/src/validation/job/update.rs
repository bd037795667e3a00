//! Updates of a Job: what may change, and when (J-18 to J-20, J-44).

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{Affinity, Container, PodSpec, PodTemplateSpec};

use super::spec::validate_job_spec;
use super::validate_whole;
use crate::absent::{entry, flag, items, items_mut, text};
use crate::field::{FieldError, FieldPath};
use crate::validation::errors::Errors;
use crate::validation::job::status::is_condition_true;
use crate::validation::meta::{validate_immutable, validate_object_meta_update};

/// Checks a Job that is to replace another.
pub fn validate_job_update(new: &Job, old: &Job) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let empty = JobSpec::default();
    let spec = new.spec.as_ref().unwrap_or(&empty);
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    // A Job from before the prefixed labels needs none.
    let labels = old_spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    let prefixed = ["batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"];
    validate_whole(new, prefixed.iter().all(|label| entry(&labels, label).is_some()), &mut errors);
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    let at = FieldPath::root("spec");
    validate_job_spec(spec, &at, &mut errors);
    validate_completions(spec, old_spec, &at.child("completions"), &mut errors);
    validate_immutable(&spec.selector, &old_spec.selector, &at.child("selector"), &mut errors);
    validate_template_update(spec, old_spec, may_change_template(old), &at, &mut errors);
    let mode_at = at.child("completionMode");
    validate_immutable(&spec.completion_mode, &old_spec.completion_mode, &mode_at, &mut errors);
    let policy_at = at.child("podFailurePolicy");
    validate_immutable(&spec.pod_failure_policy, &old_spec.pod_failure_policy, &policy_at, &mut errors);
    let limit_at = at.child("backoffLimitPerIndex");
    validate_immutable(&spec.backoff_limit_per_index, &old_spec.backoff_limit_per_index, &limit_at, &mut errors);
    validate_immutable(&spec.managed_by, &old_spec.managed_by, &at.child("managedBy"), &mut errors);
    let success_at = at.child("successPolicy");
    validate_immutable(&spec.success_policy, &old_spec.success_policy, &success_at, &mut errors);
    errors.into_list()
}

/// J-44: an Indexed Job grows and shrinks with its parallelism.
fn validate_completions(spec: &JobSpec, old: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    if text(&spec.completion_mode) != "Indexed" {
        validate_immutable(&spec.completions, &old.completions, at, errors);
        return;
    }
    let Some(completions) = spec.completions.filter(|_| spec.completions != old.completions) else { return };
    if Some(completions) != spec.parallelism {
        errors.invalid(at, completions, "can only be modified in tandem with spec.parallelism");
    }
}

/// J-20: whether no pod was made from the template, or none is left.
fn may_change_template(old: &Job) -> bool {
    let empty = JobStatus::default();
    let status = old.status.as_ref().unwrap_or(&empty);
    let is_suspended = old.spec.as_ref().is_some_and(|spec| flag(spec.suspend));
    let has_settled = status.start_time.is_none() || is_condition_true(status, "Suspended");
    is_suspended && has_settled && status.active.unwrap_or(0) == 0
}

fn validate_template_update(spec: &JobSpec, old: &JobSpec, may_change: bool, at: &FieldPath, errors: &mut Errors) {
    let mut expected = old.template.clone();
    if may_change {
        take_scheduling_directives(&mut expected, &spec.template);
        let empty = PodSpec::default();
        let new = spec.template.spec.as_ref().unwrap_or(&empty);
        let expected = expected.spec.get_or_insert_default();
        take_resources(&mut expected.containers, &new.containers);
        take_resources(items_mut(&mut expected.init_containers), items(&new.init_containers));
        validate_immutable(new, expected, &at.child("template.spec"), errors);
    } else {
        validate_immutable(&spec.template, &expected, &at.child("template"), errors);
    }
}

/// Gives the old template what the new one may say otherwise.
fn take_scheduling_directives(old: &mut PodTemplateSpec, new: &PodTemplateSpec) {
    let metadata = old.metadata.get_or_insert_default();
    let new_metadata = new.metadata.clone().unwrap_or_default();
    metadata.annotations = new_metadata.annotations;
    metadata.labels = new_metadata.labels;
    let spec = old.spec.get_or_insert_default();
    let empty = PodSpec::default();
    let new = new.spec.as_ref().unwrap_or(&empty);
    spec.node_selector.clone_from(&new.node_selector);
    spec.tolerations.clone_from(&new.tolerations);
    spec.scheduling_gates.clone_from(&new.scheduling_gates);
    match (&mut spec.affinity, &new.affinity) {
        (Some(affinity), Some(new)) => affinity.node_affinity.clone_from(&new.node_affinity),
        (Some(affinity), None) => {
            affinity.node_affinity = None;
            if *affinity == Affinity::default() {
                spec.affinity = None;
            }
        }
        (None, Some(new)) => {
            let node_affinity = new.node_affinity.clone();
            spec.affinity = Some(Affinity { node_affinity, ..Default::default() });
        }
        (None, None) => {}
    }
}

fn take_resources(old: &mut [Container], new: &[Container]) {
    if old.len() != new.len() {
        return;
    }
    for (old, new) in old.iter_mut().zip(new).filter(|(old, new)| old.name == new.name) {
        old.resources.clone_from(&new.resources);
    }
}
