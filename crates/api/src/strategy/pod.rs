//! Pods: what the server sets on create and keeps on update.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, Pod, PodAffinityTerm, PodCondition, PodSpec, PodStatus, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, Time};

use super::gates::{Gates, drop_disabled_pod_fields};
use super::{bump_generation, reset_metadata_for_status};
use crate::absent::{entry, items, items_mut, text};
use crate::containers;
use crate::field::FieldPath;
use crate::qos::compute_qos_class;
use crate::validation::errors::Errors;
use crate::validation::pod::{APP_ARMOR_CONTAINER, validate_app_armor_profile};

type Labels = Option<BTreeMap<String, String>>;

/// Makes a new pod of what was sent: Pending, of its QoS class, generation 1.
/// Gives the warnings that only show before annotations become fields.
pub fn prepare_for_create(pod: &mut Pod, now: Timestamp, gates: Gates) -> Vec<String> {
    pod.metadata.generation = Some(1);
    let qos_class = Some(compute_qos_class(pod).as_str().to_owned());
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), qos_class, ..Default::default() });
    drop_disabled_pod_fields(pod, None, gates);
    add_gated_condition(pod, now);
    merge_match_label_keys(pod);
    app_armor_annotations_to_fields(pod)
}

/// Keeps the status, and counts the generation up if the spec changes.
pub fn prepare_for_update(new: &mut Pod, old: &Pod, gates: Gates) {
    new.status.clone_from(&old.status);
    drop_disabled_pod_fields(new, Some(old), gates);
    bump_generation(&mut new.metadata, &old.metadata, &new.spec, &old.spec);
}

/// Keeps the spec and the owners; a status that leaves out its QoS class or observed generations keeps those too.
pub fn prepare_for_status_update(new: &mut Pod, old: &Pod, gates: Gates) {
    new.spec.clone_from(&old.spec);
    new.metadata.deletion_timestamp.clone_from(&old.metadata.deletion_timestamp);
    new.metadata.generation = old.metadata.generation;
    new.metadata.owner_references.clone_from(&old.metadata.owner_references);
    let status = new.status.get_or_insert_default();
    let empty = PodStatus::default();
    let old_status = old.status.as_ref().unwrap_or(&empty);
    if text(&status.qos_class).is_empty() {
        status.qos_class.clone_from(&old_status.qos_class);
    }
    keep_observed_generations(status, old_status);
    drop_disabled_pod_fields(new, Some(old), gates);
}

/// Takes the ephemeral containers and nothing else (`ephemeralcontainers`).
pub fn prepare_for_ephemeral_containers_update(new: &mut Pod, old: &Pod, gates: Gates) {
    let ephemeral = new.spec.take().and_then(|spec| spec.ephemeral_containers);
    new.spec.clone_from(&old.spec);
    new.spec.get_or_insert_default().ephemeral_containers = ephemeral;
    new.status.clone_from(&old.status);
    reset_metadata_for_status(&mut new.metadata, &old.metadata);
    drop_disabled_pod_fields(new, Some(old), gates);
    bump_generation(&mut new.metadata, &old.metadata, &new.spec, &old.spec);
}

/// Takes the resources and resize policies of containers and the pod's own resources, and nothing else (`resize`).
/// If there are other containers, all is left for validation to refuse.
pub fn prepare_for_resize(new: &mut Pod, old: &Pod, gates: Gates) {
    let sent = new.spec.clone().unwrap_or_default();
    let old_spec = old.spec.clone().unwrap_or_default();
    let is_same_size = sent.containers.len() == old_spec.containers.len()
        && items(&sent.init_containers).len() == items(&old_spec.init_containers).len();
    if is_same_size {
        let init = merged_resources(items(&sent.init_containers), items(&old_spec.init_containers));
        new.spec = Some(PodSpec {
            containers: merged_resources(&sent.containers, &old_spec.containers),
            init_containers: old_spec.init_containers.as_ref().map(|_| init),
            resources: sent.resources,
            ..old_spec
        });
        new.status.clone_from(&old.status);
        reset_metadata_for_status(&mut new.metadata, &old.metadata);
    }
    drop_disabled_pod_fields(new, Some(old), gates);
    bump_generation(&mut new.metadata, &old.metadata, &new.spec, &old.spec);
}

/// The old containers with the new resources; the new ones as they are if they are not the same containers.
fn merged_resources(new: &[Container], old: &[Container]) -> Vec<Container> {
    if new.iter().zip(old).any(|(new, old)| new.name != old.name) {
        return new.to_vec();
    }
    let merge = |(new, old): (&Container, &Container)| Container {
        resources: new.resources.clone(),
        resize_policy: new.resize_policy.clone(),
        ..old.clone()
    };
    new.iter().zip(old).map(merge).collect()
}

