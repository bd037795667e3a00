//! Records that are of no more use (L-207, L-223, L-619).
//!
//! Of each container the newest ended instance is kept, for `lastState` and for the logs of the run before.

use std::collections::BTreeSet;

use crate::effect::Action;
use crate::identity::{ContainerId, SandboxId};
use crate::outbox::{Context, Purpose};
use crate::pod::PodWorker;
use crate::pod::live::RETRY;
use crate::time::after;

impl PodWorker {
    /// Asks for a container's removal, once. True if it was asked for now.
    pub(crate) fn remove_container(&mut self, cx: &mut Context<'_>, id: &ContainerId, keep_logs: bool) -> bool {
        if self.retry_at.is_some_and(|retry_at| cx.now < retry_at) || !self.removing.insert(id.clone()) {
            return false;
        }
        let action = Action::RemoveContainer { container: id.clone(), keep_logs };
        cx.send(&self.reference, action, Purpose::RemoveContainer(id.clone()));
        true
    }

    pub(crate) fn container_removal_answered(&mut self, cx: &mut Context<'_>, id: &ContainerId, has_failed: bool) {
        self.removing.remove(id);
        if has_failed {
            self.retry_at = Some(after(cx.now, RETRY));
        } else {
            self.records.container_removed(id);
        }
        self.dirty = true;
    }

    pub(crate) fn sandbox_removal_answered(&mut self, cx: &mut Context<'_>, id: &SandboxId, has_failed: bool) {
        self.sandbox_work.remove(id);
        if has_failed {
            self.retry_at = Some(after(cx.now, RETRY));
        } else {
            self.records.sandbox_removed(id);
        }
        self.dirty = true;
    }

    /// Removes instances that newer ones have made useless, and sandboxes that nothing needs.
    pub(crate) fn remove_superseded(&mut self, cx: &mut Context<'_>) {
        for id in self.superseded() {
            if !self.kills.iter().any(|kill| kill.container == id) {
                self.remove_container(cx, &id, false);
            }
        }
        if self.records.sandboxes().len() < 2 {
            return;
        }
        let newest = self.records.sandboxes().first().map(|sandbox| sandbox.id.clone());
        let in_use: BTreeSet<&SandboxId> =
            self.records.containers().iter().map(|known| &known.record.sandbox).collect();
        let useless: Vec<SandboxId> = self
            .records
            .sandboxes()
            .iter()
            .filter(|sandbox| !sandbox.ready && Some(&sandbox.id) != newest.as_ref() && !in_use.contains(&sandbox.id))
            .map(|sandbox| sandbox.id.clone())
            .collect();
        for id in useless {
            self.remove_sandbox(cx, id);
        }
    }

    /// Every instance that is neither the newest of its container nor the newest that has ended.
    fn superseded(&self) -> Vec<ContainerId> {
        let mut superseded = Vec::new();
        for (index, _) in self.shape.containers.iter() {
            let mut has_newest = false;
            let mut has_ended = false;
            for record in self.records.of(index) {
                let is_kept = !has_newest || (!has_ended && record.exit().is_some());
                has_newest = true;
                has_ended |= record.exit().is_some();
                if !is_kept && !record.is_running() {
                    superseded.push(record.id.clone());
                }
            }
        }
        superseded
    }

    /// L-207: before a new sandbox every trace of initialization goes.
    pub(crate) fn purge_init_records(&mut self, cx: &mut Context<'_>) {
        let init: Vec<ContainerId> =
            self.shape.init().flat_map(|(index, _)| self.records.of(index)).map(|record| record.id.clone()).collect();
        for id in init {
            self.remove_container(cx, &id, false);
        }
    }

    fn remove_sandbox(&mut self, cx: &mut Context<'_>, id: SandboxId) {
        let is_due = self.retry_at.is_none_or(|retry_at| cx.now >= retry_at);
        if is_due && self.sandbox_work.insert(id.clone()) {
            cx.send(&self.reference, Action::RemoveSandbox(id.clone()), Purpose::RemoveSandbox(id));
        }
    }

    /// The pod's object is gone: containers first, then sandboxes.
    pub(crate) fn remove_everything(&mut self, cx: &mut Context<'_>) {
        let containers: Vec<ContainerId> =
            self.records.containers().iter().map(|known| known.record.id.clone()).collect();
        for id in &containers {
            self.remove_container(cx, id, false);
        }
        if containers.is_empty() {
            let sandboxes: Vec<SandboxId> = self.records.sandboxes().iter().map(|sandbox| sandbox.id.clone()).collect();
            for id in sandboxes {
                self.remove_sandbox(cx, id);
            }
        }
    }
}
