//! The status of one container, from its records and its last status (L-730 to L-739).
//!
//! Phase and conditions are made of what this file makes: see `phase` and `conditions`.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    ContainerUser, LinuxContainerUser,
};

use crate::identity::ContainerRole;
use crate::observation::{ContainerRecord, Exit, RuntimeState};
use crate::pod::shape::{ContainerIndex, ContainerShape};
use crate::probe::ProbeResult;
use crate::status::View;
use crate::status::termination_message::cut;
use crate::time::to_the_second;

pub(crate) const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
pub(crate) const RESTARTING_ALL: &str = "RestartingAllContainers";
const RESTARTING_ALL_MESSAGE: &str = "The container is removed because RestartAllContainers in place";
const LOST_WHEN_DELETED: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";
pub(crate) const LOST_WHEN_TERMINATED: &str = "The container could not be located when the pod was terminated";
const INIT_LOST: &str = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";

/// The status of one container.
pub(crate) fn container_status(view: &View<'_>, index: ContainerIndex, shape: &ContainerShape) -> ContainerStatus {
    let old = view.previous_status(shape);
    let mut visible = view.visible(index);
    let newest = visible.next();
    let mut status = match newest {
        Some(record) => {
            let mut status = from_record(view, shape, record, old);
            let second = visible.next().and_then(|second| state_of(view, second, None).terminated);
            if let Some(terminated) = second {
                status.last_state = Some(terminated_state(terminated));
            }
            status
        }
        None => without_record(view, shape, old),
    };
    apply_start_error(view, index, shape, newest, &mut status);
    judge(view, index, shape, newest, old, &mut status);
    status
}

/// L-733: nothing in the runtime; the last status says what to think of it.
fn without_record(view: &View<'_>, shape: &ContainerShape, old: Option<&ContainerStatus>) -> ContainerStatus {
    let mut status = ContainerStatus {
        name: shape.name.clone(),
        image: shape.image.clone(),
        volume_mounts: shape.mounts.clone(),
        state: Some(waiting(Some(view.default_waiting_reason()), None)),
        ..ContainerStatus::default()
    };
    let Some(old) = old else {
        synthesize_init(view, shape, &mut status);
        return status;
    };
    let state = old.state.as_ref();
    status.restart_count = old.restart_count;
    status.last_state = old.last_state.clone();
    if view.is_reset(shape) && state.is_some_and(|state| state.waiting.is_none()) {
        mark_restarting_all(&mut status);
    } else if state.is_some_and(|state| state.terminated.is_some()) {
        return ContainerStatus { started: None, ready: false, ..old.clone() };
    } else if state.is_some_and(|state| state.running.is_some()) {
        status.last_state = Some(lost(LOST_WHEN_DELETED));
        if !view.is_deleted {
            status.restart_count += 1;
        }
    } else if state.and_then(|state| state.waiting.as_ref()).and_then(|waiting| waiting.reason.as_deref())
        == Some(RESTARTING_ALL)
    {
        // The removal is told until the container stands again.
        status.state = old.state.clone();
    }
    synthesize_init(view, shape, &mut status);
    status
}

/// L-112: what a container shows once the restart of all has removed it.
fn mark_restarting_all(status: &mut ContainerStatus) {
    status.state = Some(waiting(Some(RESTARTING_ALL), Some(RESTARTING_ALL_MESSAGE)));
    status.last_state = Some(terminated_state(ContainerStateTerminated {
        reason: Some(RESTARTING_ALL.to_owned()),
        message: Some(RESTARTING_ALL_MESSAGE.to_owned()),
        exit_code: 137,
        ..ContainerStateTerminated::default()
    }));
    status.restart_count += 1;
}

/// L-226: an init container whose record is gone although the pod has gone past it has ended well.
fn synthesize_init(view: &View<'_>, shape: &ContainerShape, status: &mut ContainerStatus) {
    let is_waiting = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    if shape.role == ContainerRole::Init && is_waiting && view.is_active {
        status.state = Some(terminated_state(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(INIT_LOST.to_owned()),
            ..ContainerStateTerminated::default()
        }));
    }
}

fn from_record(
    view: &View<'_>,
    shape: &ContainerShape,
    record: &ContainerRecord,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let id = view.container_id(record);
    let is_same = old.is_some_and(|old| old.container_id.as_deref() == Some(id.as_str()));
    let mut status = ContainerStatus {
        name: shape.name.clone(),
        image: record.image.clone(),
        image_id: record.image_id.clone(),
        volume_mounts: shape.mounts.clone(),
        restart_count: i32::try_from(record.attempt).unwrap_or(i32::MAX),
        state: Some(state_of(view, record, old)),
        user: record.user.as_ref().map(|user| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: user.uid,
                gid: user.gid,
                supplemental_groups: Some(user.supplemental_groups.clone()).filter(|groups| !groups.is_empty()),
            }),
        }),
        resources: Some(shape.resources.clone().unwrap_or_default()),
        allocated_resources: shape.resources.as_ref().and_then(|resources| resources.requests.clone()),
        container_id: Some(id),
        ..ContainerStatus::default()
    };
    let Some(old) = old else { return status };
    let old_terminated = old.state.as_ref().and_then(|state| state.terminated.as_ref());
    status.last_state = match old_terminated {
        Some(terminated) if !is_same => Some(terminated_state(terminated.clone())),
        _ => old.last_state.clone(),
    };
    count_restarts(&mut status, old, is_same, record);
    status
}

