//! How far a pod has got with its init containers and sidecars (L-210 to L-215, L-219).
//!
//! A pure decision: it says what to kill and what to start, and does neither.
//! The walk goes from the last init container to the first, so that progress depends on the latest record only.

use crate::identity::ContainerRole;
use crate::observation::{ContainerRecord, RuntimeState};
use crate::pod::actions::{KillCause, KillOrder, PodActions, Situation};
use crate::pod::policy::RestartPolicy;
use crate::pod::shape::{ContainerIndex, ContainerShape};
use crate::probe::{ProbeKind, ProbeResult};

/// What one container means for the walk.
enum Step {
    /// Nothing more to say.
    Wait,
    /// The container has done its part.
    Passed,
    /// The pod cannot go on: it is to be killed.
    PodFailed,
}

/// Adds what init containers and sidecars need to `actions`; true if the pod has initialized.
pub(crate) fn init_actions(situation: &Situation<'_>, actions: &mut PodActions) -> bool {
    let shape = situation.shape;
    let Some(last) = shape.last_init() else { return true };
    // L-219: app containers count whether they run or have ended, if they belong to the sandbox at hand.
    let mut initialized = shape.app().any(|(index, _)| situation.has_begun(index));
    let mut passed = initialized;
    let mut starts: Vec<ContainerIndex> = Vec::new();
    for (index, container) in shape.init().rev() {
        let Some(record) = situation.records.newest_active(index) else {
            if passed && container.role == ContainerRole::Sidecar {
                starts.push(index);
            }
            continue;
        };
        if passed && container.role == ContainerRole::Init {
            continue;
        }
        match container_step(situation, index, container, record, actions, &mut starts) {
            Step::Wait => {}
            Step::Passed if index == last => initialized = true,
            Step::Passed if !passed => starts.push(ContainerIndex(index.0 + 1)),
            Step::Passed => {}
            Step::PodFailed => {
                actions.kill_pod = true;
                return false;
            }
        }
        passed = true;
    }
    if !passed {
        starts.push(ContainerIndex(0));
    }
    starts.sort();
    actions.starts.extend(starts);
    initialized
}

/// True if the pod has initialized in the sandbox at hand (L-219).
pub(crate) fn is_initialized(situation: &Situation<'_>) -> bool {
    let shape = situation.shape;
    let Some(last) = shape.last_init() else { return true };
    if shape.app().any(|(index, _)| situation.has_begun(index)) {
        return true;
    }
    let Some(record) = situation.records.newest_active(last) else { return false };
    let container = &shape.containers.at(last);
    match &record.state {
        RuntimeState::Exited(exit) => container.role == ContainerRole::Init && exit.effective_code() == 0,
        RuntimeState::Running { .. } if container.role == ContainerRole::Sidecar && !situation.is_starting(last) => {
            container.startup_probe.is_none()
                || situation.probe_result(last, ProbeKind::Startup, &record.id) == Some(ProbeResult::Success)
        }
        _ => false,
    }
}

fn container_step(
    situation: &Situation<'_>,
    index: ContainerIndex,
    container: &ContainerShape,
    record: &ContainerRecord,
    actions: &mut PodActions,
    starts: &mut Vec<ContainerIndex>,
) -> Step {
    let is_sidecar = container.role == ContainerRole::Sidecar;
    match &record.state {
        RuntimeState::Created => {
            starts.push(index);
            Step::Wait
        }
        RuntimeState::Running { .. } if is_sidecar => {
            running_sidecar(situation, index, container, record, actions, starts)
        }
        RuntimeState::Running { .. } => Step::Wait,
        RuntimeState::Exited(_) if is_sidecar => {
            starts.push(index);
            Step::Wait
        }
        RuntimeState::Exited(exit) if exit.effective_code() == 0 => Step::Passed,
        RuntimeState::Exited(exit) if container.restart.should_restart(exit.effective_code()) => {
            starts.push(index);
            Step::Wait
        }
        RuntimeState::Exited(_) => Step::PodFailed,
        RuntimeState::Unknown if !is_sidecar && container.restart.policy() == RestartPolicy::Never => Step::PodFailed,
        RuntimeState::Unknown => {
            actions.kills.push(KillOrder {
                container: record.id.clone(),
                index,
                message: "Init container is in \"unknown\" state, try killing it before restart".to_owned(),
                cause: KillCause::Other,
                then_start: true,
            });
            starts.push(index);
            Step::Wait
        }
    }
}

/// A running sidecar: has it started, and may it go on?
fn running_sidecar(
    situation: &Situation<'_>,
    index: ContainerIndex,
    container: &ContainerShape,
    record: &ContainerRecord,
    actions: &mut PodActions,
    starts: &mut Vec<ContainerIndex>,
) -> Step {
    // L-212: it counts as started only when postStart has returned.
    if situation.is_starting(index) {
        return Step::Wait;
    }
    let mut restart = |cause: KillCause, why: &str| {
        actions.kills.push(KillOrder {
            container: record.id.clone(),
            index,
            message: format!("Init container {} {why}", container.name),
            cause,
            then_start: true,
        });
        starts.push(index);
    };
    if container.startup_probe.is_some() {
        match situation.probe_result(index, ProbeKind::Startup, &record.id) {
            Some(ProbeResult::Success) => {}
            Some(ProbeResult::Failure) => {
                restart(KillCause::Startup, "failed startup probe");
                return Step::Wait;
            }
            Some(ProbeResult::Unknown) | None => return Step::Wait,
        }
    }
    if record.spec_image != container.image {
        restart(KillCause::Other, "definition changed");
    } else if situation.probe_result(index, ProbeKind::Liveness, &record.id) == Some(ProbeResult::Failure) {
        restart(KillCause::Liveness, "failed liveness probe");
    }
    Step::Passed
}
