//! A pod's spec in the form that decisions want: one flat list of containers with their roles.
//!
//! It is made once for each version of the spec and holds no state.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, EphemeralContainer, LifecycleHandler, Pod, PodSpec, Probe, ResourceRequirements,
    VolumeMount, VolumeMountStatus,
};

use crate::identity::ContainerRole;
use crate::pod::policy::{RestartDecision, RestartPolicy};

/// Position of a container in [`PodShape::containers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContainerIndex(pub(crate) usize);

/// A list with one entry for each container of the pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerContainer<T>(pub(crate) Vec<T>);

impl<T> PerContainer<T> {
    /// The entry of a container that is known to be in the spec.
    pub(crate) fn at(&self, index: ContainerIndex) -> &T {
        self.0.get(index.0).expect("indices are made from a list of the same length, which only grows")
    }

    pub(crate) fn get(&self, index: ContainerIndex) -> Option<&T> {
        self.0.get(index.0)
    }

    pub(crate) fn get_mut(&mut self, index: ContainerIndex) -> Option<&mut T> {
        self.0.get_mut(index.0)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (ContainerIndex, &T)> + ExactSizeIterator {
        self.0.iter().enumerate().map(|(index, item)| (ContainerIndex(index), item))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ContainerIndex, &mut T)> {
        self.0.iter_mut().enumerate().map(|(index, item)| (ContainerIndex(index), item))
    }
}

/// One container of the spec.
#[derive(Clone, Debug)]
pub(crate) struct ContainerShape {
    pub(crate) name: String,
    pub(crate) role: ContainerRole,
    pub(crate) image: String,
    pub(crate) pull_policy: PullPolicy,
    pub(crate) restart: RestartDecision,
    pub(crate) startup_probe: Option<Box<Probe>>,
    pub(crate) readiness_probe: Option<Box<Probe>>,
    pub(crate) liveness_probe: Option<Box<Probe>>,
    pub(crate) post_start: Option<LifecycleHandler>,
    pub(crate) pre_stop: Option<LifecycleHandler>,
    pub(crate) stop_signal: Option<String>,
    pub(crate) resources: Option<ResourceRequirements>,
    pub(crate) mounts: Option<Vec<VolumeMountStatus>>,
    /// `spec.containers{name}` and the like, for events.
    pub(crate) field_path: String,
    /// An ephemeral container's `targetContainerName`.
    pub(crate) target: Option<String>,
}

/// When an image is pulled (L-224).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// One version of a pod's spec.
#[derive(Clone, Debug)]
pub(crate) struct PodShape {
    /// Init containers and sidecars in spec order, then app containers, then ephemeral ones.
    pub(crate) containers: PerContainer<ContainerShape>,
    init_count: usize,
    app_count: usize,
    pub(crate) grace_seconds: i64,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) host_network: bool,
    pub(crate) has_sidecars: bool,
    /// Any rule of any container may restart all of them (L-112).
    pub(crate) could_restart_all: bool,
}

impl PodShape {
    pub(crate) fn of(pod: &Pod) -> Self {
        let empty = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let restart_policy = RestartPolicy::parse(spec.restart_policy.as_deref()).unwrap_or(RestartPolicy::Always);
        let init = spec.init_containers.as_deref().unwrap_or_default();
        let ephemeral = spec.ephemeral_containers.as_deref().unwrap_or_default();
        let mut containers = Vec::with_capacity(init.len() + spec.containers.len() + ephemeral.len());
        containers.extend(init.iter().map(|container| ContainerShape::of(container, true, restart_policy)));
        containers.extend(spec.containers.iter().map(|container| ContainerShape::of(container, false, restart_policy)));
        containers.extend(ephemeral.iter().map(ContainerShape::of_ephemeral));
        PodShape {
            init_count: init.len(),
            app_count: spec.containers.len(),
            // L-110: the API server fills it in.
            grace_seconds: spec.termination_grace_period_seconds.unwrap_or(30),
            active_deadline_seconds: spec.active_deadline_seconds,
            host_network: spec.host_network.unwrap_or(false),
            has_sidecars: containers.iter().any(|container| container.role == ContainerRole::Sidecar),
            could_restart_all: containers.iter().any(|container| container.restart.has_restart_all()),
            containers: PerContainer(containers),
        }
    }

    /// Init containers and sidecars, in spec order.
    pub(crate) fn init(&self) -> impl DoubleEndedIterator<Item = (ContainerIndex, &ContainerShape)> {
        self.containers.iter().take(self.init_count)
    }

    /// App containers, in spec order.
    pub(crate) fn app(&self) -> impl Iterator<Item = (ContainerIndex, &ContainerShape)> {
        self.containers.iter().skip(self.init_count).take(self.app_count)
    }