/// L-731: the count of the runtime, but never less than before.
fn count_restarts(status: &mut ContainerStatus, old: &ContainerStatus, is_same: bool, record: &ContainerRecord) {
    let state = old.state.as_ref();
    let was_terminated = state.is_some_and(|state| state.terminated.is_some());
    let was_running = state.is_some_and(|state| state.running.is_some());
    let is_new_run = !is_same && record.is_running() && was_terminated && old.restart_count >= status.restart_count;
    let is_lost = record.state == RuntimeState::Unknown && was_running;
    status.restart_count =
        if is_new_run || is_lost { old.restart_count + 1 } else { status.restart_count.max(old.restart_count) };
}

/// L-732.
fn state_of(view: &View<'_>, record: &ContainerRecord, old: Option<&ContainerStatus>) -> ContainerState {
    match &record.state {
        RuntimeState::Created => waiting(None, None),
        RuntimeState::Running { started_at } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(to_the_second(*started_at)) }),
            ..ContainerState::default()
        },
        RuntimeState::Exited(exit) => terminated_state(terminated(view, record, exit)),
        RuntimeState::Unknown => unknown_state(view, record, old),
    }
}

/// A container that used to run and of which nothing is known any more counts as killed.
fn unknown_state(view: &View<'_>, record: &ContainerRecord, old: Option<&ContainerStatus>) -> ContainerState {
    let old_state = old.and_then(|old| old.state.as_ref());
    if old_state.is_some_and(|state| state.running.is_some()) {
        return lost(LOST_WHEN_TERMINATED);
    }
    let is_same = old.and_then(|old| old.container_id.as_deref()) == Some(view.container_id(record).as_str());
    match old_state.and_then(|state| state.terminated.as_ref()) {
        Some(terminated) if is_same => terminated_state(terminated.clone()),
        _ => waiting(None, None),
    }
}

fn terminated(view: &View<'_>, record: &ContainerRecord, exit: &Exit) -> ContainerStateTerminated {
    let exit_code = exit.effective_code();
    let default_reason = if exit_code == 0 { "Completed" } else { "Error" };
    let message = cut(&exit.message, view.message_budget);
    ContainerStateTerminated {
        exit_code,
        reason: Some(exit.reason.clone().unwrap_or_else(|| default_reason.to_owned())),
        message: (!message.is_empty()).then(|| message.to_owned()),
        started_at: Some(to_the_second(exit.started_at.unwrap_or(jiff::Timestamp::UNIX_EPOCH))),
        finished_at: Some(to_the_second(exit.finished_at)),
        container_id: Some(view.container_id(record)),
        signal: None,
    }
}

/// L-734: a container that is to be started and could not be shows why.
fn apply_start_error(
    view: &View<'_>,
    index: ContainerIndex,
    shape: &ContainerShape,
    newest: Option<&ContainerRecord>,
    status: &mut ContainerStatus,
) {
    let Some(error) = view.start_error(index) else { return };
    let is_init = matches!(shape.role, ContainerRole::Init | ContainerRole::Sidecar);
    let has_succeeded = newest.and_then(ContainerRecord::exit).is_some_and(|exit| exit.effective_code() == 0);
    if (is_init && has_succeeded) || !view.is_to_be_started(index, shape, newest) {
        return;
    }
    if let Some(terminated) = status.state.take().and_then(|state| state.terminated) {
        status.last_state = Some(terminated_state(terminated));
    }
    let message = Some(error.message.as_str()).filter(|message| !message.is_empty());
    status.state = Some(waiting(Some(&error.reason), message));
}

/// `started` and `ready` (L-415, L-416).
fn judge(
    view: &View<'_>,
    index: ContainerIndex,
    shape: &ContainerShape,
    newest: Option<&ContainerRecord>,
    old: Option<&ContainerStatus>,
    status: &mut ContainerStatus,
) {
    if shape.role == ContainerRole::Ephemeral {
        // L-103: nobody probes it, nobody waits for it.
        return;
    }
    let running = newest.filter(|record| record.is_running());
    let is_started = running.is_some_and(|record| view.is_started(index, shape, record, old));
    status.started = Some(is_started);
    status.ready = match shape.role {
        ContainerRole::Init => crate::pod::shape::terminated_code(status.state.as_ref()) == Some(0),
        _ => is_started && running.is_some_and(|record| view.is_ready(index, shape, record)),
    };
}

impl View<'_> {
    fn is_started(
        &self,
        index: ContainerIndex,
        shape: &ContainerShape,
        record: &ContainerRecord,
        old: Option<&ContainerStatus>,
    ) -> bool {
        if shape.startup_probe.is_none() {
            return true;
        }
        let result = self.probe_result(index, crate::probe::ProbeKind::Startup, &record.id);
        match result {
            Some(result) => result == ProbeResult::Success,
            // The kubelet copies by name; another container of that name has started nothing (L-225).
            None => old.is_some_and(|old| {
                old.started == Some(true) && old.container_id.as_deref() == Some(self.container_id(record).as_str())
            }),
        }
    }

    fn is_ready(&self, index: ContainerIndex, shape: &ContainerShape, record: &ContainerRecord) -> bool {
        shape.readiness_probe.is_none()
            || self.probe_result(index, crate::probe::ProbeKind::Readiness, &record.id) == Some(ProbeResult::Success)
    }
}

/// A waiting state.
pub(crate) fn waiting(reason: Option<&str>, message: Option<&str>) -> ContainerState {
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: reason.map(str::to_owned), message: message.map(str::to_owned) }),
        ..ContainerState::default()
    }
}

/// A terminated state.
pub(crate) fn terminated_state(terminated: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}

/// The state of a container that nobody saw end.
pub(crate) fn lost(message: &str) -> ContainerState {
    terminated_state(ContainerStateTerminated {
        reason: Some(STATUS_UNKNOWN.to_owned()),
        message: Some(message.to_owned()),
        exit_code: 137,
        ..ContainerStateTerminated::default()
    })
}