fn add_gated_condition(pod: &mut Pod, now: Timestamp) {
    let is_gated = pod.spec.as_ref().is_some_and(|spec| !items(&spec.scheduling_gates).is_empty());
    if let Some(status) = pod.status.as_mut().filter(|_| is_gated) {
        status.conditions.get_or_insert_default().push(PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("SchedulingGated".to_owned()),
            message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
            last_transition_time: Some(Time(now)),
            ..Default::default()
        });
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` become requirements with the pod's own values.
fn merge_match_label_keys(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone();
    let Some(spec) = &mut pod.spec else { return };
    if let Some(affinity) = &mut spec.affinity {
        let pod_affinity = affinity.pod_affinity.iter_mut().map(|it| {
            let required = &mut it.required_during_scheduling_ignored_during_execution;
            (required, &mut it.preferred_during_scheduling_ignored_during_execution)
        });
        let anti_affinity = affinity.pod_anti_affinity.iter_mut().map(|it| {
            let required = &mut it.required_during_scheduling_ignored_during_execution;
            (required, &mut it.preferred_during_scheduling_ignored_during_execution)
        });
        for (required, preferred) in pod_affinity.chain(anti_affinity) {
            let preferred = items_mut(preferred).iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
            preferred.chain(items_mut(required)).for_each(|term| merge_term_keys(term, &labels));
        }
    }
    for constraint in items_mut(&mut spec.topology_spread_constraints) {
        if let Some(selector) = &mut constraint.label_selector {
            merge_keys(selector, items(&constraint.match_label_keys), "In", &labels);
        }
    }
}

fn merge_term_keys(term: &mut PodAffinityTerm, labels: &Labels) {
    if let Some(selector) = &mut term.label_selector {
        merge_keys(selector, items(&term.match_label_keys), "In", labels);
        merge_keys(selector, items(&term.mismatch_label_keys), "NotIn", labels);
    }
}

fn merge_keys(selector: &mut LabelSelector, keys: &[String], operator: &str, labels: &Labels) {
    for key in keys {
        if let Some(value) = entry(labels, key) {
            selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
}

/// Old annotations of AppArmor become fields, each with a warning.
fn app_armor_annotations_to_fields(pod: &mut Pod) -> Vec<String> {
    let annotations = pod.metadata.annotations.clone();
    let Some(spec) = &mut pod.spec else { return Vec::new() };
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return Vec::new();
    }
    let of_pod = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.clone());
    let mut warnings = Vec::new();
    containers::for_each_mut(spec, |container| {
        let key = format!("{APP_ARMOR_CONTAINER}{}", container.name);
        let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
        let Some(annotation) = entry(&annotations, &key).filter(|_| own.is_none()) else { return };
        let profile = app_armor_profile(annotation);
        if profile.is_some() && profile == of_pod {
            return;
        }
        if profile.is_some() {
            let context: &mut SecurityContext = container.security_context.get_or_insert_default();
            context.app_armor_profile = profile;
        }
        let at = FieldPath::root("metadata").child("annotations").key(&key);
        warnings.push(format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead"));
    });
    warnings
}

/// The profile that an annotation names; `None` if it names none that could be a field.
pub(crate) fn app_armor_profile(annotation: &str) -> Option<AppArmorProfile> {
    let (kind, name) = match annotation {
        "unconfined" => ("Unconfined", None),
        "runtime/default" => ("RuntimeDefault", None),
        _ => ("Localhost", Some(annotation.strip_prefix("localhost/").filter(|name| !name.is_empty())?)),
    };
    let profile = AppArmorProfile { type_: kind.to_owned(), localhost_profile: name.map(str::to_owned) };
    let mut errors = Errors::default();
    validate_app_armor_profile(Some(&profile), &FieldPath::root(""), &mut errors);
    errors.is_empty().then_some(profile)
}

fn keep_observed_generations(new: &mut PodStatus, old: &PodStatus) {
    if new.observed_generation.unwrap_or(0) == 0 {
        new.observed_generation = old.observed_generation;
    }
    // A type may stand there more than once; the first of the new ones takes after the first of the old.
    let mut generations: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for condition in items(&old.conditions).iter().rev() {
        let generation = condition.observed_generation.unwrap_or(0);
        generations.entry(&condition.type_).or_default().push(generation);
    }
    for condition in items_mut(&mut new.conditions) {
        let old = generations.get_mut(condition.type_.as_str()).and_then(|generations| generations.pop());
        if condition.observed_generation.unwrap_or(0) == 0 {
            condition.observed_generation = old.filter(|generation| *generation != 0);
        }
    }
}