    /// Ephemeral containers, in spec order.
    pub(crate) fn ephemeral(&self) -> impl Iterator<Item = (ContainerIndex, &ContainerShape)> {
        self.containers.iter().skip(self.init_count + self.app_count)
    }

    pub(crate) fn has_init(&self) -> bool {
        self.init_count > 0
    }

    pub(crate) fn last_init(&self) -> Option<ContainerIndex> {
        self.init_count.checked_sub(1).map(ContainerIndex)
    }

    pub(crate) fn find(&self, name: &str) -> Option<ContainerIndex> {
        self.containers.iter().find(|(_, container)| container.name == name).map(|(index, _)| index)
    }
}

impl ContainerShape {
    fn of(container: &Container, is_init: bool, pod: RestartPolicy) -> Self {
        let restart = RestartDecision::of(container, pod);
        // L-101: the list and the own policy alone decide.
        let role = match (is_init, restart.own) {
            (true, Some(RestartPolicy::Always)) => ContainerRole::Sidecar,
            (true, _) => ContainerRole::Init,
            (false, _) => ContainerRole::App,
        };
        // L-223: plain init containers have no probes and no hooks.
        let may_probe = role != ContainerRole::Init;
        let probe = |probe: &Option<Probe>| probe.clone().filter(|_| may_probe).map(Box::new);
        let lifecycle = container.lifecycle.as_ref().filter(|_| may_probe);
        let list = if is_init { "initContainers" } else { "containers" };
        ContainerShape {
            role,
            image: container.image.clone().unwrap_or_default(),
            pull_policy: PullPolicy::of(container.image_pull_policy.as_deref(), container.image.as_deref()),
            restart,
            startup_probe: probe(&container.startup_probe),
            readiness_probe: probe(&container.readiness_probe),
            liveness_probe: probe(&container.liveness_probe),
            post_start: lifecycle.and_then(|lifecycle| lifecycle.post_start.clone()),
            pre_stop: lifecycle.and_then(|lifecycle| lifecycle.pre_stop.clone()),
            stop_signal: container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone()),
            resources: container.resources.clone(),
            mounts: mount_statuses(container.volume_mounts.as_deref()),
            field_path: format!("spec.{list}{{{}}}", container.name),
            target: None,
            name: container.name.clone(),
        }
    }

    fn of_ephemeral(container: &EphemeralContainer) -> Self {
        ContainerShape {
            role: ContainerRole::Ephemeral,
            image: container.image.clone().unwrap_or_default(),
            pull_policy: PullPolicy::of(container.image_pull_policy.as_deref(), container.image.as_deref()),
            restart: RestartDecision::never(),
            startup_probe: None,
            readiness_probe: None,
            liveness_probe: None,
            post_start: None,
            pre_stop: None,
            stop_signal: None,
            resources: container.resources.clone(),
            mounts: mount_statuses(container.volume_mounts.as_deref()),
            field_path: format!("spec.ephemeralContainers{{{}}}", container.name),
            target: container.target_container_name.clone().filter(|name| !name.is_empty()),
            name: container.name.clone(),
        }
    }

    /// True if the change from `old` starts the crash-loop count anew (L-308).
    pub(crate) fn resets_back_off(&self, old: &ContainerShape) -> bool {
        self.image != old.image || self.resources != old.resources
    }
}

impl PullPolicy {
    fn of(policy: Option<&str>, image: Option<&str>) -> Self {
        match policy {
            Some("Always") => PullPolicy::Always,
            Some("IfNotPresent") => PullPolicy::IfNotPresent,
            Some("Never") => PullPolicy::Never,
            // L-110: what the API server would have filled in.
            _ if image.is_some_and(is_latest) => PullPolicy::Always,
            _ => PullPolicy::IfNotPresent,
        }
    }
}

fn is_latest(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or(image);
    !image.contains('@') && last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// `status.containerStatuses[].volumeMounts`, which come from the spec alone (L-738).
fn mount_statuses(mounts: Option<&[VolumeMount]>) -> Option<Vec<VolumeMountStatus>> {
    let statuses: Vec<_> = mounts?.iter().map(mount_status).collect();
    (!statuses.is_empty()).then_some(statuses)
}

fn mount_status(mount: &VolumeMount) -> VolumeMountStatus {
    let recursive = match mount.recursive_read_only.as_deref() {
        Some("Enabled" | "IfPossible") => "Enabled",
        _ => "Disabled",
    };
    let read_only = mount.read_only.filter(|read_only| *read_only);
    VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only,
        recursive_read_only: read_only.map(|_| recursive.to_owned()),
        volume_status: None,
    }
}

/// The exit code of a terminated state.
pub(crate) fn terminated_code(state: Option<&ContainerState>) -> Option<i32> {
    state.and_then(|state| state.terminated.as_ref()).map(|terminated| terminated.exit_code)
}
