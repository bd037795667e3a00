//! What a pod needs next, decided from its spec, its records and a small memory (L-203 to L-219).
//!
//! This is the counterpart of the kubelet's computePodActions: a pure function.
//! Carrying it out, one effect after another, is the rest of `pod`.

use crate::identity::ContainerId;
use crate::observation::{ContainerRecord, RuntimeState};
use crate::pod::init_progress::init_actions;
use crate::pod::memory::ContainerMemory;
use crate::pod::records::Records;
use crate::pod::shape::{ContainerIndex, ContainerShape, PerContainer, PodShape};
use crate::probe::{ProbeKind, ProbeResult};

/// Everything that decisions may look at.
pub(crate) struct Situation<'a> {
    pub(crate) shape: &'a PodShape,
    pub(crate) records: &'a Records,
    pub(crate) memory: &'a PerContainer<ContainerMemory>,
    /// The container whose start is under way.
    pub(crate) starting: Option<ContainerIndex>,
}

/// Why a running container is killed; its grace depends on it (L-418).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillCause {
    Liveness,
    Startup,
    Other,
}

/// A single container to kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KillOrder {
    pub(crate) container: ContainerId,
    pub(crate) index: ContainerIndex,
    pub(crate) message: String,
    pub(crate) cause: KillCause,
    /// It is started again whatever its exit code (L-215, L-216, L-305).
    pub(crate) then_start: bool,
}

/// What to do, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodActions {
    /// Everything is to be killed and nothing started: the pod has come to its end (L-217).
    pub(crate) kill_pod: bool,
    pub(crate) kills: Vec<KillOrder>,
    /// Ephemeral containers, then init containers and sidecars in spec order, then app containers in spec order.
    pub(crate) starts: Vec<ContainerIndex>,
}

/// Decides what a live pod with a good sandbox needs.
pub(crate) fn compute_pod_actions(situation: &Situation<'_>) -> PodActions {
    let mut actions = PodActions::default();
    // L-103: an ephemeral container is started if it never was.
    for (index, _) in situation.shape.ephemeral() {
        if situation.records.newest(index).is_none() {
            actions.starts.push(index);
        }
    }
    if !init_actions(situation, &mut actions) || actions.kill_pod {
        return end_if_killed(actions);
    }
    let mut kept = 0;
    for (index, container) in situation.shape.app() {
        kept += usize::from(app_container(situation, index, container, &mut actions));
    }
    let starts_app = actions.starts.iter().any(|start| situation.shape.app().any(|(index, _)| index == *start));
    // L-217: what stops sidecars at natural completion.
    actions.kill_pod = kept == 0 && !starts_app;
    end_if_killed(actions)
}

/// A pod that is killed starts nothing, and its kills are those of the pod.
fn end_if_killed(mut actions: PodActions) -> PodActions {
    if actions.kill_pod {
        actions.kills.clear();
        actions.starts.clear();
    }
    actions
}

/// L-216. True if the container is kept as it is.
fn app_container(
    situation: &Situation<'_>,
    index: ContainerIndex,
    container: &ContainerShape,
    actions: &mut PodActions,
) -> bool {
    if situation.is_starting(index) {
        return true;
    }
    let Some(record) = situation.records.newest(index) else {
        actions.starts.push(index);
        return false;
    };
    match &record.state {
        RuntimeState::Created => actions.starts.push(index),
        RuntimeState::Unknown => {
            actions.kills.push(KillOrder {
                container: record.id.clone(),
                index,
                message: "Container is in \"unknown\" state, try killing it before restart".to_owned(),
                cause: KillCause::Other,
                then_start: true,
            });
            actions.starts.push(index);
        }
        RuntimeState::Exited(exit) => {
            if container.restart.should_restart(exit.effective_code()) || situation.is_restarted_after_kill(index) {
                actions.starts.push(index);
            }
        }
        RuntimeState::Running { .. } => return running_app(situation, index, container, record, actions),
    }
    false
}

fn running_app(
    situation: &Situation<'_>,
    index: ContainerIndex,
    container: &ContainerShape,
    record: &ContainerRecord,
    actions: &mut PodActions,
) -> bool {
    let failed = |kind| situation.probe_result(index, kind, &record.id) == Some(ProbeResult::Failure);
    let restarts = container.restart.restarts_after_kill();
    let (cause, why, then_start) = if record.spec_image != container.image {
        (KillCause::Other, "definition changed", true)
    } else if failed(ProbeKind::Liveness) {
        (KillCause::Liveness, "failed liveness probe", restarts)
    } else if failed(ProbeKind::Startup) {
        (KillCause::Startup, "failed startup probe", restarts)
    } else {
        return true;
    };
    let suffix = if then_start { ", will be restarted" } else { "" };
    actions.kills.push(KillOrder {
        container: record.id.clone(),
        index,
        message: format!("Container {} {why}{suffix}", container.name),
        cause,
        then_start,
    });
    if then_start {
        actions.starts.push(index);
    }
    false
}

impl Situation<'_> {
    pub(crate) fn is_starting(&self, index: ContainerIndex) -> bool {
        self.starting == Some(index)
    }

    /// True if the active sandbox has an instance of the container, in whatever state but unknown.
    pub(crate) fn has_begun(&self, index: ContainerIndex) -> bool {
        self.records.newest_active(index).is_some_and(|record| record.state != RuntimeState::Unknown)
    }

    pub(crate) fn probe_result(&self, index: ContainerIndex, kind: ProbeKind, id: &ContainerId) -> Option<ProbeResult> {
        self.memory.get(index)?.probe(kind)?.result_for(id)
    }

    pub(crate) fn is_restarted_after_kill(&self, index: ContainerIndex) -> bool {
        let newest = self.records.newest(index).map(|record| &record.id);
        newest.is_some() && self.memory.get(index).and_then(|memory| memory.restart_after_kill.as_ref()) == newest
    }
}
