//! The probe workers of a pod: who is probed, and what follows (L-401 to L-421).

use jiff::Timestamp;

use crate::effect::Action;
use crate::events;
use crate::identity::{ContainerId, ContainerRole, EffectId};
use crate::input::{Outcome, ProbeOutcome};
use crate::outbox::{Context, Purpose};
use crate::pod::shape::{ContainerIndex, ContainerShape};
use crate::pod::{PodWorker, Stage};
use crate::probe::worker::{ProbeTarget, ProbeWorker, Verdict};
use crate::probe::{ProbeKind, ProbeNumbers, ProbeResult};
use crate::time::{after, earliest, seconds};

/// A container that started this long before the agent did was probed by another one (L-225).
const ADOPTION: std::time::Duration = std::time::Duration::from_secs(10);

impl ContainerShape {
    pub(crate) fn probe(&self, kind: ProbeKind) -> Option<&k8s_openapi::api::core::v1::Probe> {
        match kind {
            ProbeKind::Startup => self.startup_probe.as_deref(),
            ProbeKind::Readiness => self.readiness_probe.as_deref(),
            ProbeKind::Liveness => self.liveness_probe.as_deref(),
        }
    }
}

impl PodWorker {
    /// Lets every probe worker follow its container. True if an attempt was given up.
    pub(crate) fn follow_containers(&mut self, cx: &mut Context<'_>) -> bool {
        if !matches!(self.stage, Stage::Terminated(_)) {
            self.make_workers(cx);
        }
        if self.records.take_changed() {
            self.note_attempts();
        }
        let mut changed = false;
        for position in 0..self.shape.containers.0.len() {
            let index = ContainerIndex(position);
            for kind in ProbeKind::ALL {
                changed |= self.follow(cx, index, kind);
            }
        }
        if matches!(self.stage, Stage::Live) && self.records.containers().len() > 1 {
            self.remove_superseded(cx);
        }
        changed
    }

    /// The restart count of what comes next is more than that of anything seen (L-221).
    fn note_attempts(&mut self) {
        for known in self.records.containers() {
            if let Some(memory) = known.index.and_then(|index| self.memory.get_mut(index)) {
                memory.next_attempt = memory.next_attempt.max(known.record.attempt.saturating_add(1));
            }
        }
    }

    /// Workers exist from the moment at which the pod's volumes stand (L-201 (9)); a missing one is always made (L-408).
    fn make_workers(&mut self, cx: &mut Context<'_>) {
        // Containers that ran before the engine began have theirs at once: what is known of them must not be lost.
        if !self.preparation.has_volumes() && !self.is_adopted {
            return;
        }
        for position in 0..self.shape.containers.0.len() {
            let index = ContainerIndex(position);
            for kind in ProbeKind::ALL {
                let numbers = self.shape.containers.at(index).probe(kind).map(ProbeNumbers::of);
                let is_missing = self.memory.at(index).probe(kind).is_none();
                if let (Some(numbers), true) = (numbers, is_missing) {
                    let origin = self.first_tick(cx, numbers);
                    let mut worker = ProbeWorker::new(kind, numbers, origin);
                    self.adopt_result(cx, index, &mut worker);
                    self.memory_mut(index, |memory| *memory.probe_slot(kind) = Some(worker));
                }
            }
        }
    }

    /// L-401: an agent that starts anew spreads the probes of what it finds running over their first period.
    fn first_tick(&self, cx: &mut Context<'_>, numbers: ProbeNumbers) -> Timestamp {
        let period = seconds(numbers.period_seconds);
        if !self.is_adopted || cx.now >= after(cx.synced_at, period) {
            return cx.now;
        }
        after(cx.now, period.mul_f64(cx.random.fraction()))
    }

    /// L-225: what an earlier agent knew of a running container holds, if it is the same container.
    fn adopt_result(&self, cx: &Context<'_>, index: ContainerIndex, worker: &mut ProbeWorker) {
        let shape = &self.shape.containers.at(index);
        let Some(record) = self.records.newest(index).filter(|record| record.is_running()) else { return };
        let id = crate::status::api_container_id(cx.config, &record.id);
        let told = self.publication.last().and_then(|status| {
            let list = match shape.role {
                ContainerRole::App => status.container_statuses.as_deref(),
                _ => status.init_container_statuses.as_deref(),
            };
            list?.iter().find(|status| status.container_id.as_deref() == Some(id.as_str()))
        });
        let Some(told) = told else { return };
        let is_old = match record.state {
            crate::observation::RuntimeState::Running { started_at } => after(started_at, ADOPTION) < cx.synced_at,
            _ => false,
        };
        match worker.kind {
            ProbeKind::Startup if told.started == Some(true) => worker.adopt(&record.id, ProbeResult::Success),
            ProbeKind::Readiness if is_old && told.ready => worker.adopt(&record.id, ProbeResult::Success),
            _ => {}
        }
    }

