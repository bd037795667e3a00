//! One probe of one container: results, thresholds, holds (L-402 to L-407).
//!
//! A worker has no thread and no timer: the pod asks it when the next attempt is due and tells it what came of it.

use jiff::Timestamp;

use crate::identity::{ContainerId, EffectId};
use crate::input::ProbeOutcome;
use crate::probe::schedule::Schedule;
use crate::probe::{ProbeKind, ProbeNumbers, ProbeResult};
use crate::time::{after, seconds};

/// Attempts per tick while the attempt itself goes wrong (L-409).
const TRIES: u32 = 3;

/// One worker.
#[derive(Clone, Debug)]
pub(crate) struct ProbeWorker {
    pub(crate) kind: ProbeKind,
    schedule: Schedule,
    /// The container whose results are held.
    container: Option<ContainerId>,
    result: Option<ProbeResult>,
    run: Option<(ProbeResult, u32)>,
    on_hold: bool,
    /// Since when the container may be probed at all: it runs, and is started or not as the kind wants it.
    eligible_since: Option<Timestamp>,
    /// An attempt beyond the ticks is wanted at once.
    extra: bool,
    pub(crate) attempt: Option<Attempt>,
}

/// An attempt on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) effect: EffectId,
    tries: u32,
    /// The startup probe's attempt right after the start, whose failure says nothing.
    early: bool,
}

/// What the worker must know of its container at each look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeTarget<'a> {
    /// The running instance that users see, if there is one.
    pub(crate) running: Option<(&'a ContainerId, Timestamp)>,
    /// Its `started`.
    pub(crate) is_started: bool,
}

/// What an outcome led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The attempt itself went wrong and is made again at once.
    Again,
    /// Nothing that anybody sees.
    Quiet,
    /// An event is due: reason and message; the second is true if the held result changed.
    Said(ProbeEvent),
}

/// The event for an outcome (L-423 to L-425).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeEvent {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ProbeWorker {
    /// `origin` is the worker's first tick.
    pub(crate) fn new(kind: ProbeKind, numbers: ProbeNumbers, origin: Timestamp) -> Self {
        ProbeWorker {
            kind,
            schedule: Schedule::new(origin, numbers.period_seconds),
            container: None,
            result: None,
            run: None,
            on_hold: false,
            eligible_since: None,
            extra: false,
            attempt: None,
        }
    }

    /// The result held for the container `id`.
    pub(crate) fn result_for(&self, id: &ContainerId) -> Option<ProbeResult> {
        self.result.filter(|_| self.container.as_ref() == Some(id))
    }

    /// Takes over a container that an earlier agent had probed (L-225).
    pub(crate) fn adopt(&mut self, id: &ContainerId, result: ProbeResult) {
        self.container = Some(id.clone());
        self.result = Some(result);
        self.on_hold = self.kind == ProbeKind::Startup && result == ProbeResult::Success;
    }

    /// Follows the container. True if the attempt under way is of no more use.
    pub(crate) fn follow(&mut self, target: ProbeTarget<'_>, now: Timestamp) -> bool {
        let Some((id, _)) = target.running else {
            self.eligible_since = None;
            self.extra = false;
            return self.attempt.is_some();
        };
        let is_new = self.container.as_ref() != Some(id);
        if is_new {
            self.container = Some(id.clone());
            self.result = Some(self.kind.initial());
            self.run = None;
            self.on_hold = false;
            self.eligible_since = None;
        }
        let wanted = target.is_started != (self.kind == ProbeKind::Startup) && !self.on_hold;
        if !wanted {
            self.eligible_since = None;
        } else if self.eligible_since.is_none() {
            self.eligible_since = Some(now);
            self.extra = self.begins_at_once();
            if self.kind == ProbeKind::Readiness && self.extra {
                self.schedule.restart(now);
            }
        }
        self.attempt.is_some() && (is_new || !wanted)
    }

    /// A container that has just started need not wait for a tick to become ready (L-407).
    /// Nor need one that has just begun to run to become started: such an early attempt can only speed things up.
    fn begins_at_once(&self) -> bool {
        match self.kind {
            ProbeKind::Startup => true,
            ProbeKind::Readiness => self.result != Some(ProbeResult::Success),
            ProbeKind::Liveness => false,
        }
    }

    /// When the next attempt is due.
    pub(crate) fn due(&self, target: ProbeTarget<'_>, numbers: ProbeNumbers) -> Option<Timestamp> {
        if self.attempt.is_some() || self.on_hold {
            return None;
        }
        let (_, started_at) = target.running?;
        let eligible = self.eligible_since?.max(after(started_at, seconds(numbers.initial_delay_seconds)));
        Some(if self.extra { eligible } else { self.schedule.next(eligible) })
    }

    /// An attempt was sent off.
    pub(crate) fn begin(&mut self, effect: EffectId, now: Timestamp) {
        let early = self.extra && self.kind == ProbeKind::Startup;
        if !early {
            self.schedule.attempt(now);
        }
        self.extra = false;
        self.attempt = Some(Attempt { effect, tries: 1, early });
    }

    /// The same attempt was sent off once more.
    pub(crate) fn begin_again(&mut self, effect: EffectId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.effect = effect;
            attempt.tries += 1;
        }
    }

    /// The attempt was given up.
    pub(crate) fn abandon(&mut self, now: Timestamp) {
        self.attempt = None;
        self.schedule.attempt_ended(now);
    }

    /// The attempt has ended.
    pub(crate) fn ended(&mut self, outcome: ProbeOutcome, numbers: ProbeNumbers, now: Timestamp) -> Verdict {
        let Some(attempt) = self.attempt else { return Verdict::Quiet };
        if matches!(outcome, ProbeOutcome::Error(_)) && attempt.tries < TRIES && !attempt.early {
            return Verdict::Again;
        }
        self.attempt = None;
        if !attempt.early {
            self.schedule.attempt_ended(now);
        }
        let passed = matches!(outcome, ProbeOutcome::Success | ProbeOutcome::Warning(_));
        if attempt.early && !passed {
            // Kubernetes would not have looked yet: neither an event nor a count.
            return Verdict::Quiet;
        }
        if !matches!(outcome, ProbeOutcome::Error(_)) {
            self.count(if passed { ProbeResult::Success } else { ProbeResult::Failure }, numbers);
        }
        self.event(outcome)
    }

    /// L-405, L-406.
    fn count(&mut self, result: ProbeResult, numbers: ProbeNumbers) {
        let times = match self.run {
            Some((last, times)) if last == result => times.saturating_add(1),
            _ => 1,
        };
        self.run = Some((result, times));
        let threshold =
            if result == ProbeResult::Success { numbers.success_threshold } else { numbers.failure_threshold };
        if times < threshold {
            return;
        }
        self.result = Some(result);
        let ends =
            self.kind == ProbeKind::Startup || (self.kind == ProbeKind::Liveness && result == ProbeResult::Failure);
        if ends {
            self.on_hold = true;
            self.run = None;
        }
    }

    fn event(&self, outcome: ProbeOutcome) -> Verdict {
        let name = self.kind.name();
        let (reason, message) = match outcome {
            ProbeOutcome::Success => return Verdict::Quiet,
            ProbeOutcome::Warning(output) => ("ProbeWarning", format!("{name} probe warning: {output}")),
            ProbeOutcome::Failure(output) => ("Unhealthy", format!("{name} probe failed: {output}")),
            ProbeOutcome::Error(error) => {
                ("Unhealthy", format!("{name} probe errored and resulted in unknown state: {error}"))
            }
        };
        Verdict::Said(ProbeEvent { reason, message })
    }
}
