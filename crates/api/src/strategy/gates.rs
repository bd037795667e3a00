//! Fields of gates that are off in Kubernetes 1.36, and of later versions: the server drops them as if they were not sent.

use k8s_openapi::api::core::v1::{Container, Lifecycle, Pod, PodSpec, PodTemplateSpec, Probe};

use crate::absent::{items, items_mut};
use crate::containers;

/// Which gates that are off by default are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// ContainerStopSignals: `lifecycle.stopSignal`.
    pub container_stop_signals: bool,
}

/// Drops disabled fields from a pod; what the old pod has already may stay.
pub fn drop_disabled_pod_fields(pod: &mut Pod, old: Option<&Pod>, gates: Gates) {
    if let Some(spec) = &mut pod.spec {
        drop_disabled_fields(spec, old.and_then(|old| old.spec.as_ref()), gates);
    }
    let Some(status) = &mut pod.status else { return };
    let old_status = old.and_then(|old| old.status.as_ref());
    status.volume_health = None;
    if old_status.is_none_or(|old| old.node_allocatable_resource_claim_statuses.is_none()) {
        status.node_allocatable_resource_claim_statuses = None;
    }
    let lists =
        [&mut status.init_container_statuses, &mut status.container_statuses, &mut status.ephemeral_container_statuses];
    for container in lists.into_iter().flat_map(items_mut) {
        items_mut(&mut container.volume_mounts).iter_mut().for_each(|mount| mount.volume_status = None);
    }
}

/// Drops disabled fields from a template; what the old template has already may stay.
pub(crate) fn drop_disabled_template_fields(
    template: &mut PodTemplateSpec,
    old: Option<&PodTemplateSpec>,
    gates: Gates,
) {
    if let Some(spec) = &mut template.spec {
        drop_disabled_fields(spec, old.and_then(|old| old.spec.as_ref()), gates);
    }
}

fn drop_disabled_fields(spec: &mut PodSpec, old: Option<&PodSpec>, gates: Gates) {
    drop_later_fields(spec);
    if old.is_none_or(|old| old.scheduling_group.is_none()) {
        spec.scheduling_group = None;
    }
    drop_projections(spec, old);
    if !gates.container_stop_signals && !old.is_some_and(uses_stop_signals) {
        containers::for_each_mut(spec, drop_stop_signal);
    }
}

/// A lifecycle that is nothing but a stop signal goes with it.
fn drop_stop_signal(container: &mut Container) {
    let Some(lifecycle) = &mut container.lifecycle else { return };
    if lifecycle.stop_signal.take().is_some() && *lifecycle == Lifecycle::default() {
        container.lifecycle = None;
    }
}

fn uses_stop_signals(spec: &PodSpec) -> bool {
    let has_signal =
        |container: &Container| container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.stop_signal.is_some());
    containers::all(spec).iter().any(|(_, _, container)| has_signal(container))
}

/// The gates ClusterTrustBundleProjection and PodCertificateRequest are off.
fn drop_projections(spec: &mut PodSpec, old: Option<&PodSpec>) {
    let old_sources = || {
        let volumes = old.into_iter().flat_map(|old| items(&old.volumes));
        volumes.filter_map(|volume| volume.projected.as_ref()).flat_map(|projected| items(&projected.sources))
    };
    let keeps_bundles = old_sources().any(|source| source.cluster_trust_bundle.is_some());
    let keeps_certificates = old_sources().any(|source| source.pod_certificate.is_some());
    let projected = items_mut(&mut spec.volumes).iter_mut().filter_map(|volume| volume.projected.as_mut());
    for source in projected.flat_map(|projected| items_mut(&mut projected.sources)) {
        if !keeps_bundles {
            source.cluster_trust_bundle = None;
        }
        if !keeps_certificates {
            source.pod_certificate = None;
        }
    }
}

/// The types are those of Kubernetes 1.37, the rules those of 1.36.
fn drop_later_fields(spec: &mut PodSpec) {
    spec.eviction_responders = None;
    containers::for_each_mut(spec, |container| {
        items_mut(&mut container.volume_mounts).iter_mut().for_each(|mount| mount.bind_mount_options = None);
        let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
        probes.into_iter().flatten().for_each(drop_later_probe_fields);
        let hooks =
            container.lifecycle.iter_mut().flat_map(|lifecycle| [&mut lifecycle.post_start, &mut lifecycle.pre_stop]);
        for action in hooks.flatten().filter_map(|hook| hook.http_get.as_mut()) {
            action.protocol = None;
        }
    });
    for volume in items_mut(&mut spec.volumes) {
        if let Some(source) = &mut volume.empty_dir {
            source.mode = None;
        }
        if let Some(source) = &mut volume.projected {
            source.default_user = None;
        }
    }
}

fn drop_later_probe_fields(probe: &mut Probe) {
    if let Some(action) = &mut probe.grpc {
        action.mode = None;
    }
    if let Some(action) = &mut probe.http_get {
        action.protocol = None;
    }
}
