//! Drives one random life.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::effect::Signal;
use lifecycle::input::{ImageRecord, ProbeOutcome, ReferenceKind};
use lifecycle::{
    Action, ContainerId, Effect, Engine, Failure, Input, NodeConfig, Outcome, PodObservation, PodRef, PodUid,
    RuntimeState, merge_status,
};
use serde_json::json;

use crate::generator::{CODES, Random, spec};
use crate::judge::Judge;
use crate::runtime::Runtime;
use crate::words;

/// Steps of chaos before the pod is let end in peace.
const STEPS: u64 = 250;
const PEACE: usize = 4_000;

pub(crate) struct Driver {
    random: Random,
    seed: u64,
    engine: Engine,
    pub(crate) now: Timestamp,
    object: Option<Pod>,
    runtime: Runtime,
    pending: Vec<Effect>,
    observations: VecDeque<PodObservation>,
    judge: Judge,
    is_peaceful: bool,
    /// How much happens that is out of the ordinary, and how much fails, in percent.
    wildness: u64,
    /// Words cost time: they are kept only of a life that is to be looked at.
    keeps_log: bool,
    pub(crate) log: Vec<String>,
}

impl Driver {
    pub(crate) fn new(seed: u64, keeps_log: bool) -> Self {
        let mut random = Random::new(seed);
        let object: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1},
            "spec": spec(&mut random),
            "status": {"phase": "Pending"},
        }))
        .unwrap();
        let reference = PodRef { namespace: "n".to_owned(), name: "p".to_owned(), uid: PodUid("u".to_owned()) };
        Driver {
            judge: Judge::new(&object),
            random,
            seed,
            engine: Engine::new(NodeConfig::new("node"), seed),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            object: Some(object),
            runtime: Runtime::new(reference),
            pending: Vec::new(),
            observations: VecDeque::new(),
            is_peaceful: false,
            wildness: [0, 10, 30, 60][usize::try_from(seed % 4).unwrap()],
            keeps_log,
            log: Vec::new(),
        }
    }

    /// The whole life: chaos, then the pod's end in peace.
    pub(crate) fn live(&mut self) {
        self.begin_engine();
        for _ in 0..STEPS {
            self.chaos();
            self.check();
        }
        self.end();
    }

    fn begin_engine(&mut self) {
        if let Some(object) = self.object.clone() {
            self.tell(Input::PodApplied(Arc::new(object)));
        }
        if !self.runtime.containers.is_empty() || !self.runtime.sandboxes.is_empty() {
            self.tell(Input::Observed(self.runtime.observation()));
        }
        assert!(self.engine.poll_effect().is_none(), "nothing is done before everything is known");
        self.tell(Input::Synced);
    }

    fn tell(&mut self, input: Input) {
        self.note(|| words::input(&input));
        self.judge.told(&input, self.now);
        self.engine.handle(self.now, input);
        self.take_effects();
    }

    fn note(&mut self, words: impl FnOnce() -> String) {
        if self.keeps_log {
            let seconds = (self.now.as_millisecond() - 1_800_000_000_000) as f64 / 1000.0;
            self.log.push(format!("{seconds:.3} {}", words()));
        }
    }

    fn take_effects(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            self.note(|| words::effect(&effect));
            self.judge.sent(&effect, self.now, &self.runtime);
            self.pending.push(effect);
        }
    }

    fn check(&mut self) {
        let violations = self.engine.check_invariants();
        if !violations.is_empty() {
            self.fail(&format!("{violations:?}"));
        }
        if let Some(fault) = self.judge.fault(self.now, &self.runtime) {
            self.fail(&fault);
        }
    }

    fn fail(&self, fault: &str) -> ! {
        let tail = self.log.len().saturating_sub(60);
        panic!("seed {}: {fault}\n{}", self.seed, self.log[tail..].join("\n"));
    }

    fn chaos(&mut self) {
        let wildness = self.wildness;
        match self.random.below(1000) {
            0..640 => self.answer_one(),
            640..720 => self.deliver(),
            720..770 => self.exit_one(),
            770..930 => self.pass_time(),
            rest if rest % 100 >= wildness => self.answer_one(),
            _ => self.disturb(),
        }
    }

    /// Users, the node and bad luck.
    fn disturb(&mut self) {
        match self.random.below(20) {
            0..2 => self.delete(),
            2..5 => self.restart_agent(),
            5..7 => self.lose_sandbox(),
            7..10 => self.change_image(),
            10..12 => self.add_ephemeral(),
            12 => self.evict(),
            13..15 => self.change_network(),
            15..17 => self.tell(Input::ReferenceChanged {
                kind: ReferenceKind::ConfigMap,
                namespace: "n".to_owned(),
                name: "c".to_owned(),
            }),
            17..19 => self.lose_record(),
            _ => self.remove_by_force(),
        }
    }

    fn changed(&mut self) {
        self.observations.push_back(self.runtime.observation());
    }

    fn deliver(&mut self) {
        if let Some(observation) = self.observations.pop_front() {
            self.tell(Input::Observed(observation));
        }
    }

    fn exit_one(&mut self) {
        let running = self.runtime.running();
        if !running.is_empty() {
            let id = self.random.pick(&running).clone();
            let code = *self.random.pick(&CODES);
            self.exit(&id, code);
            self.changed();
        }
    }

    fn exit(&mut self, id: &ContainerId, code: i32) {
        if let Some(record) = self.runtime.find(id) {
            self.judge.exited(record, code);
        }
        self.runtime.exit(id, code, self.now);
    }

    /// Time goes on to the next timeout, or part of the way.
    fn pass_time(&mut self) {
        let step = Duration::from_millis(1 + self.random.below(12_000));
        let target = self.now + step;
        self.run_to(target);
    }

    fn run_to(&mut self, target: Timestamp) {
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= target) {
            if due <= self.now {
                self.fail("a timeout that is not in the future");
            }
            self.now = due;
            self.note(|| "timeout".to_owned());
            self.engine.handle_timeout(self.now);
            self.take_effects();
            if self.engine.poll_timeout().is_some_and(|next| next <= self.now) {
                self.fail("after a timeout the next one must lie after now");
            }
            self.check();
        }
        self.now = target;
    }

    fn delete(&mut self) {
        let Some(object) = &mut self.object else { return };
        let grace = *self.random.pick(&[1_i64, 2, 5, 30]);
        let old = object.metadata.deletion_grace_period_seconds.unwrap_or(i64::MAX);
        if grace < old {
            object.metadata.deletion_grace_period_seconds = Some(grace);
            object.metadata.deletion_timestamp = Some(Time(self.now + Duration::from_secs(grace.unsigned_abs())));
        }
        let object = object.clone();
        self.tell(Input::PodApplied(Arc::new(object)));
    }

    fn restart_agent(&mut self) {
        // What was asked of the runtime may have been done or not; nobody hears of it.
        let lost = std::mem::take(&mut self.pending);
        for effect in lost {
            if self.random.percent(50) {
                self.carry_out(&effect);
            }
        }
        self.observations.clear();
        self.note(|| "agent restarts".to_owned());
        self.judge.agent_restarted();
        self.engine = Engine::new(NodeConfig::new("node"), self.seed);
        self.begin_engine();
    }

    fn lose_sandbox(&mut self) {
        let ready: Vec<_> = self.runtime.sandboxes.iter().filter(|s| s.ready).map(|s| s.id.clone()).collect();
        for id in ready {
            self.runtime.stop_sandbox(&id, self.now);
        }
        self.changed();
    }

    fn change_image(&mut self) {
        let Some(object) = &mut self.object else { return };
        let number = self.random.below(3);
        if let Some(spec) = &mut object.spec {
            let index = usize::try_from(self.random.below(spec.containers.len() as u64)).unwrap();
            spec.containers[index].image = Some(format!("image-{number}:2"));
        }
        let object = object.clone();
        self.tell(Input::PodApplied(Arc::new(object)));
    }

    fn add_ephemeral(&mut self) {
        let Some(object) = &mut self.object else { return };
        if let Some(spec) = &mut object.spec {
            let list = spec.ephemeral_containers.get_or_insert_default();
            let name = format!("e{}", list.len());
            list.push(serde_json::from_value(json!({"name": name, "image": "image-0:1"})).unwrap());
        }
        let object = object.clone();
        self.tell(Input::PodApplied(Arc::new(object)));
    }

    fn evict(&mut self) {
        let grace = Duration::from_secs(1 + self.random.below(10));
        self.tell(Input::Evict { pod: PodUid("u".to_owned()), message: "low".to_owned(), grace, disruption: true });
    }

    fn change_network(&mut self) {
        let readiness = if self.random.percent(80) { Ok(()) } else { Err("no plugin".to_owned()) };
        self.tell(Input::NetworkReady(readiness));
    }

    /// Somebody removes an ended container behind the engine's back, or its shim is lost.
    fn lose_record(&mut self) {
        if self.runtime.containers.is_empty() {
            return;
        }
        let count = self.runtime.containers.len() as u64;
        let index = usize::try_from(self.random.below(count)).unwrap();
        if matches!(self.runtime.containers[index].state, RuntimeState::Exited(_)) {
            self.runtime.containers.remove(index);
        } else if self.random.percent(30) {
            self.runtime.containers[index].state = RuntimeState::Unknown;
        }
        self.changed();
    }

    fn remove_by_force(&mut self) {
        if self.object.is_some() && self.random.percent(50) {
            self.object = None;
            self.tell(Input::PodDeleted(PodUid("u".to_owned())));
        }
    }

    fn answer_one(&mut self) {
        if self.pending.is_empty() {
            return self.deliver();
        }
        let index = usize::try_from(self.random.below(self.pending.len() as u64)).unwrap();
        let effect = self.pending.remove(index);
        self.answer(effect);
    }

    fn answer(&mut self, effect: Effect) {
        if let Action::Cancel(other) = effect.action {
            self.cancel(other);
        }
        let fails = !self.is_peaceful && self.random.percent(self.wildness / 5) && can_fail(&effect.action);
        let outcome = if fails {
            Outcome::Failed(Failure { reason: String::new(), message: "it went wrong".to_owned() })
        } else {
            self.carry_out(&effect)
        };
        // An observation may overtake the answer, or come long after it.
        if self.random.percent(50) {
            while !self.observations.is_empty() {
                self.deliver();
            }
        }
        self.tell(Input::EffectDone { effect: effect.id, outcome });
    }

    fn cancel(&mut self, other: lifecycle::EffectId) {
        if let Some(index) = self.pending.iter().position(|effect| effect.id == other) {
            self.pending.remove(index);
            self.tell(Input::EffectDone { effect: other, outcome: Outcome::Cancelled });
        }
    }

    fn carry_out(&mut self, effect: &Effect) -> Outcome {
        let now = self.now;
        let outcome = match &effect.action {
            Action::RunSandbox { attempt, pod } => {
                let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
                Outcome::SandboxReady(self.runtime.run_sandbox(*attempt, host_network, now))
            }
            Action::StopSandbox(id) => {
                self.runtime.stop_sandbox(id, now);
                Outcome::Done
            }
            Action::RemoveSandbox(id) => {
                self.runtime.remove_sandbox(id);
                Outcome::Done
            }
            Action::InspectImage { .. } => self.image(70),
            Action::PullImage { .. } => self.image(100),
            Action::CreateContainer(request) => {
                let image = image_of(&request.pod, &request.name);
                match self.runtime.create(request, &image, now) {
                    Some(id) => Outcome::Created(id),
                    None => failed("no such sandbox"),
                }
            }
            Action::StartContainer(id) if self.runtime.start(id, now) => {
                if let Some(record) = self.runtime.find(id) {
                    self.judge.ran(record);
                }
                Outcome::Done
            }
            Action::StartContainer(_) => failed("no such container"),
            Action::SignalContainer { container, signal } => self.signal(container, signal),
            Action::RemoveContainer { container, .. } => {
                self.runtime.remove(container);
                Outcome::Done
            }
            Action::Probe { .. } => Outcome::Probe(self.probe()),
            Action::WriteStatus(status) => {
                if let Some(object) = &mut self.object {
                    let stored = object.status.take().unwrap_or_default();
                    object.status = Some(merge_status(&stored, (**status).clone()));
                }
                self.judge.written(status);
                Outcome::Done
            }
            Action::DeletePodObject(_) => {
                self.object = None;
                Outcome::Done
            }
            _ => Outcome::Done,
        };
        self.changed();
        outcome
    }

    fn image(&mut self, present: u64) -> Outcome {
        let record = ImageRecord { image_id: "image@sha256:0".to_owned(), size_bytes: 1 };
        Outcome::Image((self.is_peaceful || self.random.percent(present)).then_some(record))
    }

    fn probe(&mut self) -> ProbeOutcome {
        match self.random.below(10) {
            0..5 => ProbeOutcome::Success,
            5..8 => ProbeOutcome::Failure("no".to_owned()),
            8 => ProbeOutcome::Error("what".to_owned()),
            _ => ProbeOutcome::Warning("hm".to_owned()),
        }
    }

    fn signal(&mut self, container: &ContainerId, signal: &Signal) -> Outcome {
        if *signal == Signal::Kill {
            self.exit(container, 137);
        } else if self.random.percent(40) {
            let code = *self.random.pick(&[0, 143]);
            self.exit(container, code);
        }
        Outcome::Done
    }

    /// The pod is deleted, nothing fails any more, and it must end.
    fn end(&mut self) {
        self.is_peaceful = true;
        self.tell(Input::NetworkReady(Ok(())));
        self.delete();
        for _ in 0..PEACE {
            self.check();
            if self.engine.pods().count() == 0 {
                return self.check_end();
            }
            if self.pending.is_empty() && self.observations.is_empty() {
                match self.engine.poll_timeout() {
                    Some(due) => self.run_to(due),
                    None => self.end_containers(),
                }
            }
            self.answer_one();
        }
        self.fail("a deleted pod does not end");
    }

    fn end_containers(&mut self) {
        let running = self.runtime.running();
        if running.is_empty() {
            self.fail("nothing will ever happen again");
        }
        for id in running {
            self.exit(&id, 0);
        }
        self.changed();
    }

    fn check_end(&mut self) {
        assert!(self.object.is_none(), "seed {}: the object is left", self.seed);
        assert!(self.runtime.containers.is_empty(), "seed {}: containers are left", self.seed);
        assert!(self.runtime.sandboxes.is_empty(), "seed {}: sandboxes are left", self.seed);
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed(Failure { reason: String::new(), message: message.to_owned() })
}

fn can_fail(action: &Action) -> bool {
    !matches!(action, Action::Cancel(_) | Action::RecordEvent(_))
}

fn image_of(pod: &Pod, name: &str) -> String {
    let spec = pod.spec.as_ref().unwrap();
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.find(|container| container.name == name).and_then(|container| container.image.clone()).unwrap_or_default()
}
