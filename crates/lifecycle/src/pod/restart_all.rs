//! The restart of all containers in place (L-112, L-113).
//!
//! A container whose exit matches a rule with `RestartAllContainers` takes all others with it: everything is killed without ceremony and removed, sandbox and volumes stay, and the pod begins with its first init container.

use crate::identity::ContainerId;
use crate::outbox::Context;
use crate::pod::kill::KillScope;
use crate::pod::policy::RuleAction;
use crate::pod::{PodWorker, Stage};

/// A restart of all, under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestartAll {
    /// The condition has been told and the clean-up has begun.
    has_begun: bool,
}

impl RestartAll {
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }
}

impl PodWorker {
    /// Notices an exit that restarts all, so that the status that tells of the exit tells of the restart too.
    pub(crate) fn notice_restart_all(&mut self, cx: &mut Context<'_>) {
        let is_possible = self.shape.could_restart_all && self.restart_all.is_none() && !self.is_deleted();
        if is_possible && matches!(self.stage, Stage::Live) && self.find_trigger().is_some() {
            self.restart_all = Some(RestartAll::default());
            self.cancel_start(cx);
            self.dirty = true;
        }
    }

    /// Carries a restart of all on. `None` if there is none; else whether anything changed.
    pub(crate) fn advance_restart_all(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        let restart_all = self.restart_all.as_mut()?;
        if self.start.is_some() {
            return Some(false);
        }
        if !restart_all.has_begun {
            restart_all.has_begun = true;
            self.kill_for_reset(cx);
            return Some(true);
        }
        self.remove_reset(cx)
    }

    /// A container whose newest instance ended with a code that a rule wants all restarted for.
    fn find_trigger(&self) -> Option<ContainerId> {
        let record = self.shape.containers.iter().find_map(|(index, shape)| {
            let record = self.records.newest_active(index)?;
            let code = record.exit()?.effective_code();
            (shape.restart.rule_for(code) == Some(RuleAction::RestartAllContainers)).then_some(record)
        });
        record.map(|record| record.id.clone())
    }

    fn kill_for_reset(&mut self, cx: &mut Context<'_>) {
        // App containers first, as the kubelet does it.
        let all: Vec<ContainerId> = self
            .shape
            .app()
            .chain(self.shape.init())
            .flat_map(|(index, _)| self.records.of(index))
            .map(|record| record.id.clone())
            .collect();
        self.resetting.extend(all.iter().cloned());
        for id in &all {
            if self.records.is_running(id) {
                self.shorten_kills_of(id, cx);
                self.begin_kill(cx, id, KillScope::Reset, 0, Some("killing"));
            }
        }
    }

    fn shorten_kills_of(&mut self, id: &ContainerId, cx: &Context<'_>) {
        for kill in self.kills.iter_mut().filter(|kill| kill.container == *id) {
            kill.shorten(0, cx.now);
        }
    }

    /// Removes what has ended; once all is gone the pod begins anew.
    fn remove_reset(&mut self, cx: &mut Context<'_>) -> Option<bool> {
        let standing: Vec<ContainerId> = self
            .records
            .containers()
            .iter()
            .map(|known| &known.record.id)
            .filter(|id| self.resetting.contains(*id))
            .cloned()
            .collect();
        if standing.is_empty() {
            self.restart_all = None;
            self.resetting.clear();
            for (_, memory) in self.memory.iter_mut() {
                memory.forget_errors();
            }
            self.dirty = true;
            return Some(true);
        }
        // The trigger goes last: until then an agent that starts anew finds the reason for all this.
        let has_others = standing.iter().any(|id| !self.is_trigger(id));
        for id in standing {
            let is_down = !self.records.is_running(&id) && !self.kills.iter().any(|kill| kill.container == id);
            if is_down && !(has_others && self.is_trigger(&id)) {
                self.remove_container(cx, &id, true);
            }
        }
        Some(false)
    }

    fn is_trigger(&self, id: &ContainerId) -> bool {
        let Some(known) = self.records.find(id) else { return false };
        let shape = known.index.and_then(|index| self.shape.containers.get(index));
        let code = known.record.exit().map(crate::observation::Exit::effective_code);
        shape.zip(code).and_then(|(shape, code)| shape.restart.rule_for(code)) == Some(RuleAction::RestartAllContainers)
    }
}
