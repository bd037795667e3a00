//! The end of a pod: everything is stopped in order, then the last status is written, then what it had is taken away (section 6).

use jiff::Timestamp;

use crate::effect::Action;
use crate::events;
use crate::identity::{ContainerId, SandboxId};
use crate::input::Failure;
use crate::outbox::{Context, Purpose};
use crate::pod::actions::KillCause;
use crate::pod::kill::{Budget, KillScope};
use crate::pod::live::RETRY;
use crate::pod::shape::ContainerIndex;
use crate::pod::{PodWorker, Stage};
use crate::time::after;

/// Why a pod ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its object carries a deletion timestamp.
    Deleted,
    /// Its object is gone.
    Removed,
    /// The runtime has records that no object stands behind.
    Orphaned,
    /// It has done all that it can do (L-612), or its phase was final when the engine began.
    Completed,
    /// The node ends it: deadline, eviction, shutdown (L-615 to L-617).
    Forced(Ending),
}

/// The phase `Failed` for a reason of the node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The message of the condition `DisruptionTarget`, if it is to be set.
    pub(crate) disruption: Option<String>,
    /// The pod never ran here: no containers are reported (L-617).
    pub(crate) is_rejection: bool,
}

/// A pod's end under way.
#[derive(Clone, Debug)]
pub(crate) struct Termination {
    pub(crate) cause: Cause,
    pub(crate) budget: Budget,
    /// When the node's patience with the pod's end is over (L-620).
    pub(crate) overdue_at: Option<Timestamp>,
    /// `TearDownPod` was answered well.
    pub(crate) is_torn_down: bool,
    pub(crate) tear_down_in_flight: bool,
    pub(crate) object_deletion: ObjectDeletion,
    /// The last status, with every container accounted for, has been computed.
    pub(crate) is_final: bool,
}

/// The removal of the pod's object (L-619).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectDeletion {
    NotAsked,
    InFlight,
    Done,
}

impl Termination {
    fn new(cause: Cause, budget: Budget) -> Self {
        Termination {
            cause,
            budget,
            overdue_at: None,
            is_torn_down: false,
            tear_down_in_flight: false,
            object_deletion: ObjectDeletion::NotAsked,
            is_final: false,
        }
    }
}

impl PodWorker {
    /// The grace of a kill that the node decides on (L-418).
    pub(crate) fn kill_grace(&self, probe: Option<(ContainerIndex, KillCause)>) -> i64 {
        if let Some(grace) = self.deletion_grace() {
            return grace;
        }
        let own = probe.and_then(|(index, cause)| {
            let shape = self.shape.containers.get(index)?;
            let probe = match cause {
                KillCause::Liveness => shape.liveness_probe.as_ref(),
                KillCause::Startup => shape.startup_probe.as_ref(),
                KillCause::Other => None,
            };
            probe?.termination_grace_period_seconds
        });
        own.unwrap_or(self.shape.grace_seconds)
    }

    fn deletion_grace(&self) -> Option<i64> {
        self.pod.as_ref().and_then(|pod| pod.metadata.deletion_grace_period_seconds)
    }

    /// Begins the end of the pod, or shortens the one under way.
    ///
    /// Without a grace the pod's own one counts, even if it is zero; a grace given is at least a second (L-602).
    pub(crate) fn begin_termination(&mut self, cx: &mut Context<'_>, cause: Cause, grace_seconds: Option<i64>) {
        let grace = grace_seconds.map_or_else(|| self.kill_grace(None), |grace| grace.max(1));
        if let Stage::Terminating(termination) = &mut self.stage {
            if let Cause::Forced(_) | Cause::Removed = cause {
                adopt_cause(termination, cause);
            }
            self.shorten_kills(grace, cx.now);
            self.dirty = true;
            return;
        }
        if !matches!(self.stage, Stage::Live) {
            return;
        }
        // Kills under way go on within the pod's.
        self.shorten_kills(grace, cx.now);
        for kill in &mut self.kills {
            kill.scope = KillScope::Pod;
        }
        self.restart_all = None;
        self.stage = Stage::Terminating(Termination::new(cause, Budget::new(grace, cx.now)));
        self.cancel_start(cx);
        self.kill_all(cx, grace);
        self.dirty = true;
    }

    /// Kills everything that runs. True if anything was still to be killed.
    pub(crate) fn kill_all(&mut self, cx: &mut Context<'_>, grace_seconds: i64) -> bool {
        let mut running: Vec<_> = self
            .records
            .containers()
            .iter()
            .filter(|known| known.record.is_running())
            .filter(|known| !self.kills.iter().any(|kill| kill.container == known.record.id))
            .map(|known| (known.index, known.record.id.clone()))
            .collect();
        running.sort();
        for (_, id) in &running {
            self.begin_kill(cx, id, KillScope::Pod, grace_seconds, None);
        }
        !running.is_empty()
    }