    fn follow(&mut self, cx: &mut Context<'_>, index: ContainerIndex, kind: ProbeKind) -> bool {
        if self.memory.at(index).probe(kind).is_none() {
            return false;
        }
        let shape_has_probe = self.shape.containers.at(index).probe(kind).is_some();
        let target = self.probe_target(index, kind).filter(|_| shape_has_probe);
        let now = cx.now;
        let (id, is_started) = match target {
            Some((id, started_at, is_started)) => (Some((id, started_at)), is_started),
            None => (None, false),
        };
        let running = id.as_ref().map(|(id, started_at)| (id, *started_at));
        let mut given_up = None;
        self.memory_mut(index, |memory| {
            if let Some(worker) = memory.probe_slot(kind)
                && worker.follow(ProbeTarget { running, is_started }, now)
            {
                given_up = worker.attempt.map(|attempt| attempt.effect);
                worker.abandon(now);
            }
        });
        if let Some(effect) = given_up {
            self.cancel(cx, effect);
        }
        given_up.is_some()
    }

    /// The instance to probe, since when it runs, and whether it has started.
    fn probe_target(&self, index: ContainerIndex, kind: ProbeKind) -> Option<(ContainerId, Timestamp, bool)> {
        // L-420: once the pod ends only readiness is still of interest, sidecars' too.
        if !matches!(self.stage, Stage::Live) && kind != ProbeKind::Readiness {
            return None;
        }
        let record = self.records.newest(index)?;
        if self.start.as_ref().is_some_and(|start| start.is_of(index, record)) {
            return None;
        }
        let crate::observation::RuntimeState::Running { started_at } = record.state else { return None };
        let has_startup = self.shape.containers.at(index).startup_probe.is_some();
        let startup = self.memory.at(index).probe(ProbeKind::Startup).and_then(|worker| worker.result_for(&record.id));
        let is_started = !has_startup || startup == Some(ProbeResult::Success);
        Some((record.id.clone(), started_at, is_started))
    }

    /// Sends off every attempt that is due. True if one was.
    pub(crate) fn attempt_probes(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.stage, Stage::Terminated(_)) {
            return false;
        }
        let mut changed = false;
        for position in 0..self.shape.containers.0.len() {
            let index = ContainerIndex(position);
            for kind in ProbeKind::ALL {
                if self.probe_due(index, kind).is_some_and(|due| due <= cx.now) {
                    self.send_probe(cx, index, kind, false);
                    changed = true;
                }
            }
        }
        changed
    }

    /// When the next attempt of any worker is due.
    pub(crate) fn probes_due(&self, now: Timestamp) -> Option<Timestamp> {
        if matches!(self.stage, Stage::Terminated(_)) {
            return None;
        }
        let mut due = None;
        for (index, _) in self.shape.containers.iter() {
            for kind in ProbeKind::ALL {
                due = earliest(due, self.probe_due(index, kind).filter(|due| *due > now));
            }
        }
        due
    }

    fn probe_due(&self, index: ContainerIndex, kind: ProbeKind) -> Option<Timestamp> {
        let worker = self.memory.at(index).probe(kind)?;
        let numbers = ProbeNumbers::of(self.shape.containers.at(index).probe(kind)?);
        let (id, started_at, is_started) = self.probe_target(index, kind)?;
        worker.due(ProbeTarget { running: Some((&id, started_at)), is_started }, numbers)
    }

    fn send_probe(&mut self, cx: &mut Context<'_>, index: ContainerIndex, kind: ProbeKind, again: bool) {
        let Some((id, ..)) = self.probe_target(index, kind) else { return };
        let shape = &self.shape.containers.at(index);
        let (Some(probe), Some(pod)) = (shape.probe(kind).cloned(), self.pod.clone()) else { return };
        let action = Action::Probe { container: id, pod, name: shape.name.clone(), probe: Box::new(probe) };
        let effect = cx.send(&self.reference, action, Purpose::Probe(index, kind));
        let now = cx.now;
        self.memory_mut(index, |memory| {
            if let Some(worker) = memory.probe_slot(kind) {
                if again { worker.begin_again(effect) } else { worker.begin(effect, now) }
            }
        });
    }

    pub(crate) fn probe_answered(
        &mut self,
        cx: &mut Context<'_>,
        index: ContainerIndex,
        kind: ProbeKind,
        effect: EffectId,
        outcome: Outcome,
    ) {
        let Some(shape) = self.shape.containers.get(index) else { return };
        let Some(numbers) = shape.probe(kind).map(ProbeNumbers::of) else { return };
        let is_current = self
            .memory
            .at(index)
            .probe(kind)
            .and_then(|worker| worker.attempt)
            .is_some_and(|attempt| attempt.effect == effect);
        if !is_current {
            return;
        }
        let outcome = match outcome {
            Outcome::Probe(outcome) => outcome,
            Outcome::Failed(failure) => ProbeOutcome::Error(failure.message),
            _ => ProbeOutcome::Error("the attempt ended without a result".to_owned()),
        };
        let now = cx.now;
        let mut verdict = Verdict::Quiet;
        self.memory_mut(index, |memory| {
            if let Some(worker) = memory.probe_slot(kind) {
                verdict = worker.ended(outcome, numbers, now);
            }
        });
        match verdict {
            Verdict::Again => self.send_probe(cx, index, kind, true),
            Verdict::Quiet => {}
            Verdict::Said(event) => {
                let path = self.shape.containers.at(index).field_path.clone();
                self.record_event(cx, events::container(&path, true, event.reason, event.message));
            }
        }
        self.dirty = true;
    }
}
