//! The node's shutdown: ordinary pods first, critical ones last (L-617).

use std::time::Duration;

use jiff::Timestamp;

use crate::engine::Engine;
use crate::outbox::WorkerKey;
use crate::pod::termination::Ending;
use crate::time::after;

/// Pods of this priority and above are critical.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// A shutdown under way.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown {
    grace: Duration,
    critical_grace: Duration,
    ordinary_until: Timestamp,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begun,
    OrdinaryEnd,
    CriticalEnd,
}

impl Shutdown {
    pub(crate) fn new(now: Timestamp, grace: Duration, critical_grace: Duration) -> Self {
        Shutdown { grace, critical_grace, ordinary_until: after(now, grace), step: Step::Begun }
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        (self.step == Step::OrdinaryEnd).then_some(self.ordinary_until)
    }
}

impl Engine {
    /// Carries a shutdown on.
    pub(crate) fn advance_shutdown(&mut self) {
        let Some(shutdown) = self.shutdown.clone() else { return };
        if shutdown.step == Step::Begun {
            self.set_step(Step::OrdinaryEnd);
            self.end_pods(false, shutdown.grace);
        }
        let Some(shutdown) = self.shutdown.clone() else { return };
        let ordinary_are_down = self.workers.values().all(|worker| worker.is_critical() || worker.is_down());
        if shutdown.step == Step::OrdinaryEnd && (ordinary_are_down || self.time() >= shutdown.ordinary_until) {
            self.set_step(Step::CriticalEnd);
            self.end_pods(true, shutdown.critical_grace);
        }
    }

    fn set_step(&mut self, step: Step) {
        if let Some(shutdown) = &mut self.shutdown {
            shutdown.step = step;
        }
    }

    fn end_pods(&mut self, critical: bool, grace: Duration) {
        let grace_seconds = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let keys: Vec<WorkerKey> =
            self.workers.iter().filter(|(_, worker)| worker.is_critical() == critical).map(|(key, _)| *key).collect();
        for key in keys {
            self.with_key(key, |worker, cx| worker.end_by_force(cx, ending(), grace_seconds));
        }
    }
}

fn ending() -> Ending {
    Ending {
        reason: "Terminated".to_owned(),
        message: MESSAGE.to_owned(),
        disruption: Some(MESSAGE.to_owned()),
        is_rejection: false,
    }
}

impl crate::pod::PodWorker {
    pub(crate) fn priority(&self) -> Option<i32> {
        self.pod.as_ref().and_then(|pod| pod.spec.as_ref()).and_then(|spec| spec.priority)
    }

    /// Critical pods are evicted never and shut down last.
    pub(crate) fn is_critical(&self) -> bool {
        self.priority().is_some_and(|priority| priority >= CRITICAL_PRIORITY)
    }
}
