//! The kills under way in one pod, and the order among them (L-603 to L-608).
//!
//! All kills of a pod begin at the same moment and run side by side; only the signals wait for their turn.

use jiff::Timestamp;

use crate::effect::{Action, Signal};
use crate::events;
use crate::identity::{ContainerId, ContainerRole, EffectId};
use crate::input::{Failure, Outcome};
use crate::outbox::{Context, Purpose};
use crate::pod::PodWorker;
use crate::pod::kill::{Kill, KillScope, KillStage};
use crate::pod::shape::ContainerIndex;
use crate::time::{after, seconds};

impl PodWorker {
    /// Decides to kill a container and says so; [`Self::advance_kills`] does it.
    pub(crate) fn begin_kill(
        &mut self,
        cx: &mut Context<'_>,
        id: &ContainerId,
        scope: KillScope,
        grace_seconds: i64,
        message: Option<&str>,
    ) {
        if self.kills.iter().any(|kill| kill.container == *id) {
            return;
        }
        let Some(known) = self.records.find(id) else { return };
        let index = known.index;
        let message = message.map_or_else(|| format!("Stopping container {}", known.record.name), str::to_owned);
        if let Some(shape) = index.and_then(|index| self.shape.containers.get(index)) {
            let event = events::container(&shape.field_path, false, "Killing", message);
            self.record_event(cx, event);
        }
        self.kills.push(Kill::new(id.clone(), index, scope, grace_seconds, cx.now));
    }

    /// preStop runs if there is one and grace to run it in (L-503).
    fn begin_hook(&mut self, cx: &mut Context<'_>, kill: &mut Kill) {
        let handler = kill.index.and_then(|index| self.shape.containers.get(index)).and_then(|s| s.pre_stop.clone());
        let (Some(handler), false, Some(pod)) = (handler, kill.budget.is_empty(), self.pod.clone()) else {
            return self.take_turn(cx, kill);
        };
        if let Some(sleep) = &handler.sleep {
            // L-506: the wait is ours, so that it can end early.
            let until = after(cx.now, seconds(sleep.seconds));
            kill.stage = KillStage::Hook { effect: None, sleeps_until: Some(until) };
            return;
        }
        let name = kill.index.map(|index| self.shape.containers.at(index).name.clone()).unwrap_or_default();
        let action = Action::RunHook { container: kill.container.clone(), pod, name, handler };
        let effect = cx.send(&self.reference, action, Purpose::PreStop(kill.container.clone()));
        kill.stage = KillStage::Hook { effect: Some(effect), sleeps_until: None };
    }

    /// A preStop hook was answered for.
    pub(crate) fn pre_stop_answered(
        &mut self,
        cx: &mut Context<'_>,
        id: &ContainerId,
        effect: EffectId,
        outcome: &Outcome,
    ) {
        let Some(position) = self.kills.iter().position(|kill| {
            kill.container == *id && matches!(kill.stage, KillStage::Hook { effect: Some(own), .. } if own == effect)
        }) else {
            return;
        };
        let mut kill = self.kills.remove(position);
        if let (Outcome::Failed(_), Some(index)) = (outcome, kill.index) {
            let path = self.shape.containers.at(index).field_path.clone();
            self.record_event(cx, events::container(&path, true, "FailedPreStopHook", "PreStopHook failed"));
        }
        self.end_hook(cx, &mut kill);
        self.kills.insert(position, kill);
    }

    fn end_hook(&mut self, cx: &mut Context<'_>, kill: &mut Kill) {
        kill.charge(cx.now);
        self.take_turn(cx, kill);
    }

    /// Waits for its turn or, if nobody stands before it, sends the stop signal.
    fn take_turn(&mut self, cx: &mut Context<'_>, kill: &mut Kill) {
        kill.stage = KillStage::Turn;
        if kill.budget.is_empty() || !self.has_to_wait(kill) {
            self.send_stop(cx, kill);
        }
    }

