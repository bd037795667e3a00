//! The three lists of containers: what each role may and must have (L-1204 to L-1219).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodSpec};

use super::container::{Surroundings, validate_common, validate_host_ports_unique, validate_image_has_no_spaces};
use super::{probes, restart};
use crate::absent::{items, text};
use crate::containers::{common, is_sidecar};
use crate::field::FieldPath;
use crate::validation::errors::Errors;

const ONLY_FOR_SIDECARS: &str = "may not be set for init containers without restartPolicy=Always";
const NOT_FOR_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

pub(super) fn validate_regular_containers(
    spec: &PodSpec,
    surroundings: &Surroundings<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if spec.containers.is_empty() {
        errors.required(at, "");
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let at = at.index(index);
        validate_common(container, surroundings, &at, errors);
        if !seen.insert(container.name.as_str()) {
            errors.duplicate(&at.child("name"), container.name.as_str());
        }
        probes::validate_hooks_and_probes(container, surroundings, &at, errors);
        restart::validate_restart_policy(container, &at, errors);
    }
    validate_host_ports_unique(&spec.containers, at, errors);
}

pub(super) fn validate_init_containers(
    spec: &PodSpec,
    surroundings: &Surroundings<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mut seen: BTreeSet<&str> = spec.containers.iter().map(|container| container.name.as_str()).collect();
    for (index, container) in items(&spec.init_containers).iter().enumerate() {
        let list_at = at;
        let at = at.index(index);
        validate_common(container, surroundings, &at, errors);
        restart::validate_init_restart_policy(container, &at, errors);
        if seen.contains(container.name.as_str()) {
            errors.duplicate(&at.child("name"), container.name.as_str());
        } else if !container.name.is_empty() {
            seen.insert(&container.name);
        }
        // They run one by one, so each is checked alone, and Kubernetes then names the first of the list.
        validate_host_ports_unique(std::slice::from_ref(container), list_at, errors);
        if is_sidecar(container) {
            probes::validate_hooks_and_probes(container, surroundings, &at, errors);
        } else {
            validate_plain_init_container(container, &at, errors);
        }
    }
}

/// L-1204, L-1205, L-1218: a container that runs to its end can't be probed, hooked or restarted by a resize.
fn validate_plain_init_container(container: &Container, at: &FieldPath, errors: &mut Errors) {
    let fields = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.forbidden(&at.child(field), ONLY_FOR_SIDECARS);
    }
    for (index, policy) in items(&container.resize_policy).iter().enumerate() {
        if policy.restart_policy == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            let policy_at = at.child("resizePolicy").index(index);
            errors.invalid(&policy_at.child("restartPolicy"), policy.restart_policy.as_str(), detail);
        }
    }
}

pub(super) fn validate_ephemeral_containers(
    spec: &PodSpec,
    surroundings: &Surroundings<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let others = spec.containers.iter().chain(items(&spec.init_containers)).map(|container| container.name.as_str());
    let others: BTreeSet<&str> = others.collect();
    let mut seen = others.clone();
    for (index, container) in items(&spec.ephemeral_containers).iter().enumerate() {
        let at = at.index(index);
        let shared = common(container);
        validate_common(&shared, surroundings, &at, errors);
        validate_image_has_no_spaces(&shared, &at, errors);
        if !seen.insert(&container.name) {
            errors.duplicate(&at.child("name"), container.name.as_str());
        }
        let target = text(&container.target_container_name);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&at.child("targetContainerName"), target, "");
        }
        validate_ephemeral_fields(container, &at, errors);
    }
}

/// Fields in the order of Kubernetes' type.
fn validate_ephemeral_fields(container: &EphemeralContainer, at: &FieldPath, errors: &mut Errors) {
    let has_resources = container.resources.as_ref().is_some_and(|it| *it != Default::default());
    let fields = [
        ("ports", !items(&container.ports).is_empty()),
        ("resources", has_resources),
        ("resizePolicy", !items(&container.resize_policy).is_empty()),
        ("restartPolicy", container.restart_policy.is_some()),
        ("restartPolicyRules", !items(&container.restart_policy_rules).is_empty()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("lifecycle", container.lifecycle.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.forbidden(&at.child(field), NOT_FOR_EPHEMERAL);
    }
    for (index, mount) in items(&container.volume_mounts).iter().enumerate() {
        let at = at.child("volumeMounts").index(index);
        for (field, value) in [("subPath", &mount.sub_path), ("subPathExpr", &mount.sub_path_expr)] {
            if !text(value).is_empty() {
                errors.forbidden(&at.child(field), NOT_FOR_EPHEMERAL);
            }
        }
    }
}
