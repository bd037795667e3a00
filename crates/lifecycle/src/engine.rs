//! The engine: all pods of a node, their timers and their effects.
//!
//! It routes inputs to pods and keeps what is common to them: network, shutdown, admission.
//! What a pod does is in `pod`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;

use crate::admission::{self, Admission};
use crate::config::NodeConfig;
use crate::effect::Effect;
use crate::identity::{EffectId, PodRef, PodUid};
use crate::input::{Input, Outcome};
use crate::invariants::Violation;
use crate::observation::PodObservation;
use crate::outbox::{Context, Outbox, WorkerKey};
use crate::pod::PodWorker;
use crate::pod::termination::Ending;
use crate::random::Random;
use crate::shutdown::Shutdown;

/// The lives of a node's pods as a function of what happens to them.
#[derive(Debug)]
pub struct Engine {
    config: NodeConfig,
    random: Random,
    now: Timestamp,
    synced_at: Option<Timestamp>,
    /// What arrived before everything was known and cannot be done yet.
    deferred: Vec<Input>,
    network_error: Option<String>,
    pub(crate) shutdown: Option<Shutdown>,
    pub(crate) workers: BTreeMap<WorkerKey, PodWorker>,
    by_uid: BTreeMap<PodUid, WorkerKey>,
    last_key: WorkerKey,
    pub(crate) outbox: Outbox,
    timers: BTreeSet<(Timestamp, WorkerKey)>,
    timer_of: BTreeMap<WorkerKey, Timestamp>,
    pub(crate) violations: Vec<Violation>,
}

impl Engine {
    /// An engine that knows of no pod.
    pub fn new(config: NodeConfig, seed: u64) -> Self {
        Engine {
            config,
            random: Random::new(seed),
            now: Timestamp::MIN,
            synced_at: None,
            deferred: Vec::new(),
            network_error: None,
            shutdown: None,
            workers: BTreeMap::new(),
            by_uid: BTreeMap::new(),
            last_key: 0,
            outbox: Outbox::default(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    /// Takes in what happened. Time never runs backwards: an earlier `now` counts as the last one.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        self.now = self.now.max(now);
        if self.synced_at.is_none() && matches!(input, Input::Shutdown { .. } | Input::Evict { .. }) {
            return self.deferred.push(input);
        }
        match input {
            Input::PodApplied(pod) => self.pod_applied(pod),
            Input::PodDeleted(uid) => self.with_uid(&uid, |worker, cx| worker.object_removed(cx)),
            Input::Observed(observation) => self.observed(observation),
            Input::Synced => self.synced(),
            Input::EffectDone { effect, outcome } => self.effect_done(effect, outcome),
            Input::ReferenceChanged { kind, namespace, name } => self.reference_changed(kind, &namespace, &name),
            Input::NetworkReady(readiness) => {
                self.network_error = readiness.err();
                self.advance_all();
            }
            Input::Shutdown { grace, critical_grace } => {
                self.shutdown = Some(Shutdown::new(self.now, grace, critical_grace));
                self.advance_shutdown();
            }
            Input::Evict { pod, message, grace, disruption } => {
                let ending = Ending {
                    reason: "Evicted".to_owned(),
                    disruption: disruption.then(|| message.clone()),
                    message,
                    is_rejection: false,
                };
                let grace = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
                self.with_uid(&pod, |worker, cx| worker.evict(cx, ending, grace));
            }
        }
    }

    /// Does what the time `now` asks for. After that the next timeout lies after `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some((due, key)) = self.timers.first().copied() {
            if due > self.now {
                break;
            }
            self.timers.pop_first();
            self.timer_of.remove(&key);
            self.advance(key);
        }
        self.advance_shutdown();
    }

