//! Defaults of pods and of the pod templates in other objects (L-110, J-10).

use k8s_openapi::api::core::v1::{Container, Pod, PodIP, PodSpec, PodStatus, PodTemplateSpec};

use super::{container, resources, volume};
use crate::absent::{default_text, items_mut, text};
use crate::containers;

const TERMINATION_GRACE_PERIOD_SECONDS: i64 = 30;

/// Fills in a pod.
pub fn pod(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    resources::requests_from_limits(&mut spec.containers);
    resources::requests_from_limits(items_mut(&mut spec.init_containers));
    resources::pod_level(spec);
    spec.enable_service_links.get_or_insert(true);
    if spec.host_network == Some(true) {
        host_ports(&mut spec.containers);
        host_ports(items_mut(&mut spec.init_containers));
    }
    pod_spec(spec);
    // A pod with a negative grace period was legal once; such a period means the shortest there is.
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        spec.termination_grace_period_seconds = Some(1);
    }
    if let Some(status) = &mut pod.status {
        pod_status(status);
    }
}

/// Fills in what every pod spec has, a template's too: no requests from limits, no `enableServiceLinks` (J-10).
pub fn pod_spec(spec: &mut PodSpec) {
    default_text(&mut spec.dns_policy, "ClusterFirst");
    default_text(&mut spec.restart_policy, "Always");
    spec.security_context.get_or_insert_default();
    spec.termination_grace_period_seconds.get_or_insert(TERMINATION_GRACE_PERIOD_SECONDS);
    default_text(&mut spec.scheduler_name, "default-scheduler");
    service_account_alias(spec);
    items_mut(&mut spec.volumes).iter_mut().for_each(volume::volume);
    containers::for_each_mut(spec, container::container);
    if let Some(resources) = &mut spec.resources {
        resources::round(resources);
    }
    resources::round_list(&mut spec.overhead);
}

/// Fills in a pod template; Kubernetes always writes its metadata.
pub(super) fn template(template: &mut PodTemplateSpec) {
    template.metadata.get_or_insert_default();
    pod_spec(template.spec.get_or_insert_default());
}

/// `serviceAccount` is the old name of `serviceAccountName`: the new one decides, both are shown.
fn service_account_alias(spec: &mut PodSpec) {
    if text(&spec.service_account_name).is_empty() {
        spec.service_account_name = spec.service_account.clone().filter(|name| !name.is_empty());
    }
    spec.service_account = spec.service_account_name.clone();
}

fn host_ports(containers: &mut [Container]) {
    for port in containers.iter_mut().flat_map(|container| items_mut(&mut container.ports)) {
        if port.host_port.unwrap_or(0) == 0 {
            port.host_port = Some(port.container_port);
        }
    }
}

fn pod_status(status: &mut PodStatus) {
    let lists =
        [&mut status.init_container_statuses, &mut status.container_statuses, &mut status.ephemeral_container_statuses];
    for container in lists.into_iter().flat_map(items_mut) {
        resources::round_list(&mut container.allocated_resources);
        container.resources.as_mut().map(resources::round);
        // Kubernetes always writes both states, be they empty.
        container.state.get_or_insert_default();
        container.last_state.get_or_insert_default();
    }
    resources::round_list(&mut status.allocated_resources);
    status.resources.as_mut().map(resources::round);
    pod_ips(status);
}

/// `podIP` decides over a list that begins with another address.
fn pod_ips(status: &mut PodStatus) {
    let Some(ip) = status.pod_ip.as_deref().filter(|ip| !ip.is_empty()) else { return };
    let first = status.pod_ips.as_deref().and_then(|ips| ips.first());
    if first.is_none_or(|first| first.ip != ip) {
        status.pod_ips = Some(vec![PodIP { ip: ip.to_owned() }]);
    }
}
