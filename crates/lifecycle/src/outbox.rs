//! Effects on their way to the driver, and whose answer is awaited.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::config::NodeConfig;
use crate::effect::{Action, Effect};
use crate::identity::{ContainerId, EffectId, PodRef, SandboxId};
use crate::pod::shape::ContainerIndex;
use crate::probe::ProbeKind;
use crate::random::Random;

/// Names a pod within the engine.
pub(crate) type WorkerKey = u64;

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    SetUp,
    Refresh,
    TearDown,
    RunSandbox,
    StopSandbox(SandboxId),
    RemoveSandbox(SandboxId),
    /// A step of the start under way.
    Start,
    Signal(ContainerId),
    RemoveContainer(ContainerId),
    PreStop(ContainerId),
    Probe(ContainerIndex, ProbeKind),
    WriteStatus,
    DeleteObject,
    /// Its answer changes nothing.
    Notice,
}

/// The queue of effects.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Effect>,
    in_flight: BTreeMap<EffectId, (WorkerKey, Purpose)>,
    last: u64,
}

impl Outbox {
    pub(crate) fn poll(&mut self) -> Option<Effect> {
        self.queue.pop_front()
    }

    /// Who waits for the answer to `effect`; each effect has one answer.
    pub(crate) fn answered(&mut self, effect: EffectId) -> Option<(WorkerKey, Purpose)> {
        self.in_flight.remove(&effect)
    }

    /// Every effect without an answer.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (&EffectId, &(WorkerKey, Purpose))> {
        self.in_flight.iter()
    }

    fn send(&mut self, worker: WorkerKey, pod: PodRef, action: Action, purpose: Purpose) -> EffectId {
        self.last += 1;
        let id = EffectId(self.last);
        self.in_flight.insert(id, (worker, purpose));
        self.queue.push_back(Effect { id, pod, action });
        id
    }
}

/// What a pod's worker may use while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a NodeConfig,
    pub(crate) random: &'a mut Random,
    /// Why the network is not ready, if it is not (L-1023).
    pub(crate) network_error: Option<&'a str>,
    /// When this engine was told everything that there was at its start.
    pub(crate) synced_at: Timestamp,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) worker: WorkerKey,
}

impl Context<'_> {
    /// Sends an effect of the worker at work.
    pub(crate) fn send(&mut self, pod: &PodRef, action: Action, purpose: Purpose) -> EffectId {
        self.outbox.send(self.worker, pod.clone(), action, purpose)
    }
}