    /// Ends what still stands; once all is down the pod is terminated. True if anything changed.
    pub(crate) fn advance_termination(&mut self, cx: &mut Context<'_>) -> bool {
        self.tell_overdue(cx);
        let Stage::Terminating(termination) = &self.stage else { return false };
        // A container whose start could not be stopped any more has what is left of the grace.
        let left = Budget::new(0, cx.now).deadline().max(termination.budget.deadline());
        let left = crate::time::elapsed_seconds(cx.now, left);
        if self.kill_all(cx, left) {
            return true;
        }
        if !self.kills.is_empty() || self.start.is_some() {
            return false;
        }
        if self.remove_unstarted(cx) || self.stop_sandboxes(cx) || self.preparation.is_busy() {
            return false;
        }
        if let Stage::Terminating(termination) = std::mem::replace(&mut self.stage, Stage::Live) {
            self.stage = Stage::Terminated(termination);
        }
        self.dirty = true;
        true
    }

    /// Containers that were made and never started, or of which nothing is known, hold the sandbox. True while any does.
    fn remove_unstarted(&mut self, cx: &mut Context<'_>) -> bool {
        let standing: Vec<ContainerId> = self
            .records
            .containers()
            .iter()
            .filter(|known| known.record.exit().is_none())
            .map(|known| known.record.id.clone())
            .collect();
        for id in &standing {
            self.remove_container(cx, id, true);
        }
        !standing.is_empty()
    }

    /// Stops every sandbox that stands (L-609). True while any does.
    pub(crate) fn stop_sandboxes(&mut self, cx: &mut Context<'_>) -> bool {
        let standing: Vec<SandboxId> =
            self.records.sandboxes().iter().filter(|sandbox| sandbox.ready).map(|sandbox| sandbox.id.clone()).collect();
        if self.retry_at.is_none_or(|retry_at| cx.now >= retry_at) {
            for id in &standing {
                if self.sandbox_work.insert(id.clone()) {
                    cx.send(&self.reference, Action::StopSandbox(id.clone()), Purpose::StopSandbox(id.clone()));
                }
            }
        }
        !standing.is_empty()
    }

    pub(crate) fn sandbox_stop_answered(&mut self, cx: &mut Context<'_>, id: &SandboxId, failure: Option<Failure>) {
        self.sandbox_work.remove(id);
        match failure {
            None => self.records.sandbox_stopped(id),
            Some(failure) => {
                let event = events::pod(true, "FailedKillPod", format!("error killing pod: {}", failure.message));
                self.record_event(cx, event);
                self.retry_at = Some(after(cx.now, RETRY));
            }
        }
        self.dirty = true;
    }

    /// L-618, L-619: the last status, then volumes and cgroup, then the object, then the records. True if anything changed.
    pub(crate) fn advance_terminated(&mut self, cx: &mut Context<'_>) -> bool {
        let is_due = self.retry_at.is_none_or(|retry_at| cx.now >= retry_at);
        let Stage::Terminated(termination) = &mut self.stage else { return false };
        if !termination.is_final || !self.publication.is_told() {
            return false;
        }
        if !termination.is_torn_down {
            if !termination.tear_down_in_flight && is_due {
                termination.tear_down_in_flight = true;
                cx.send(&self.reference, Action::TearDownPod, Purpose::TearDown);
            }
            return false;
        }
        let is_gone = self.object_is_gone || self.pod.is_none();
        if !is_gone && self.is_deleted() {
            self.delete_object(cx, is_due);
        }
        if is_gone && is_due {
            self.remove_everything(cx);
        }
        false
    }

    fn delete_object(&mut self, cx: &mut Context<'_>, is_due: bool) {
        let Stage::Terminated(termination) = &mut self.stage else { return };
        let is_wanted = termination.object_deletion == ObjectDeletion::NotAsked && is_due;
        // Only once the last status was accepted: it says how the pod ended.
        if is_wanted && self.publication.is_accepted() {
            termination.object_deletion = ObjectDeletion::InFlight;
            let action = Action::DeletePodObject(self.reference.uid.clone());
            cx.send(&self.reference, action, Purpose::DeleteObject);
        }
    }

    pub(crate) fn object_deletion_answered(&mut self, cx: &mut Context<'_>, has_failed: bool) {
        if let Stage::Terminated(termination) = &mut self.stage {
            termination.object_deletion = if has_failed { ObjectDeletion::NotAsked } else { ObjectDeletion::Done };
        }
        if has_failed {
            self.retry_at = Some(after(cx.now, RETRY));
        } else {
            self.object_is_gone = true;
            self.publication.stop();
        }
    }

    pub(crate) fn torn_down(&mut self, cx: &mut Context<'_>, failure: Option<Failure>) {
        if let Stage::Terminated(termination) = &mut self.stage {
            termination.tear_down_in_flight = false;
            termination.is_torn_down = failure.is_none();
        }
        if failure.is_some() {
            self.retry_at = Some(after(cx.now, RETRY));
        }
    }

    /// The pod's object is gone from the API.
    pub(crate) fn object_removed(&mut self, cx: &mut Context<'_>) {
        self.object_is_gone = true;
        self.publication.stop();
        if matches!(self.stage, Stage::Live) {
            // L-601: a removal by force leaves the pod's own grace to what runs.
            self.begin_termination(cx, Cause::Removed, Some(self.shape.grace_seconds));
        }
        self.dirty = true;
    }
}

/// Of several causes the first that gives the pod a reason is told.
fn adopt_cause(termination: &mut Termination, cause: Cause) {
    if !matches!(termination.cause, Cause::Forced(_)) {
        termination.cause = cause;
    }
}
