//! The last touch on the status of a pod whose containers are all down (L-618).

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use crate::identity::ContainerRole;
use crate::pod::shape::{PodShape, terminated_code};
use crate::status::containers::{LOST_WHEN_TERMINATED, lost};
use crate::status::phase::Phase;

/// Gives every container that may have run a terminated state, and the pod a final phase.
///
/// `had_initialized` says that an earlier status passed [`has_initialized`].
pub(crate) fn fill_in(status: &mut PodStatus, shape: &PodShape, is_static: bool, had_initialized: bool) {
    if had_initialized || has_initialized(status, shape) {
        for status in status.container_statuses.iter_mut().flatten() {
            mark_lost(status);
        }
    }
    let begun = begun_init(status.init_container_statuses.as_deref().unwrap_or_default());
    for status in status.init_container_statuses.iter_mut().flatten().take(begun) {
        mark_lost(status);
    }
    if !is_static && !Phase::parse(status.phase.as_deref()).is_final() {
        status.phase = Some(Phase::Failed.name().to_owned());
    }
}

fn mark_lost(status: &mut ContainerStatus) {
    if status.state.as_ref().is_none_or(|state| state.terminated.is_none()) {
        status.state = Some(lost(LOST_WHEN_TERMINATED));
        status.ready = false;
    }
}

/// True if the app containers may have run.
pub(crate) fn has_initialized(status: &PodStatus, shape: &PodShape) -> bool {
    if !shape.has_init() {
        return true;
    }
    if status.container_statuses.iter().flatten().any(has_left_waiting) {
        return true;
    }
    let last = status.init_container_statuses.as_deref().and_then(<[ContainerStatus]>::last);
    let role = shape.last_init().map(|index| shape.containers.at(index).role);
    match (last, role) {
        (Some(last), Some(ContainerRole::Sidecar)) => {
            last.started == Some(true) && last.state.as_ref().is_some_and(|state| state.running.is_some())
        }
        (Some(last), _) => {
            terminated_code(last.state.as_ref()) == Some(0) || terminated_code(last.last_state.as_ref()) == Some(0)
        }
        (None, _) => false,
    }
}

/// How many init containers, from the first, stand before or at the last one that ever ran; at least one.
fn begun_init(statuses: &[ContainerStatus]) -> usize {
    let last = statuses.iter().rposition(has_left_waiting).map_or(1, |position| position + 1);
    last.min(statuses.len())
}

fn has_left_waiting(status: &ContainerStatus) -> bool {
    let is_waiting = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let has_run = status.last_state.as_ref().is_some_and(|state| state.terminated.is_some());
    !is_waiting || has_run
}
