//! Updates of a pod's status by its node (L-1231).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, ResourceStatus};

use super::annotations::validate_pod_annotation_updates;
use crate::absent::{entry, items, text};
use crate::field::{FieldError, FieldPath};
use crate::validation::addresses;
use crate::validation::errors::Errors;
use crate::validation::meta::{validate_immutable, validate_object_meta_update};
use crate::validation::names;

const ID_MAX: i64 = i32::MAX as i64;
const HEALTH_MESSAGE_BYTES_MAX: usize = 1024;
const ONE_IP_PER_FAMILY: &str = "may specify no more than one IP for each IP family";

/// Checks a pod whose status is to change.
pub fn validate_pod_status_update(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (empty_spec, empty) = (PodSpec::default(), PodStatus::default());
    let spec = new.spec.as_ref().unwrap_or(&empty_spec);
    let old_spec = old.spec.as_ref().unwrap_or(&empty_spec);
    let status = new.status.as_ref().unwrap_or(&empty);
    let old_status = old.status.as_ref().unwrap_or(&empty);
    let (metadata_at, at) = (FieldPath::root("metadata"), FieldPath::root("status"));
    validate_object_meta_update(&new.metadata, &old.metadata, &metadata_at, &mut errors);
    validate_pod_annotation_updates(new, spec, old, &metadata_at.child("annotations"), &mut errors);
    validate_conditions(items(&status.conditions), &at.child("conditions"), &mut errors);
    if text(&spec.node_name) != text(&old_spec.node_name) {
        errors.forbidden(&at.child("nodeName"), "may not be changed directly");
    }
    validate_nominated_node(status, old_status, old_spec, &at.child("nominatedNodeName"), &mut errors);
    let generation = status.observed_generation.unwrap_or(0);
    if generation < 0 {
        errors.invalid(&at.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    let qos_at = at.child("qosClass");
    validate_immutable(text(&status.qos_class), text(&old_status.qos_class), &qos_at, &mut errors);
    validate_container_states(status, old_status, old_spec, &at, &mut errors);
    validate_claim_statuses(status, spec, &at.child("resourceClaimStatuses"), &mut errors);
    validate_pod_ips(status, &at.child("podIPs"), &mut errors);
    validate_host_ips(status, &at.child("hostIPs"), &mut errors);
    validate_users(status, spec, &at, &mut errors);
    validate_allocated_resources(status, spec, &at, &mut errors);
    errors.into_list()
}

fn validate_conditions(conditions: &[PodCondition], at: &FieldPath, errors: &mut Errors) {
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let generation = condition.observed_generation.unwrap_or(0);
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        if !matches!(condition.type_.as_str(), "PodScheduled" | "Ready" | "Initialized") {
            errors.invalid_text(&at.child("Type"), &condition.type_, names::qualified_name(&condition.type_));
        }
    }
}

fn validate_nominated_node(
    status: &PodStatus,
    old_status: &PodStatus,
    old_spec: &PodSpec,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let node = text(&status.nominated_node_name);
    if node.is_empty() || node == text(&old_status.nominated_node_name) {
        return;
    }
    errors.invalid_text(at, node, names::dns_subdomain(node));
    if !text(&old_spec.node_name).is_empty() {
        errors.forbidden(at, "may not be set on pods that are already bound to a node");
    }
}

fn validate_container_states(status: &PodStatus, old: &PodStatus, spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let any_can_restart_all = all_containers_could_restart(spec);
    let lists = [
        ("containerStatuses", &status.container_statuses, &old.container_statuses, spec.containers.as_slice()),
        (
            "initContainerStatuses",
            &status.init_container_statuses,
            &old.init_container_statuses,
            items(&spec.init_containers),
        ),
    ];
    for (field, new, old, containers) in lists {
        let may_restart = |name: &str, exit_code: i32| {
            let container = containers.iter().find(|container| container.name == name);
            any_can_restart_all || container.is_some_and(|container| should_restart(container, spec, exit_code))
        };
        validate_transitions(items(new), items(old), may_restart, &at.child(field), errors);
    }
    let field = "ephemeralContainerStatuses";
    let (new, old) = (items(&status.ephemeral_container_statuses), items(&old.ephemeral_container_statuses));
    validate_transitions(new, old, |_, _| false, &at.child(field), errors);
}

/// What has ended stays ended unless it may be started again.
fn validate_transitions(
    new: &[ContainerStatus],
    old: &[ContainerStatus],
    may_restart: impl Fn(&str, i32) -> bool,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let terminated = |status: &ContainerStatus| status.state.as_ref().and_then(|state| state.terminated.clone());
    for (index, old) in old.iter().enumerate() {
        let Some(end) = terminated(old) else { continue };
        let lives_again = new.iter().any(|new| new.name == old.name && terminated(new).is_none());
        if lives_again && !may_restart(&old.name, end.exit_code) {
            errors.forbidden(&at.index(index).child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// L-105: whether a container that ended with this code is started again.
fn should_restart(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    let own = container.restart_policy.as_deref();
    if own.is_some() {
        let rule = items(&container.restart_policy_rules).iter().find(|rule| {
            rule.exit_codes.as_ref().is_some_and(|codes| {
                let is_listed = items(&codes.values).contains(&exit_code);
                (codes.operator == "In" && is_listed) || (codes.operator == "NotIn" && !is_listed)
            })
        });
        if rule.is_some_and(|rule| matches!(rule.action.as_str(), "Restart" | "RestartAllContainers")) {
            return true;
        }
    }
    let known = own.filter(|policy| matches!(*policy, "Always" | "OnFailure" | "Never"));
    match known.unwrap_or(text(&spec.restart_policy)) {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    }
}

fn all_containers_could_restart(spec: &PodSpec) -> bool {
    let containers = items(&spec.init_containers).iter().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| items(&container.restart_policy_rules));
    rules.any(|rule| rule.action == "RestartAllContainers")
}

fn validate_claim_statuses(status: &PodStatus, spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(&status.resource_claim_statuses).iter().enumerate() {
        let at = at.index(index);
        if !items(&spec.resource_claims).iter().any(|known| known.name == claim.name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&at.child("name"), claim.name.as_str(), detail);
        }
        if !seen.insert(claim.name.as_str()) {
            errors.duplicate(&at.child("name"), claim.name.as_str());
        }
        if let Some(name) = &claim.resource_claim_name {
            errors.invalid_text(&at.child("resourceClaimName"), name, names::dns_subdomain(name));
        }
    }
}

fn validate_pod_ips(status: &PodStatus, at: &FieldPath, errors: &mut Errors) {
    let ips: Vec<&str> = items(&status.pod_ips).iter().map(|ip| ip.ip.as_str()).collect();
    validate_ips(&ips, &status.pod_ips, at, errors);
}

fn validate_host_ips(status: &PodStatus, at: &FieldPath, errors: &mut Errors) {
    let ips: Vec<&str> = items(&status.host_ips).iter().map(|ip| ip.ip.as_str()).collect();
    let Some(first) = ips.first() else { return };
    if *first != text(&status.host_ip) {
        errors.invalid(&at.index(0).child("ip"), *first, "must be equal to `hostIP`");
    }
    validate_ips(&ips, &status.host_ips, at, errors);
}

fn validate_ips<T: serde::Serialize>(ips: &[&str], list: &T, at: &FieldPath, errors: &mut Errors) {
    for (index, ip) in ips.iter().enumerate() {
        errors.invalid_text(&at.index(index), ip, addresses::ip(ip));
    }
    if ips.len() > 2 || (ips.len() == 2 && !addresses::is_dual_stack(ips.iter().copied())) {
        errors.invalid_object(at, list, ONE_IP_PER_FAMILY);
    }
}

fn validate_users(status: &PodStatus, spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let lists = [
        ("containerStatuses", items(&status.container_statuses)),
        ("initContainerStatuses", items(&status.init_container_statuses)),
        ("ephemeralContainerStatuses", items(&status.ephemeral_container_statuses)),
    ];
    let os = spec.os.as_ref().map_or("linux", |os| os.name.as_str());
    for (field, statuses) in lists {
        for (index, container) in statuses.iter().enumerate() {
            let Some(user) = container.user.as_ref().and_then(|user| user.linux.as_ref()) else { continue };
            let at = at.child(field).index(index).child("user").child("linux");
            if os == "windows" {
                errors.forbidden(&at, "cannot be set for a windows pod");
            } else if os == "linux" {
                errors.in_range(&at.child("uid"), user.uid, 0, ID_MAX);
                errors.in_range(&at.child("gid"), user.gid, 0, ID_MAX);
                for (group_index, group) in items(&user.supplemental_groups).iter().enumerate() {
                    errors.in_range(&at.child("supplementalGroups").index(group_index), *group, 0, ID_MAX);
                }
            }
        }
    }
}

fn validate_allocated_resources(status: &PodStatus, spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let lists = [
        ("containerStatuses", items(&status.container_statuses), spec.containers.as_slice()),
        ("initContainerStatuses", items(&status.init_container_statuses), items(&spec.init_containers)),
    ];
    for (field, statuses, containers) in lists {
        for (index, status) in statuses.iter().enumerate() {
            let container = containers.iter().find(|container| container.name == status.name);
            let at = at.child(field).index(index).child("allocatedResourcesStatus");
            for (resource_index, resource) in items(&status.allocated_resources_status).iter().enumerate() {
                validate_allocated_resource(resource, container, &at.index(resource_index), errors);
            }
        }
    }
    for (index, status) in items(&status.ephemeral_container_statuses).iter().enumerate() {
        if !items(&status.allocated_resources_status).is_empty() {
            let at = at.child("ephemeralContainerStatuses").index(index).child("allocatedResourcesStatus");
            errors.forbidden(&at, "must not be specified in container status");
        }
    }
}

fn validate_allocated_resource(
    resource: &ResourceStatus,
    container: Option<&Container>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    // A container that the spec does not have is nobody's fault here.
    if let Some(requirements) = container.map(|container| container.resources.clone().unwrap_or_default()) {
        let (is_known, detail) = match resource.name.strip_prefix("claim:") {
            Some(claim) => {
                let is_known = items(&requirements.claims).iter().any(|known| match text(&known.request) {
                    "" => known.name == claim,
                    request => format!("{}/{request}", known.name) == claim,
                });
                let detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
                (is_known, detail)
            }
            None => {
                let is_known = entry(&requirements.requests, &resource.name).is_some();
                (is_known, "must match one of the container's resource requests")
            }
        };
        if !is_known {
            errors.invalid(&at.child("name"), resource.name.as_str(), detail);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, health) in items(&resource.resources).iter().enumerate() {
        let at = at.child("resources").index(index);
        errors.one_of(&at.child("health"), text(&health.health), &["Healthy", "Unhealthy", "Unknown"]);
        if health.message.as_ref().is_some_and(|message| message.is_empty()) {
            errors.required(&at.child("message"), "must be non-empty if specified");
        } else if text(&health.message).len() > HEALTH_MESSAGE_BYTES_MAX {
            errors.too_long(&at.child("message"), HEALTH_MESSAGE_BYTES_MAX);
        }
        if !seen.insert(health.resource_id.as_str()) {
            errors.duplicate(&at.child("resourceID"), health.resource_id.as_str());
        }
    }
}