    fn send_stop(&mut self, cx: &mut Context<'_>, kill: &mut Kill) {
        let grace = kill.stop(cx.now);
        if !self.records.is_running(&kill.container) {
            return;
        }
        let named = kill
            .index
            .and_then(|index| self.shape.containers.get(index))
            .and_then(|shape| shape.stop_signal.clone())
            .filter(|_| cx.config.stop_signals);
        self.send_signal(cx, &kill.container, Signal::Stop { named, grace });
    }

    fn send_signal(&mut self, cx: &mut Context<'_>, id: &ContainerId, signal: Signal) {
        let action = Action::SignalContainer { container: id.clone(), signal };
        cx.send(&self.reference, action, Purpose::Signal(id.clone()));
    }

    /// L-604: a sidecar waits for every app container and for the next later sidecar, as far as they are being killed with it.
    fn has_to_wait(&self, kill: &Kill) -> bool {
        if kill.scope != KillScope::Pod || !self.shape.has_sidecars {
            return false;
        }
        let Some(index) = kill.index else { return false };
        if self.shape.containers.at(index).role != ContainerRole::Sidecar {
            return false;
        }
        let next = self.shape.init().find(|(later, shape)| *later > index && shape.role == ContainerRole::Sidecar);
        self.kills.iter().filter_map(|other| other.index).any(|other| {
            self.shape.containers.at(other).role == ContainerRole::App || next.is_some_and(|(next, _)| next == other)
        })
    }

    /// Moves every kill on as far as exits and time allow. True if anything changed.
    pub(crate) fn advance_kills(&mut self, cx: &mut Context<'_>) -> bool {
        let mut changed = false;
        while let Some(position) = self.kills.iter().position(|kill| self.can_advance(kill, cx.now)) {
            let mut kill = self.kills.remove(position);
            if self.advance_kill(cx, &mut kill) {
                self.kills.insert(position, kill);
            } else {
                self.dirty = true;
            }
            changed = true;
        }
        changed
    }

    fn can_advance(&self, kill: &Kill, now: Timestamp) -> bool {
        let has_exited = !self.is_up(&kill.container);
        match kill.stage {
            KillStage::Decided => true,
            KillStage::Turn => now >= kill.due() || !self.has_to_wait(kill),
            KillStage::Hook { .. } | KillStage::Stopping { .. } | KillStage::Killed { .. } => {
                has_exited || now >= kill.due()
            }
        }
    }

    /// A container of which nothing is known may still stand.
    fn is_up(&self, id: &ContainerId) -> bool {
        self.records.is_running(id)
    }

    /// False if the kill is over.
    fn advance_kill(&mut self, cx: &mut Context<'_>, kill: &mut Kill) -> bool {
        let has_exited = !self.is_up(&kill.container);
        match kill.stage {
            KillStage::Decided if has_exited => self.take_turn(cx, kill),
            KillStage::Decided => self.begin_hook(cx, kill),
            KillStage::Hook { effect, .. } => {
                if let Some(effect) = effect {
                    // Out of time, or of use (L-503, L-506).
                    self.cancel(cx, effect);
                }
                self.end_hook(cx, kill);
            }
            KillStage::Turn => {
                kill.charge(cx.now);
                self.send_stop(cx, kill);
            }
            KillStage::Stopping { .. } | KillStage::Killed { .. } if has_exited => return false,
            KillStage::Stopping { .. } | KillStage::Killed { .. } => {
                kill.kill(cx.now);
                self.send_signal(cx, &kill.container, Signal::Kill);
            }
        }
        true
    }

    /// A signal was answered for. Failure is told, and the timer sends the next one (L-608).
    pub(crate) fn signal_answered(&mut self, cx: &mut Context<'_>, failure: Option<&Failure>) {
        if let Some(failure) = failure {
            let event = events::pod(true, "FailedKillPod", format!("error killing pod: {}", failure.message));
            self.record_event(cx, event);
        }
    }

    /// A shorter grace counts for every kill under way (L-602).
    pub(crate) fn shorten_kills(&mut self, grace_seconds: i64, now: Timestamp) {
        for kill in &mut self.kills {
            kill.shorten(grace_seconds, now);
        }
    }

    /// True while an instance of the container is being killed.
    pub(crate) fn is_being_killed(&self, index: ContainerIndex) -> bool {
        self.kills.iter().any(|kill| kill.index == Some(index))
    }
}
