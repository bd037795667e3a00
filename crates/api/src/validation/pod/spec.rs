//! A pod's spec, field after field.

use k8s_openapi::api::core::v1::PodSpec;

use super::container::Surroundings;
use super::{
    Owner, affinity, claims, container_lists, env, host, network, os, resources, scheduling, security, volume, windows,
};
use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::labels::validate_labels;
use crate::validation::names::{dns_label, dns_subdomain};

pub(super) fn validate_pod_spec(spec: &PodSpec, owner: Owner<'_>, at: &FieldPath, errors: &mut Errors) {
    if spec.termination_grace_period_seconds.is_none() {
        errors.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = volume::validate_volumes(items(&spec.volumes), owner, &at.child("volumes"), errors);
    let claim_names = claims::claim_names(items(&spec.resource_claims));
    claims::validate_resource_claims(items(&spec.resource_claims), owner, &at.child("resourceClaims"), errors);
    let surroundings = Surroundings {
        volumes,
        claim_names,
        grace_period_seconds: spec.termination_grace_period_seconds,
        restart_policy: text(&spec.restart_policy),
        host_users: spec.host_users.unwrap_or(true),
        os: spec.os.as_ref().map(|os| os.name.as_str()),
    };
    container_lists::validate_regular_containers(spec, &surroundings, &at.child("containers"), errors);
    container_lists::validate_init_containers(spec, &surroundings, &at.child("initContainers"), errors);
    container_lists::validate_ephemeral_containers(spec, &surroundings, &at.child("ephemeralContainers"), errors);
    resources::validate_pod_level(spec, &surroundings.claim_names, at, errors);
    network::validate_host_ports_match(spec, owner, at, errors);
    let restart_policies = ["Always", "OnFailure", "Never"];
    errors.required_one_of(&at.child("restartPolicy"), text(&spec.restart_policy), &restart_policies);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.required_one_of(&at.child("dnsPolicy"), text(&spec.dns_policy), &dns_policies);
    validate_labels(&spec.node_selector, &at.child("nodeSelector"), errors);
    security::validate_pod_security_context(spec, &at.child("securityContext"), errors);
    affinity::validate_affinity(spec.affinity.as_ref(), &at.child("affinity"), errors);
    network::validate_dns_config(spec, &at.child("dnsConfig"), errors);
    scheduling::validate_readiness_gates(spec, &at.child("readinessGates"), errors);
    scheduling::validate_scheduling_gates(spec, &at.child("schedulingGates"), errors);
    scheduling::validate_topology_spread(spec, &at.child("topologySpreadConstraints"), errors);
    windows::validate_host_process(spec, at, errors);
    host::validate_host_users(spec, at, errors);
    host::validate_hostname_override(spec, at, errors);
    validate_names(spec, at, errors);
    if let Some(runtime_class) = &spec.runtime_class_name {
        errors.invalid_text(&at.child("runtimeClassName"), runtime_class, dns_subdomain(runtime_class));
    }
    if let Some(policy) = &spec.preemption_policy {
        scheduling::validate_preemption_policy(policy, &at.child("preemptionPolicy"), errors);
    }
    resources::validate_overhead(&spec.overhead, &at.child("overhead"), errors);
    os::validate_os(spec, at, errors);
    if let Some(group) = &spec.scheduling_group {
        scheduling::validate_scheduling_group(group, &at.child("schedulingGroup"), errors);
    }
    env::validate_file_key_volumes(spec, at, errors);
}

/// The references and names between the host's settings and the runtime class.
fn validate_names(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    for (field, value) in [("serviceAccountName", &spec.service_account_name), ("nodeName", &spec.node_name)] {
        if !text(value).is_empty() {
            errors.invalid_text(&at.child(field), text(value), dns_subdomain(text(value)));
        }
    }
    if let Some(seconds) = spec.active_deadline_seconds {
        errors.in_range(&at.child("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    for (field, value) in [("hostname", &spec.hostname), ("subdomain", &spec.subdomain)] {
        if !text(value).is_empty() {
            errors.invalid_text(&at.child(field), text(value), dns_label(text(value)));
        }
    }
    scheduling::validate_tolerations(items(&spec.tolerations), &at.child("tolerations"), errors);
    network::validate_host_aliases(items(&spec.host_aliases), &at.child("hostAliases"), errors);
    let priority_class = text(&spec.priority_class_name);
    if !priority_class.is_empty() {
        errors.invalid_text(&at.child("priorityClassName"), priority_class, dns_subdomain(priority_class));
    }
}