    /// When [`Engine::handle_timeout`] must be called if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.synced_at?;
        let pods = self.timers.first().map(|(due, _)| *due);
        crate::time::earliest(pods, self.shutdown.as_ref().and_then(Shutdown::due))
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.outbox.poll()
    }

    /// The status of a pod as last computed, written or not.
    pub fn status(&self, pod: &PodUid) -> Option<&PodStatus> {
        self.workers.get(self.by_uid.get(pod)?)?.status()
    }

    /// Every pod that the engine has to do with, orphans included.
    pub fn pods(&self) -> impl Iterator<Item = &PodRef> {
        self.workers.values().map(|worker| &worker.reference)
    }

    fn pod_applied(&mut self, pod: std::sync::Arc<k8s_openapi::api::core::v1::Pod>) {
        let reference = PodRef {
            namespace: pod.metadata.namespace.clone().unwrap_or_default(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: PodUid(pod.metadata.uid.clone().unwrap_or_default()),
        };
        let key = self.key_of(&reference);
        let is_new = self.workers.get(&key).is_some_and(|worker| worker.pod.is_none());
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.apply(pod, self.now);
        }
        if is_new && self.synced_at.is_some() {
            self.admit(key);
        }
        self.with_key(key, |worker, cx| worker.deletion_arrived(cx));
    }

    /// L-617: what does not fit is refused before anything is made.
    fn admit(&mut self, key: WorkerKey) {
        let admission = if self.shutdown.is_some() {
            Admission::Refused(admission::shutting_down())
        } else {
            admission::admission(&self.config, &self.workers, key)
        };
        match admission {
            Admission::Admitted => {}
            Admission::Refused(refusal) => self.with_key(key, |worker, cx| worker.refuse(cx, refusal)),
            Admission::AfterPreemptionOf(victims) => {
                if let Some(worker) = self.workers.get_mut(&key) {
                    worker.awaits_room = true;
                }
                for victim in victims {
                    self.with_key(victim, |worker, cx| worker.preempt(cx));
                }
            }
        }
    }

    /// Pods that wait for room are looked at again when another one is down.
    fn admit_waiting(&mut self) {
        let waiting: Vec<WorkerKey> =
            self.workers.iter().filter(|(_, worker)| worker.awaits_room).map(|(key, _)| *key).collect();
        for key in waiting {
            if admission::has_room(&self.config, &self.workers, key) {
                self.with_key(key, |worker, _| worker.awaits_room = false);
            }
        }
    }

    fn observed(&mut self, observation: PodObservation) {
        let is_empty = observation.sandboxes.is_empty() && observation.containers.is_empty();
        if is_empty && !self.by_uid.contains_key(&observation.pod.uid) {
            // A late look at a pod that is over.
            return;
        }
        let key = self.key_of(&observation.pod);
        if let Some(worker) = self.workers.get_mut(&key) {
            worker.observe(observation);
        }
        self.advance(key);
    }

    fn synced(&mut self) {
        if self.synced_at.is_some() {
            return;
        }
        self.synced_at = Some(self.now);
        for worker in self.workers.values_mut() {
            worker.is_adopted = worker.records.any_running();
        }
        // Who came first is admitted first.
        let mut fresh: Vec<_> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.is_fresh())
            .map(|(key, worker)| (worker.created_at(), worker.reference.clone(), *key))
            .collect();
        fresh.sort();
        for (.., key) in &fresh {
            if let Some(worker) = self.workers.get_mut(key) {
                worker.is_counted = false;
            }
        }
        for (.., key) in fresh {
            if let Some(worker) = self.workers.get_mut(&key) {
                worker.is_counted = true;
            }
            self.admit(key);
        }
        self.advance_all();
        for input in std::mem::take(&mut self.deferred) {
            self.handle(self.now, input);
        }
    }

    fn effect_done(&mut self, effect: EffectId, outcome: Outcome) {
        let Some((key, purpose)) = self.outbox.answered(effect) else {
            self.violations.push(Violation::UnexpectedAnswer { effect });
            return;
        };
        self.with_key(key, |worker, cx| worker.answered(cx, effect, purpose, outcome));
        if self.workers.values().any(|worker| worker.awaits_room) {
            self.admit_waiting();
        }
        if self.shutdown.is_some() {
            self.advance_shutdown();
        }
    }

    fn reference_changed(&mut self, kind: crate::input::ReferenceKind, namespace: &str, name: &str) {
        let keys: Vec<WorkerKey> = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.refers_to(kind, namespace, name))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.with_key(key, |worker, _| worker.reference_changed());
        }
    }

    fn key_of(&mut self, reference: &PodRef) -> WorkerKey {
        if let Some(key) = self.by_uid.get(&reference.uid) {
            return *key;
        }
        self.last_key += 1;
        self.by_uid.insert(reference.uid.clone(), self.last_key);
        self.workers.insert(self.last_key, PodWorker::unknown(reference.clone()));
        self.last_key
    }

    fn with_uid(&mut self, uid: &PodUid, act: impl FnOnce(&mut PodWorker, &mut Context<'_>)) {
        if let Some(key) = self.by_uid.get(uid).copied() {
            self.with_key(key, act);
        }
    }

    pub(crate) fn with_key(&mut self, key: WorkerKey, act: impl FnOnce(&mut PodWorker, &mut Context<'_>)) {
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let mut context = Context {
            now: self.now,
            config: &self.config,
            random: &mut self.random,
            network_error: self.network_error.as_deref(),
            synced_at: self.synced_at.unwrap_or(self.now),
            outbox: &mut self.outbox,
            worker: key,
        };
        act(worker, &mut context);
        self.advance(key);
    }

    fn advance_all(&mut self) {
        let keys: Vec<WorkerKey> = self.workers.keys().copied().collect();
        for key in keys {
            self.advance(key);
        }
    }

    /// Lets a pod do what it can, and sets its timer.
    fn advance(&mut self, key: WorkerKey) {
        if self.synced_at.is_none() {
            // Nothing is done before everything is known.
            return;
        }
        let Some(worker) = self.workers.get_mut(&key) else { return };
        let mut context = Context {
            now: self.now,
            config: &self.config,
            random: &mut self.random,
            network_error: self.network_error.as_deref(),
            synced_at: self.synced_at.unwrap_or(self.now),
            outbox: &mut self.outbox,
            worker: key,
        };
        worker.advance(&mut context);
        let is_over = worker.is_over();
        let due = worker.due(self.now);
        self.set_timer(key, due.filter(|_| !is_over));
        if is_over && let Some(worker) = self.workers.remove(&key) {
            self.by_uid.remove(worker.uid());
        }
    }

    fn set_timer(&mut self, key: WorkerKey, due: Option<Timestamp>) {
        if self.timer_of.get(&key).copied() == due {
            return;
        }
        if let Some(old) = self.timer_of.remove(&key) {
            self.timers.remove(&(old, key));
        }
        if let Some(due) = due {
            self.timers.insert((due, key));
            self.timer_of.insert(key, due);
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.synced_at.is_some()
    }

    pub(crate) fn time(&self) -> Timestamp {
        self.now
    }
}
