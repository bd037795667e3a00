//! A small world for the engine: virtual time, an object store of pods, and containers that do as they are told.
//!
//! It uses the public surface only.
//! Tests say how containers behave ([`Behavior`]), what fails ([`World::faults`]) and what users do, let time run, and look at what was done ([`World::trace`]), written and told.

#![expect(unreachable_pub, reason = "each test binary uses its own part of the world, and no binary all of it")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a broken world fails the test that uses it")]

pub(crate) mod behavior;
pub(crate) mod carry_out;
pub(crate) mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::{
    ContainerId, ContainerRecord, Effect, EffectId, Engine, Exit, Input, NodeConfig, Outcome, PodEvent, PodObservation,
    PodRef, PodUid, RuntimeState, SandboxRecord,
};
use serde_json::Value;

pub use behavior::Behavior;

/// Where virtual time begins.
pub const EPOCH: i64 = 1_800_000_000;

/// The whole world.
pub struct World {
    pub engine: Engine,
    pub config: NodeConfig,
    pub now: Timestamp,
    /// Objects by uid.
    pub objects: BTreeMap<PodUid, Pod>,
    pub runtime: BTreeMap<PodUid, Runtime>,
    /// By container name: what each instance does; the last one counts for all later ones.
    pub behaviors: BTreeMap<String, Vec<Behavior>>,
    pub images: Images,
    /// What is to fail: the effect's short name, then one message for each time.
    pub faults: BTreeMap<String, Vec<(String, String)>>,
    pub latency: Duration,
    /// The driver hears nothing of the runtime: the agent is as good as down.
    pub delay_answers: bool,
    /// What the next probes answer, before behaviors are asked.
    pub outcomes: std::collections::VecDeque<lifecycle::input::ProbeOutcome>,
    steps: usize,
    queue: BTreeMap<(Timestamp, u64), Happening>,
    sequence: u64,
    pub pending: BTreeMap<EffectId, Effect>,
    /// Effects with the seconds at which they were sent.
    pub sent: Vec<(Duration, Effect)>,
    pub written: Vec<(Duration, PodStatus)>,
    pub events: Vec<(Duration, PodEvent)>,
    /// `start NAME`, `exit NAME CODE`, `signal NAME`, `kill NAME` with their seconds.
    pub trace: Vec<(Duration, String)>,
    pub answered: BTreeSet<EffectId>,
    /// The object as whoever watches sees it, at each change.
    pub snapshots: Vec<(Timestamp, Pod)>,
}

/// What the runtime has of one pod.
#[derive(Clone, Debug, Default)]
pub struct Runtime {
    pub reference: Option<PodRef>,
    pub sandboxes: Vec<SandboxRecord>,
    pub containers: Vec<ContainerRecord>,
}

/// The image store.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// Not there until pulled.
    pub missing: BTreeSet<String>,
    pub pull_time: Duration,
}

/// What is going to happen.
pub enum Happening {
    Answer(EffectId, Box<dyn FnOnce(&mut World) -> Outcome>),
    Exit(PodUid, ContainerId, i32),
    Do(Box<dyn FnOnce(&mut World)>),
}

impl World {
    /// A world in which the engine has found nothing.
    pub fn new() -> Self {
        let mut world = World::unsynced(NodeConfig::new("node"));
        world.engine.handle(world.now, Input::Synced);
        world
    }

    /// A world before `Synced`.
    pub fn unsynced(config: NodeConfig) -> Self {
        let now = Timestamp::from_second(EPOCH).unwrap();
        World {
            engine: Engine::new(config.clone(), 7),
            config,
            now,
            objects: BTreeMap::new(),
            runtime: BTreeMap::new(),
            behaviors: BTreeMap::new(),
            images: Images::default(),
            faults: BTreeMap::new(),
            latency: Duration::ZERO,
            delay_answers: false,
            outcomes: std::collections::VecDeque::new(),
            steps: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            pending: BTreeMap::new(),
            sent: Vec::new(),
            written: Vec::new(),
            events: Vec::new(),
            trace: Vec::new(),
            answered: BTreeSet::new(),
            snapshots: Vec::new(),
        }
    }

    /// A world with one pod, `uid` being its name.
    pub fn with(spec: Value) -> Self {
        let mut world = World::new();
        world.create("p", spec);
        world
    }

    /// Says what the instances of a container do.
    pub fn behave(&mut self, name: &str, behaviors: &[Behavior]) {
        self.behaviors.insert(name.to_owned(), behaviors.to_vec());
    }

