//! What reaches a pod from outside besides its object, its records and its answers.

use crate::admission::Refusal;
use crate::events;
use crate::input::ReferenceKind;
use crate::outbox::Context;
use crate::pod::references::refers_to;
use crate::pod::termination::{Cause, Ending};
use crate::pod::{PodWorker, Stage};

impl PodWorker {
    /// The node refuses the pod (L-617, L-1033).
    pub(crate) fn refuse(&mut self, cx: &mut Context<'_>, refusal: Refusal) {
        if !self.is_fresh() {
            return;
        }
        self.record_event(cx, events::pod(true, &refusal.reason, refusal.message.clone()));
        // The shutdown's own text is told as it is.
        let message = match refusal.message.strip_prefix("Pod was rejected") {
            Some(_) => refusal.message,
            None => format!("Pod was rejected: {}", refusal.message),
        };
        let ending = Ending { reason: refusal.reason, message, disruption: None, is_rejection: true };
        self.begin_termination(cx, Cause::Forced(ending), Some(1));
    }

    /// The node evicts the pod (L-616, L-1031). Critical pods are spared.
    pub(crate) fn evict(&mut self, cx: &mut Context<'_>, ending: Ending, grace_seconds: i64) {
        if self.is_critical() || self.pod.is_none() || matches!(self.stage, Stage::Terminated(_)) {
            return;
        }
        self.record_event(cx, events::pod(true, "Evicted", ending.message.clone()));
        self.end_by_force(cx, ending, grace_seconds);
    }

    /// The pod makes room for a critical one (L-617, L-1031).
    pub(crate) fn preempt(&mut self, cx: &mut Context<'_>) {
        let ending = crate::preemption::ending();
        self.record_event(cx, events::pod(true, "Preempting", ending.message.clone()));
        let grace = self.shape.grace_seconds;
        self.end_by_force(cx, ending, grace);
    }

    /// True if the pod holds what it asked for.
    pub(crate) fn takes_room(&self) -> bool {
        self.pod.is_some() && self.is_counted && !self.awaits_room && !self.is_down() && !self.told_phase().is_final()
    }

    /// When the object was created.
    pub(crate) fn created_at(&self) -> Option<jiff::Timestamp> {
        self.pod.as_ref()?.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// True for a pod that the node has not taken on yet.
    pub(crate) fn is_fresh(&self) -> bool {
        let is_begun = self.status().is_some_and(|status| status.start_time.is_some());
        self.pod.is_some()
            && self.records.is_empty()
            && !is_begun
            && !self.is_deleted()
            && !self.told_phase().is_final()
    }

    /// True once nothing of the pod runs and nothing will.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Terminated(_))
    }

    pub(crate) fn refers_to(&self, kind: ReferenceKind, namespace: &str, name: &str) -> bool {
        let spec = self.pod.as_ref().and_then(|pod| pod.spec.as_ref());
        self.reference.namespace == namespace && spec.is_some_and(|spec| refers_to(spec, kind, name))
    }

    /// An object that the pod refers to was written: volumes follow it, and starts that it held back are tried at once.
    pub(crate) fn reference_changed(&mut self) {
        self.preparation.refresh();
        self.pulls.clear();
        for (_, memory) in self.memory.iter_mut() {
            let is_crash_loop = memory.waits_for.is_some();
            if memory.start_error.is_some() && !is_crash_loop {
                memory.wait_until = None;
                memory.start.clear();
            }
        }
    }
}
