//! Whether a pod needs a new sandbox, and whether it is worth one (L-205 to L-208).
//!
//! Pure decisions; the effects are sent by `live`.

use crate::identity::ContainerRole;
use crate::observation::RuntimeState;
use crate::pod::policy::RestartPolicy;
use crate::pod::records::Records;
use crate::pod::shape::{ContainerIndex, ContainerShape, PodShape};

/// A sandbox to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewSandbox {
    pub(crate) attempt: u32,
    /// An old sandbox is known, so that users are told of the change.
    pub(crate) replaces: bool,
}

/// The sandbox that must be made before anything can be started, if any (L-205).
pub(crate) fn new_sandbox(shape: &PodShape, records: &Records) -> Option<NewSandbox> {
    let Some(newest) = records.sandboxes().first() else {
        return Some(NewSandbox { attempt: 0, replaces: false });
    };
    let attempt = newest.attempt.saturating_add(1);
    let ready = records.sandboxes().iter().filter(|sandbox| sandbox.ready).count();
    if ready > 1 || !newest.ready {
        return Some(NewSandbox { attempt, replaces: true });
    }
    if newest.host_network != shape.host_network {
        return Some(NewSandbox { attempt, replaces: false });
    }
    if !shape.host_network && newest.ips.is_empty() {
        return Some(NewSandbox { attempt, replaces: true });
    }
    None
}

/// True if something is left to be run in a new sandbox (L-206, L-207).
///
/// The kubelet asks the pod's policy alone and can leave a `Never` pod in Pending for ever.
/// Here each container is asked: one that never ran may run, one that ended may run if its own policy or a rule says so.
/// `has_run` tells of a container whose record is broken whether it ever ran.
pub(crate) fn is_worth_a_sandbox(
    shape: &PodShape,
    records: &Records,
    has_run: impl Fn(ContainerIndex) -> bool,
) -> bool {
    let failed = shape.init().any(|(index, container)| {
        container.role == ContainerRole::Init && has_failed_for_good(records, index, container)
    });
    !failed && shape.app().any(|(index, container)| is_to_run(records, index, container, &has_run))
}

fn has_failed_for_good(records: &Records, index: ContainerIndex, container: &ContainerShape) -> bool {
    let exit = records.newest(index).and_then(|record| record.exit());
    exit.is_some_and(|exit| exit.effective_code() != 0 && !container.restart.should_restart(exit.effective_code()))
}

fn is_to_run(
    records: &Records,
    index: ContainerIndex,
    container: &ContainerShape,
    has_run: &impl Fn(ContainerIndex) -> bool,
) -> bool {
    match records.newest(index).map(|record| &record.state) {
        None | Some(RuntimeState::Created) => true,
        Some(RuntimeState::Exited(exit)) => container.restart.should_restart(exit.effective_code()),
        Some(RuntimeState::Running { .. }) => container.restart.policy() != RestartPolicy::Never,
        Some(RuntimeState::Unknown) => container.restart.policy() != RestartPolicy::Never || !has_run(index),
    }
}