    /// Creates a pod from its spec.
    pub fn create(&mut self, name: &str, spec: Value) {
        let pod = pod(name, spec);
        self.put(pod);
    }

    /// Stores an object and tells the engine.
    pub fn put(&mut self, pod: Pod) {
        let uid = PodUid(pod.metadata.uid.clone().unwrap());
        self.objects.insert(uid, pod.clone());
        self.snapshots.push((self.now, pod.clone()));
        self.tell(Input::PodApplied(Arc::new(pod)));
    }

    /// Changes a stored object.
    pub fn update(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        let uid = PodUid(name.to_owned());
        let Some(mut pod) = self.objects.get(&uid).cloned() else { return };
        change(&mut pod);
        self.put(pod);
    }

    /// Deletes a pod as the API server does it (L-601).
    pub fn delete(&mut self, name: &str, grace: Option<i64>) {
        let uid = PodUid(name.to_owned());
        let Some(pod) = self.objects.get(&uid) else { return };
        let spec = pod.spec.as_ref().unwrap();
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        let is_final = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
        let grace = if is_final { 0 } else { grace.unwrap_or(spec.termination_grace_period_seconds.unwrap_or(30)) };
        if grace == 0 {
            self.objects.remove(&uid);
            return self.tell(Input::PodDeleted(uid));
        }
        let now = self.now;
        self.update(name, |pod| {
            let old = pod.metadata.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            if grace < old {
                pod.metadata.deletion_grace_period_seconds = Some(grace);
                pod.metadata.deletion_timestamp = Some(Time(now + Duration::from_secs(grace.unsigned_abs())));
                pod.metadata.generation = pod.metadata.generation.map(|generation| generation + 1);
            }
        });
    }

    /// Does something at a moment counted from the beginning.
    pub fn at(&mut self, seconds: f64, act: impl FnOnce(&mut World) + 'static) {
        let moment = start() + Duration::from_secs_f64(seconds);
        self.schedule(moment, Happening::Do(Box::new(act)));
    }

    /// Passes an input and carries out what comes of it.
    pub fn tell(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.carry_out();
    }

