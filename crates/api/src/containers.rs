//! All containers of a pod as one kind of thing.
//!
//! Ephemeral containers are a type of their own with a container's fields and one more.
//! Rules that hold for every container see them as [`Container`]s, in Kubernetes' order: init, regular, ephemeral.

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, PodSpec};

use crate::absent::{items, items_mut, text};

/// The list that a container stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerList {
    Init,
    Regular,
    Ephemeral,
}

impl ContainerList {
    /// The list's field in the pod's spec.
    pub(crate) fn field(self) -> &'static str {
        match self {
            ContainerList::Init => "initContainers",
            ContainerList::Regular => "containers",
            ContainerList::Ephemeral => "ephemeralContainers",
        }
    }
}

/// Whether an init container is a sidecar (L-101).
pub(crate) fn is_sidecar(init_container: &Container) -> bool {
    text(&init_container.restart_policy) == "Always"
}

/// An ephemeral container's fields that every container has.
pub(crate) fn common(container: &EphemeralContainer) -> Container {
    take_common(&mut container.clone())
}

/// Every container with its list and its index in it: init, regular, ephemeral.
pub(crate) fn all(spec: &PodSpec) -> Vec<(ContainerList, usize, std::borrow::Cow<'_, Container>)> {
    use std::borrow::Cow;
    let init = items(&spec.init_containers).iter().map(Cow::Borrowed).enumerate();
    let regular = spec.containers.iter().map(Cow::Borrowed).enumerate();
    let ephemeral = items(&spec.ephemeral_containers).iter().map(|it| Cow::Owned(common(it))).enumerate();
    init.map(|(index, it)| (ContainerList::Init, index, it))
        .chain(regular.map(|(index, it)| (ContainerList::Regular, index, it)))
        .chain(ephemeral.map(|(index, it)| (ContainerList::Ephemeral, index, it)))
        .collect()
}

/// Changes every container in place: init, regular, ephemeral.
pub(crate) fn for_each_mut(spec: &mut PodSpec, mut change: impl FnMut(&mut Container)) {
    items_mut(&mut spec.init_containers).iter_mut().for_each(&mut change);
    spec.containers.iter_mut().for_each(&mut change);
    for container in items_mut(&mut spec.ephemeral_containers) {
        let mut shared = take_common(container);
        change(&mut shared);
        let target = container.target_container_name.take();
        *container = ephemeral(shared, target);
    }
}

fn take_common(container: &mut EphemeralContainer) -> Container {
    let from = std::mem::take(container);
    container.target_container_name = from.target_container_name;
    Container {
        args: from.args,
        command: from.command,
        env: from.env,
        env_from: from.env_from,
        image: from.image,
        image_pull_policy: from.image_pull_policy,
        lifecycle: from.lifecycle,
        liveness_probe: from.liveness_probe,
        name: from.name,
        ports: from.ports,
        readiness_probe: from.readiness_probe,
        resize_policy: from.resize_policy,
        resources: from.resources,
        restart_policy: from.restart_policy,
        restart_policy_rules: from.restart_policy_rules,
        security_context: from.security_context,
        startup_probe: from.startup_probe,
        stdin: from.stdin,
        stdin_once: from.stdin_once,
        termination_message_path: from.termination_message_path,
        termination_message_policy: from.termination_message_policy,
        tty: from.tty,
        volume_devices: from.volume_devices,
        volume_mounts: from.volume_mounts,
        working_dir: from.working_dir,
    }
}

fn ephemeral(from: Container, target_container_name: Option<String>) -> EphemeralContainer {
    EphemeralContainer {
        target_container_name,
        args: from.args,
        command: from.command,
        env: from.env,
        env_from: from.env_from,
        image: from.image,
        image_pull_policy: from.image_pull_policy,
        lifecycle: from.lifecycle,
        liveness_probe: from.liveness_probe,
        name: from.name,
        ports: from.ports,
        readiness_probe: from.readiness_probe,
        resize_policy: from.resize_policy,
        resources: from.resources,
        restart_policy: from.restart_policy,
        restart_policy_rules: from.restart_policy_rules,
        security_context: from.security_context,
        startup_probe: from.startup_probe,
        stdin: from.stdin,
        stdin_once: from.stdin_once,
        termination_message_path: from.termination_message_path,
        termination_message_policy: from.termination_message_policy,
        tty: from.tty,
        volume_devices: from.volume_devices,
        volume_mounts: from.volume_mounts,
        working_dir: from.working_dir,
    }
}
