//! When a pod must be looked at again, and what ends it by time or by order (L-615 to L-617).

use jiff::Timestamp;

use crate::events;
use crate::outbox::Context;
use crate::pod::termination::{Cause, Ending};
use crate::pod::{PodWorker, Stage};
use crate::status::phase::Phase;
use crate::time::{after, earliest, seconds};

/// The node waits at least so long for a pod that it ends.
const LEAST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

pub(crate) const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

impl PodWorker {
    /// Why a live pod must end now, and the grace that it has.
    pub(crate) fn reason_to_end(&mut self, cx: &mut Context<'_>) -> Option<(Cause, Option<i64>)> {
        if self.is_deleted() {
            return Some((Cause::Deleted, Some(self.kill_grace(None))));
        }
        if self.publication.phase.is_final() {
            return Some((Cause::Completed, None));
        }
        if self.active_deadline().is_some_and(|deadline| cx.now >= deadline) {
            self.record_event(cx, events::pod(false, "DeadlineExceeded", DEADLINE_MESSAGE));
            let ending = Ending {
                reason: "DeadlineExceeded".to_owned(),
                message: DEADLINE_MESSAGE.to_owned(),
                disruption: None,
                is_rejection: false,
            };
            return Some((Cause::Forced(ending), Some(self.shape.grace_seconds)));
        }
        None
    }

    /// L-615: counted from the status's start time.
    fn active_deadline(&self) -> Option<Timestamp> {
        let limit = self.shape.active_deadline_seconds?;
        let start = self.publication.last()?.start_time.as_ref()?;
        Some(after(start.0, seconds(limit)))
    }

    /// The pod is ended by the node (L-616, L-617). A pod that is ending already only gets the shorter grace.
    pub(crate) fn end_by_force(&mut self, cx: &mut Context<'_>, ending: Ending, grace_seconds: i64) {
        if matches!(self.stage, Stage::Terminated(_)) || self.publication.phase.is_final() {
            return;
        }
        if let Some(message) = &ending.disruption {
            self.disrupt(message, cx.now);
        }
        let grace = grace_seconds.min(self.shape.grace_seconds);
        self.begin_termination(cx, Cause::Forced(ending), Some(grace));
        // L-620: who asked for it waits so long.
        let patience = seconds(grace.saturating_add(grace / 2)).max(LEAST_PATIENCE);
        if let Stage::Terminating(termination) = &mut self.stage {
            termination.overdue_at = Some(after(cx.now, patience));
        }
    }

    /// L-620. True if it was told.
    pub(crate) fn tell_overdue(&mut self, cx: &mut Context<'_>) -> bool {
        let Stage::Terminating(termination) = &mut self.stage else { return false };
        if termination.overdue_at.is_none_or(|overdue_at| cx.now < overdue_at) {
            return false;
        }
        termination.overdue_at = None;
        let message = "Container runtime did not kill the pod within specified grace period.";
        self.record_event(cx, events::pod(true, "ExceededGracePeriod", message));
        true
    }

    /// A deletion that arrives while the pod is ending can only shorten its grace (L-602).
    pub(crate) fn deletion_arrived(&mut self, cx: &mut Context<'_>) {
        if matches!(self.stage, Stage::Terminating(_)) {
            let grace = self.kill_grace(None).max(1);
            self.shorten_kills(grace, cx.now);
            self.dirty = true;
        }
    }

    /// The next moment at which time alone changes something.
    ///
    /// What was due by `now` has been done, or waits for something else than time.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let later = |due: &Timestamp| *due > now;
        let mut due = self.kills.iter().map(super::kill::Kill::due).filter(later).min();
        due = earliest(due, self.publication.due().filter(later));
        due = earliest(due, self.retry_at.filter(later));
        due = earliest(due, self.start.as_ref().and_then(super::start::Start::due).filter(later));
        due = earliest(due, self.probes_due(now));
        match &self.stage {
            Stage::Live => earliest(due, self.live_due(now)),
            Stage::Terminating(termination) => earliest(due, termination.overdue_at.filter(later)),
            Stage::Terminated(_) => due,
        }
    }

    fn live_due(&self, now: Timestamp) -> Option<Timestamp> {
        let later = |due: &Timestamp| *due > now;
        let due = earliest(self.preparation.due(now), self.active_deadline().filter(later));
        let waits = self.memory.iter().filter_map(|(_, memory)| memory.wait_until).filter(later);
        earliest(due, waits.min())
    }

    /// A phase that has been told and is final.
    pub(crate) fn told_phase(&self) -> Phase {
        Phase::parse(self.publication.last().and_then(|status| status.phase.as_deref()))
    }
}

impl PodWorker {
    /// What a pod waits for that has no deadline, no effect on its way and no running container that may end.
    pub(crate) fn waits_for_nothing(&self) -> Option<&'static str> {
        if self.records.any_running() || self.awaits_room {
            return None;
        }
        match &self.stage {
            Stage::Live if self.preparation.waits_for_network() => None,
            Stage::Live => Some("a container to start or a pod to end"),
            Stage::Terminating(_) => Some("its containers to end"),
            Stage::Terminated(termination) if !termination.is_torn_down => Some("its volumes to be taken down"),
            Stage::Terminated(_) if self.is_deleted() && !self.object_is_gone => Some("its object to be removed"),
            Stage::Terminated(_) => None,
        }
    }
}
