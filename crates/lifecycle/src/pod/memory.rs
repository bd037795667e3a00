//! What the engine remembers of a container beyond its records.
//!
//! An agent that starts anew begins with none of it, and must do right all the same.

use jiff::Timestamp;

use crate::identity::ContainerId;
use crate::pod::back_off::BackOff;
use crate::probe::ProbeKind;
use crate::probe::worker::ProbeWorker;

/// Why a container could not be started: its waiting reason and message (L-734).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartError {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// The memory of one container of the spec.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerMemory {
    /// The crash-loop count (L-307).
    pub(crate) crash: BackOff,
    /// The count of starts that failed before the container ran (L-313).
    pub(crate) start: BackOff,
    /// No start before this moment.
    pub(crate) wait_until: Option<Timestamp>,
    pub(crate) start_error: Option<StartError>,
    /// An instance that the node kills in order to start the next one (L-216, L-305).
    pub(crate) restart_after_kill: Option<ContainerId>,
    /// When the instance before that one ended, as known when the kill was decided (L-309).
    pub(crate) finish_before_kill: Option<Timestamp>,
    /// The ended instance whose wait has been told.
    pub(crate) waits_for: Option<ContainerId>,
    /// The ended instance whose restart has been counted: a try that fails before it runs is not counted again.
    pub(crate) counted: Option<ContainerId>,
    /// The restart count that the next instance has at least.
    pub(crate) next_attempt: u32,
    startup: Option<ProbeWorker>,
    readiness: Option<ProbeWorker>,
    liveness: Option<ProbeWorker>,
}

impl ContainerMemory {
    pub(crate) fn probe(&self, kind: ProbeKind) -> Option<&ProbeWorker> {
        match kind {
            ProbeKind::Startup => self.startup.as_ref(),
            ProbeKind::Readiness => self.readiness.as_ref(),
            ProbeKind::Liveness => self.liveness.as_ref(),
        }
    }

    pub(crate) fn probe_slot(&mut self, kind: ProbeKind) -> &mut Option<ProbeWorker> {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Readiness => &mut self.readiness,
            ProbeKind::Liveness => &mut self.liveness,
        }
    }

    /// A start that went through: what held the last ones back is over.
    pub(crate) fn forget_errors(&mut self) {
        self.start_error = None;
        self.start.clear();
        self.wait_until = None;
        self.waits_for = None;
        self.restart_after_kill = None;
        self.finish_before_kill = None;
    }
}
