//! Carries effects out.

use std::time::Duration;

use lifecycle::effect::{CreateContainer, Signal};
use lifecycle::input::{ImageRecord, ProbeOutcome};
use lifecycle::{
    Action, ContainerId, ContainerRecord, Effect, Failure, Input, Outcome, PodRef, PodUid, RuntimeState, SandboxId,
    SandboxRecord, merge_status,
};

use super::{Behavior, Happening, World};

impl World {
    /// Takes every effect that is to be done and begins it.
    pub fn carry_out(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            self.sent.push((self.seconds(), effect.clone()));
            self.pending.insert(effect.id, effect.clone());
            self.begin(effect);
        }
    }

    fn begin(&mut self, effect: Effect) {
        let name = short_name(&effect.action);
        if let Some(failure) = self.fault(name) {
            return self.answer_later(&effect, self.latency, move |_| Outcome::Failed(failure));
        }
        let Effect { pod, action, .. } = effect.clone();
        match action {
            Action::WriteStatus(status) => {
                self.written.push((self.seconds(), (*status).clone()));
                let uid = pod.uid.clone();
                self.answer_later(&effect, self.latency, move |world| {
                    let Some(mut object) = world.objects.get(&uid).cloned() else { return Outcome::Done };
                    let stored = object.status.take().unwrap_or_default();
                    object.status = Some(merge_status(&stored, *status));
                    world.objects.insert(uid, object.clone());
                    world.snapshots.push((world.now, object.clone()));
                    world.engine.handle(world.now, Input::PodApplied(std::sync::Arc::new(object)));
                    Outcome::Done
                });
            }
            Action::RecordEvent(event) => {
                self.events.push((self.seconds(), event));
                self.done(&effect);
            }
            Action::DeletePodObject(uid) => self.answer_later(&effect, self.latency, move |world| {
                if world.objects.remove(&uid).is_some() {
                    world.engine.handle(world.now, Input::PodDeleted(uid));
                }
                Outcome::Done
            }),
            Action::Cancel(other) => {
                self.done(&effect);
                if self.pending.remove(&other).is_some() {
                    self.schedule(
                        self.now,
                        Happening::Do(Box::new(move |world| world.answer(other, Outcome::Cancelled))),
                    );
                }
            }
            Action::SetUpPod(_) | Action::RefreshVolumes(_) | Action::TearDownPod => self.done(&effect),
            Action::RunSandbox { attempt, pod: object } => {
                let host_network = object.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false);
                self.answer_later(&effect, self.latency, move |world| world.run_sandbox(&pod, attempt, host_network));
            }
            Action::StopSandbox(id) => self.answer_later(&effect, self.latency, move |world| {
                for sandbox in world.runtime(&pod).sandboxes.iter_mut().filter(|sandbox| sandbox.id == id) {
                    sandbox.ready = false;
                }
                world.observe(&pod.uid);
                Outcome::Done
            }),
            Action::RemoveSandbox(id) => self.answer_later(&effect, self.latency, move |world| {
                let runtime = world.runtime(&pod);
                runtime.sandboxes.retain(|sandbox| sandbox.id != id);
                runtime.containers.retain(|container| container.sandbox != id);
                world.observe(&pod.uid);
                Outcome::Done
            }),
            Action::InspectImage { image } => self.answer_later(&effect, self.latency, move |world| {
                Outcome::Image((!world.images.missing.contains(&image)).then(|| image_record(&image)))
            }),
            Action::PullImage { image, .. } => {
                let time = self.images.pull_time;
                self.answer_later(&effect, time, move |world| {
                    world.images.missing.remove(&image);
                    Outcome::Image(Some(image_record(&image)))
                });
            }
            Action::CreateContainer(request) => {
                self.answer_later(&effect, self.latency, move |world| world.create_container(&pod, request));
            }
            Action::StartContainer(id) => {
                self.answer_later(&effect, self.latency, move |world| world.start_container(&pod.uid, &id));
            }
            Action::SignalContainer { container, signal } => {
                self.signal(&pod.uid, &container, &signal);
                self.done(&effect);
            }
            Action::RemoveContainer { container, .. } => self.answer_later(&effect, self.latency, move |world| {
                world.runtime(&pod).containers.retain(|record| record.id != container);
                world.observe(&pod.uid);
                Outcome::Done
            }),
            Action::RunHook { container, name, handler, pod: object } => {
                let is_post_start = super::look::is_post_start(&object, &name, &handler);
                let behavior = self.behavior_of(&pod.uid, &container);
                let (time, error) = if is_post_start { behavior.post_start } else { behavior.pre_stop };
                self.note(format!("{} {name}", if is_post_start { "postStart" } else { "preStop" }));
                self.answer_later(&effect, time, move |_| match error {
                    Some(message) => Outcome::Failed(Failure { reason: String::new(), message }),
                    None => Outcome::Done,
                });
            }
            Action::Probe { container, name, probe, pod: object } => {
                let kind = super::look::probe_kind(&object, &name, &probe);
                self.answer_later(&effect, self.latency, move |world| {
                    Outcome::Probe(world.probe(&pod.uid, &container, kind))
                });
            }
        }
    }

    fn fault(&mut self, name: &str) -> Option<Failure> {
        let faults = self.faults.get_mut(name)?;
        let (reason, message) = if faults.is_empty() { return None } else { faults.remove(0) };
        Some(Failure { reason, message })
    }

    fn done(&mut self, effect: &Effect) {
        self.answer_later(effect, Duration::ZERO, |_| Outcome::Done);
    }

    fn answer_later(&mut self, effect: &Effect, time: Duration, outcome: impl FnOnce(&mut World) -> Outcome + 'static) {
        self.schedule(self.now + time, Happening::Answer(effect.id, Box::new(outcome)));
    }

    fn runtime(&mut self, pod: &PodRef) -> &mut super::Runtime {
        let runtime = self.runtime.entry(pod.uid.clone()).or_default();
        runtime.reference = Some(pod.clone());
        runtime
    }

    fn run_sandbox(&mut self, pod: &PodRef, attempt: u32, host_network: bool) -> Outcome {
        let record = SandboxRecord {
            id: SandboxId(format!("sandbox-{}-{attempt}", pod.uid)),
            attempt,
            ready: true,
            host_network,
            ips: if host_network { Vec::new() } else { vec!["10.0.0.7".parse().unwrap()] },
            created_at: self.now,
        };
        self.runtime(pod).sandboxes.push(record.clone());
        self.observe(&pod.uid);
        Outcome::SandboxReady(record)
    }

    fn create_container(&mut self, pod: &PodRef, request: CreateContainer) -> Outcome {
        let id = ContainerId(format!("{}-{}", request.name, request.attempt));
        let image = super::look::spec_image(&request.pod, &request.name);
        let record = ContainerRecord {
            id: id.clone(),
            sandbox: request.sandbox,
            name: request.name,
            role: request.role,
            attempt: request.attempt,
            spec_image: image.clone(),
            image,
            image_id: request.image_id,
            created_at: self.now,
            state: RuntimeState::Created,
            user: None,
        };
        self.runtime(pod).containers.push(record);
        self.observe(&pod.uid);
        Outcome::Created(id)
    }

    fn start_container(&mut self, uid: &PodUid, id: &ContainerId) -> Outcome {
        let (now, behavior) = (self.now, self.behavior_of(uid, id));
        let record = self.runtime.get_mut(uid).and_then(|runtime| {
            runtime.containers.iter_mut().find(|record| record.id == *id && record.state == RuntimeState::Created)
        });
        let Some(record) = record else { return Outcome::Done };
        record.state = RuntimeState::Running { started_at: now };
        let name = record.name.clone();
        self.note(format!("start {name}"));
        if let Some((time, code)) = behavior.exits {
            self.schedule(now + time, Happening::Exit(uid.clone(), id.clone(), code));
        }
        self.observe(uid);
        Outcome::Done
    }

    fn signal(&mut self, uid: &PodUid, id: &ContainerId, signal: &Signal) {
        let name = self.record(uid, id).map(|record| record.name.clone()).unwrap_or_default();
        let exit = match signal {
            Signal::Kill => {
                self.note(format!("kill {name}"));
                Some((Duration::ZERO, 137))
            }
            Signal::Stop { .. } => {
                self.note(format!("signal {name}"));
                self.behavior_of(uid, id).on_stop
            }
        };
        if let Some((time, code)) = exit {
            self.schedule(self.now + time, Happening::Exit(uid.clone(), id.clone(), code));
        }
    }

    pub fn record(&self, uid: &PodUid, id: &ContainerId) -> Option<&ContainerRecord> {
        self.runtime.get(uid)?.containers.iter().find(|record| record.id == *id)
    }

    pub fn behavior_of(&self, uid: &PodUid, id: &ContainerId) -> Behavior {
        let Some(record) = self.record(uid, id) else { return Behavior::runs() };
        let list = self.behaviors.get(&record.name);
        let instance = usize::try_from(record.attempt).unwrap();
        list.and_then(|list| list.get(instance).or(list.last())).cloned().unwrap_or_else(Behavior::runs)
    }

    fn probe(&mut self, uid: &PodUid, id: &ContainerId, kind: &str) -> ProbeOutcome {
        if let Some(outcome) = self.outcomes.pop_front() {
            return outcome;
        }
        let behavior = self.behavior_of(uid, id);
        let started = match self.record(uid, id).map(|record| record.state.clone()) {
            Some(RuntimeState::Running { started_at }) => started_at,
            _ => return ProbeOutcome::Error("no such container".to_owned()),
        };
        let age = Duration::try_from(self.now.duration_since(started)).unwrap();
        let passes = match kind {
            "startup" => behavior.starts_up.is_some_and(|from| age >= from),
            "readiness" => behavior.ready.is_some_and(|from| age >= from),
            _ => behavior.dies.is_none_or(|from| age < from),
        };
        self.note(format!("probe {kind} {} {}", id, if passes { "passes" } else { "fails" }));
        if passes { ProbeOutcome::Success } else { ProbeOutcome::Failure(String::new()) }
    }
}

fn image_record(image: &str) -> ImageRecord {
    ImageRecord { image_id: format!("{image}@sha256:0"), size_bytes: 4_000_000 }
}

/// The name by which tests call an effect.
pub fn short_name(action: &Action) -> &'static str {
    match action {
        Action::SetUpPod(_) => "set-up",
        Action::RefreshVolumes(_) => "refresh",
        Action::TearDownPod => "tear-down",
        Action::RunSandbox { .. } => "sandbox",
        Action::StopSandbox(_) => "stop-sandbox",
        Action::RemoveSandbox(_) => "remove-sandbox",
        Action::InspectImage { .. } => "inspect",
        Action::PullImage { .. } => "pull",
        Action::CreateContainer(_) => "create",
        Action::StartContainer(_) => "start",
        Action::SignalContainer { .. } => "signal",
        Action::RemoveContainer { .. } => "remove",
        Action::RunHook { .. } => "hook",
        Action::Probe { .. } => "probe",
        Action::Cancel(_) => "cancel",
        Action::WriteStatus(_) => "status",
        Action::RecordEvent(_) => "event",
        Action::DeletePodObject(_) => "delete",
    }
}
