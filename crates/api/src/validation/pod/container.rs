//! What every container is checked for, whatever its role.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ContainerPort, ContainerResizePolicy, Volume};

use super::{env, mounts, resources, security};
use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names;

pub(super) const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What containers are checked against: the rest of their pod.
pub(super) struct Surroundings<'a> {
    /// The volumes without errors.
    pub volumes: BTreeMap<&'a str, &'a Volume>,
    /// The names in `spec.resourceClaims`.
    pub claim_names: BTreeSet<&'a str>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `spec.restartPolicy`.
    pub restart_policy: &'a str,
    /// Whether the pod has the host's users.
    pub host_users: bool,
    /// `spec.os.name`.
    pub os: Option<&'a str>,
}

pub(super) fn validate_common(
    container: &Container,
    surroundings: &Surroundings<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    errors.required_label(&at.child("name"), &container.name);
    if text(&container.image).is_empty() {
        errors.required(&at.child("image"), "");
    }
    let message_policies = ["File", "FallbackToLogsOnError"];
    let message_policy = text(&container.termination_message_policy);
    errors.required_one_of(&at.child("terminationMessagePolicy"), message_policy, &message_policies);
    validate_ports(items(&container.ports), &at.child("ports"), errors);
    env::validate_env(items(&container.env), &at.child("env"), errors);
    env::validate_env_from(items(&container.env_from), &at.child("envFrom"), errors);
    mounts::validate_volume_mounts(container, &surroundings.volumes, &at.child("volumeMounts"), errors);
    mounts::validate_volume_devices(container, &surroundings.volumes, &at.child("volumeDevices"), errors);
    errors.required_one_of(&at.child("imagePullPolicy"), text(&container.image_pull_policy), &PULL_POLICIES);
    let resources_at = at.child("resources");
    resources::validate_container(container.resources.as_ref(), &surroundings.claim_names, &resources_at, errors);
    let resize_at = at.child("resizePolicy");
    validate_resize_policies(items(&container.resize_policy), surroundings.restart_policy, &resize_at, errors);
    let security_at = at.child("securityContext");
    security::validate_security_context(
        container.security_context.as_ref(),
        surroundings.host_users,
        &security_at,
        errors,
    );
}

/// An image reference has no spaces around it; templates are not checked for that, since old clients put tokens there.
pub(super) fn validate_image_has_no_spaces(container: &Container, at: &FieldPath, errors: &mut Errors) {
    let image = text(&container.image);
    if image.trim() != image {
        errors.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
}

/// No two ports of these containers take the same port of the host (L-1212).
pub(super) fn validate_host_ports_unique(containers: &[Container], at: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port_index, port) in items(&container.ports).iter().enumerate() {
            let Some(host_port) = port.host_port.filter(|host_port| *host_port != 0) else { continue };
            let key = format!("{}/{}/{host_port}", text(&port.protocol), text(&port.host_ip));
            if taken.contains(&key) {
                errors.duplicate(&at.index(index).child("ports").index(port_index).child("hostPort"), key);
            } else {
                taken.insert(key);
            }
        }
    }
}

fn validate_ports(ports: &[ContainerPort], at: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = at.index(index);
        let name = text(&port.name);
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if wrong.is_empty() && !seen.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
            errors.invalid_text(&at.child("name"), name, wrong);
        }
        if port.container_port == 0 {
            errors.required(&at.child("containerPort"), "");
        } else {
            errors.port_number(&at.child("containerPort"), port.container_port);
        }
        if let Some(host_port) = port.host_port.filter(|host_port| *host_port != 0) {
            errors.port_number(&at.child("hostPort"), host_port);
        }
        errors.required_one_of(&at.child("protocol"), text(&port.protocol), &PROTOCOLS);
    }
}

/// L-1218: what a resize does to a container.
fn validate_resize_policies(
    policies: &[ContainerResizePolicy],
    pod_restart_policy: &str,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mut seen = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        if !seen.insert(policy.resource_name.as_str()) {
            errors.duplicate(&at.index(index), policy.resource_name.as_str());
        }
        errors.required_one_of(at, &policy.resource_name, &["cpu", "memory"]);
        errors.required_one_of(at, &policy.restart_policy, &["NotRequired", "RestartContainer"]);
        if pod_restart_policy == "Never" && policy.restart_policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(at, policy.restart_policy.as_str(), detail);
        }
    }
}
