//! The phase of a pod, from the statuses of its containers (L-702 to L-706).
//!
//! A pure function; when a final phase is told to the world is `status`'s business.

use k8s_openapi::api::core::v1::ContainerStatus;

use crate::identity::ContainerRole;
use crate::pod::shape::{ContainerIndex, ContainerShape, terminated_code};
use crate::status::View;
use crate::status::containers::RESTARTING_ALL;

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }

    /// Reads the API's text; anything else is a pod that has not begun.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            _ => Phase::Pending,
        }
    }

    /// True for a phase that is never left.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// What the containers' statuses add up to.
#[derive(Debug, Default)]
struct Tally {
    pending_plain: usize,
    failed_for_good: usize,
    pending_sidecar: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

/// The phase that the statuses amount to.
pub(crate) fn phase(view: &View<'_>, statuses: &[(ContainerIndex, &ContainerShape, &ContainerStatus)]) -> Phase {
    let mut tally = Tally::default();
    for (index, shape, status) in statuses {
        match shape.role {
            ContainerRole::Init => tally.add_init(view, *index, shape, status),
            ContainerRole::Sidecar => tally.add_sidecar(status),
            ContainerRole::App => tally.add_app(view, *index, shape, status),
            ContainerRole::Ephemeral => {}
        }
    }
    tally.decide(view)
}

impl Tally {
    /// L-702.
    fn add_init(&mut self, view: &View<'_>, index: ContainerIndex, shape: &ContainerShape, status: &ContainerStatus) {
        match ended(status) {
            None => self.pending_plain += 1,
            Some(0) => {}
            Some(code) if is_final(view, index, shape, status, code) => self.failed_for_good += 1,
            Some(_) => {}
        }
    }

    /// L-703.
    fn add_sidecar(&mut self, status: &ContainerStatus) {
        let state = status.state.as_ref();
        if state.is_some_and(|state| state.running.is_some()) {
            self.running += 1;
            self.pending_sidecar += usize::from(status.started != Some(true));
        } else if ended(status).is_none() {
            self.waiting += 1;
            self.pending_sidecar += 1;
        }
    }

    /// L-704.
    fn add_app(&mut self, view: &View<'_>, index: ContainerIndex, shape: &ContainerShape, status: &ContainerStatus) {
        if status.state.as_ref().is_some_and(|state| state.running.is_some()) {
            self.running += 1;
            return;
        }
        let Some(code) = ended(status) else {
            self.waiting += 1;
            return;
        };
        self.stopped += 1;
        self.stopped_for_good += usize::from(is_final(view, index, shape, status, code));
        self.succeeded += usize::from(terminated_code(status.state.as_ref()) == Some(0));
    }

    /// L-705; the first match wins.
    fn decide(&self, view: &View<'_>) -> Phase {
        let outcome = if self.stopped == self.succeeded { Phase::Succeeded } else { Phase::Failed };
        if self.failed_for_good > 0 {
            return Phase::Failed;
        }
        let is_starting = self.pending_plain > 0 || (self.pending_sidecar > 0 && !view.is_active);
        if is_starting || self.waiting > 0 {
            return Phase::Pending;
        }
        // L-229: a pod that has lost its sandbox begins anew.
        if view.is_initializing_again && !view.all_down {
            return Phase::Pending;
        }
        if self.running > 0 {
            return Phase::Running;
        }
        if self.stopped == 0 {
            return Phase::Pending;
        }
        if view.all_down && !view.is_static {
            return outcome;
        }
        if self.stopped != self.stopped_for_good { Phase::Running } else { outcome }
    }
}

/// The exit code of a container that has run and does not now.
fn ended(status: &ContainerStatus) -> Option<i32> {
    let state = status.state.as_ref()?;
    if state.running.is_some() {
        return None;
    }
    terminated_code(status.state.as_ref()).or_else(|| terminated_code(status.last_state.as_ref()))
}

/// True if nothing will start the container again (L-105, L-112; or a kill that ends in a start, L-305).
fn is_final(
    view: &View<'_>,
    index: ContainerIndex,
    shape: &ContainerShape,
    status: &ContainerStatus,
    code: i32,
) -> bool {
    let reason = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state.and_then(|state| state.terminated.as_ref()).and_then(|terminated| terminated.reason.clone())
    };
    let last = reason(status.state.as_ref()).or_else(|| reason(status.last_state.as_ref()));
    !shape.restart.should_restart(code)
        && last.as_deref() != Some(RESTARTING_ALL)
        && !view.is_restarted_after_kill(index)
}