    /// Lets time run until so many seconds after the beginning.
    pub fn run_until(&mut self, seconds: f64) {
        let end = start() + Duration::from_secs_f64(seconds);
        self.carry_out();
        while let Some(next) = self.next_moment().filter(|next| *next <= end) {
            self.step(next);
        }
        self.now = self.now.max(end);
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let happening = self.queue.first_key_value().map(|((moment, _), _)| *moment);
        match (happening, self.engine.poll_timeout()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn step(&mut self, moment: Timestamp) {
        self.steps += 1;
        assert!(
            self.steps < 20_000,
            "the world does not come to rest at {:?}; the last effects: {:?}",
            self.seconds(),
            self.last_effects()
        );
        self.now = self.now.max(moment);
        let due = self.queue.first_key_value().map(|(key, _)| *key).filter(|(due, _)| *due <= self.now);
        match due {
            Some(key) => {
                let happening = self.queue.remove(&key).unwrap();
                self.happen(happening);
            }
            None => {
                self.engine.handle_timeout(self.now);
                if let Some(next) = self.engine.poll_timeout() {
                    assert!(next > self.now, "the next timeout must lie after now");
                }
            }
        }
        self.carry_out();
        let violations = self.engine.check_invariants();
        assert!(violations.is_empty(), "violations at {:?}: {violations:?}", self.seconds());
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Answer(effect, outcome) => {
                if self.pending.remove(&effect).is_some() {
                    let outcome = outcome(self);
                    self.answer(effect, outcome);
                }
            }
            Happening::Exit(uid, container, code) => self.exit(&uid, &container, code),
            Happening::Do(act) => act(self),
        }
    }

    pub fn answer(&mut self, effect: EffectId, outcome: Outcome) {
        assert!(self.answered.insert(effect), "{effect:?} was answered twice");
        self.engine.handle(self.now, Input::EffectDone { effect, outcome });
    }

    pub fn schedule(&mut self, moment: Timestamp, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((moment.max(self.now), self.sequence), happening);
    }

    /// A container's first process ends.
    pub fn exit(&mut self, uid: &PodUid, container: &ContainerId, code: i32) {
        let now = self.now;
        let behavior = self.behavior_of(uid, container);
        let Some(runtime) = self.runtime.get_mut(uid) else { return };
        let Some(record) = runtime.containers.iter_mut().find(|record| record.id == *container) else { return };
        let started_at = match record.state {
            RuntimeState::Running { started_at } => Some(started_at),
            _ => return,
        };
        record.state = RuntimeState::Exited(Exit {
            exit_code: code,
            reason: behavior.reason,
            message: behavior.message,
            started_at,
            finished_at: now,
        });
        let name = record.name.clone();
        self.note(format!("exit {name} {code}"));
        self.observe(uid);
    }

    /// Passes what the runtime has of a pod.
    pub fn observe(&mut self, uid: &PodUid) {
        let Some(runtime) = self.runtime.get(uid) else { return };
        let Some(pod) = runtime.reference.clone().filter(|_| !self.delay_answers) else { return };
        let observation =
            PodObservation { pod, sandboxes: runtime.sandboxes.clone(), containers: runtime.containers.clone() };
        self.engine.handle(self.now, Input::Observed(observation));
    }

    /// The node restarts or a sandbox dies: everything in it ends.
    pub fn lose_sandbox(&mut self, name: &str) {
        let uid = PodUid(name.to_owned());
        let running: Vec<ContainerId> = self.runtime[&uid].containers.iter().map(|record| record.id.clone()).collect();
        for sandbox in self.runtime.get_mut(&uid).unwrap().sandboxes.iter_mut() {
            sandbox.ready = false;
        }
        let delays = std::mem::replace(&mut self.delay_answers, true);
        for id in running {
            self.exit(&uid, &id, 137);
        }
        self.delay_answers = delays;
        self.observe(&uid);
    }

    /// A sandbox appears that nobody asked for.
    pub fn add_sandbox(&mut self, name: &str, attempt: u32) {
        let uid = PodUid(name.to_owned());
        let runtime = self.runtime.get_mut(&uid).unwrap();
        let mut sandbox = runtime.sandboxes[0].clone();
        sandbox.id = lifecycle::SandboxId(format!("extra-{attempt}"));
        sandbox.attempt = attempt;
        runtime.sandboxes.push(sandbox);
        self.observe(&uid);
    }

    /// Somebody removes a container's record.
    pub fn forget_record(&mut self, name: &str, id: &str) {
        let uid = PodUid(name.to_owned());
        self.runtime.get_mut(&uid).unwrap().containers.retain(|record| record.id.as_str() != id);
        self.observe(&uid);
    }

    /// An ended container is replaced by a running one while nobody looks.
    pub fn replace_record(&mut self, name: &str, old: &str, new: &str) {
        let uid = PodUid(name.to_owned());
        let now = self.now;
        let runtime = self.runtime.get_mut(&uid).unwrap();
        let mut record = runtime.containers.iter().find(|record| record.id.as_str() == old).unwrap().clone();
        record.id = ContainerId(new.to_owned());
        record.attempt += 1;
        record.state = RuntimeState::Running { started_at: now };
        runtime.containers.push(record);
    }

    /// The agent dies and starts anew: the engine is made of objects and records.
    pub fn restart_agent(&mut self) {
        self.pending.clear();
        self.queue.retain(|_, happening| !matches!(happening, Happening::Answer(..)));
        self.engine = Engine::new(self.config.clone(), 11);
        // A new engine counts its effects anew.
        self.answered.clear();
        let objects: Vec<Pod> = self.objects.values().cloned().collect();
        for pod in objects {
            self.engine.handle(self.now, Input::PodApplied(Arc::new(pod)));
        }
        let uids: Vec<PodUid> = self.runtime.keys().cloned().collect();
        for uid in uids {
            self.observe(&uid);
        }
        self.engine.handle(self.now, Input::Synced);
        self.carry_out();
    }

    fn last_effects(&self) -> Vec<&'static str> {
        self.sent.iter().rev().take(12).map(|(_, effect)| carry_out::short_name(&effect.action)).collect()
    }

    pub fn seconds(&self) -> Duration {
        Duration::try_from(self.now.duration_since(start())).unwrap()
    }

    pub fn note(&mut self, line: String) {
        let seconds = self.seconds();
        self.trace.push((seconds, line));
    }
}

pub fn start() -> Timestamp {
    Timestamp::from_second(EPOCH).unwrap()
}

/// A pod object as the API server would have stored it; its uid is its name.
pub fn pod(name: &str, spec: Value) -> Pod {
    let object = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": with_images(spec),
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    });
    serde_json::from_value(object).unwrap()
}

/// Containers without an image get one.
fn with_images(mut spec: Value) -> Value {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if container.get("image").is_none() {
                container["image"] = Value::from("busybox:1.36");
            }
        }
    }
    spec
}
