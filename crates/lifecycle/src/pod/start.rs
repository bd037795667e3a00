//! The start of one container, step by step: image, create, start, postStart (L-203, L-220).
//!
//! One start at a time in each pod; between two steps the pod may have changed its mind (L-228).
//! Whether the time for a start has come is decided in `crash_loop`; the image steps are in `image`.

use jiff::Timestamp;

use crate::effect::{Action, CreateContainer};
use crate::events;
use crate::identity::{ContainerId, ContainerRole, EffectId};
use crate::input::{Failure, Outcome};
use crate::observation::{ContainerRecord, RuntimeState};
use crate::outbox::{Context, Purpose};
use crate::pod::kill::KillScope;
use crate::pod::memory::StartError;
use crate::pod::shape::ContainerIndex;
use crate::pod::{PodWorker, hooks};
use crate::time::{after, seconds};

/// The start under way.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) index: ContainerIndex,
    pub(crate) step: StartStep,
    /// The effect that the step waits for.
    pub(crate) effect: Option<EffectId>,
    /// Nobody wants it any more: it ends with the next answer.
    pub(crate) is_cancelled: bool,
    /// The image as the spec named it when the start began.
    pub(crate) image: String,
    pub(crate) image_id: String,
    /// The restart count of the instance that is being made.
    pub(crate) attempt: u32,
}

/// Where the start stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartStep {
    InspectImage,
    PullImage {
        began_at: Timestamp,
    },
    Create,
    Start(ContainerId),
    /// The hook runs; a sleep ends by itself.
    PostStart {
        container: ContainerId,
        sleeps_until: Option<Timestamp>,
    },
    /// postStart has failed and the container is being killed; the message is kept for its status.
    Kill {
        container: ContainerId,
        message: String,
    },
}

impl Start {
    /// True for the instance that is being started: it is not shown to users yet, nor probed (L-222).
    /// The runtime may show it before its creation is answered.
    pub(crate) fn is_of(&self, index: ContainerIndex, record: &ContainerRecord) -> bool {
        self.index == index && record.attempt >= self.attempt
    }

    /// When a step ends by itself.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        match self.step {
            StartStep::PostStart { sleeps_until, .. } => sleeps_until,
            _ => None,
        }
    }

    /// The instance, once it has an id.
    pub(crate) fn container(&self) -> Option<&ContainerId> {
        match &self.step {
            StartStep::Start(container)
            | StartStep::PostStart { container, .. }
            | StartStep::Kill { container, .. } => Some(container),
            StartStep::InspectImage | StartStep::PullImage { .. } | StartStep::Create => None,
        }
    }
}

impl PodWorker {
    pub(crate) fn begin_start(&mut self, cx: &mut Context<'_>, index: ContainerIndex) {
        let image = self.shape.containers.at(index).image.clone();
        self.start = Some(Start {
            index,
            step: StartStep::InspectImage,
            effect: None,
            is_cancelled: false,
            image,
            image_id: String::new(),
            attempt: self.next_attempt(index),
        });
        self.ensure_image(cx, index);
    }

    /// Gives a start up as soon as possible: pulls and hooks end early, the rest is awaited (L-228).
    pub(crate) fn cancel_start(&mut self, cx: &mut Context<'_>) {
        let Some(start) = &mut self.start else { return };
        if start.is_cancelled {
            return;
        }
        start.is_cancelled = true;
        let (effect, can_cancel) = (
            start.effect,
            matches!(start.step, StartStep::InspectImage | StartStep::PullImage { .. } | StartStep::PostStart { .. }),
        );
        match effect {
            Some(effect) if can_cancel => self.cancel(cx, effect),
            Some(_) => {}
            // A sleep, or a kill that goes on by itself.
            None => self.end_start(),
        }
    }

    /// The start is over, one way or the other.
    pub(crate) fn end_start(&mut self) {
        self.start = None;
        self.dirty = true;
    }

    /// A step was answered for.
    pub(crate) fn start_answered(&mut self, cx: &mut Context<'_>, effect: EffectId, outcome: Outcome) {
        let Some(start) = self.start.as_mut().filter(|start| start.effect == Some(effect)) else { return };
        start.effect = None;
        let (index, step, is_cancelled) = (start.index, start.step.clone(), start.is_cancelled);
        self.take_note(cx, index, &step, &outcome);
        if is_cancelled {
            return self.end_start();
        }
        match step {
            StartStep::InspectImage => self.image_inspected(cx, index, outcome),
            StartStep::PullImage { began_at } => self.image_pulled(cx, index, began_at, outcome),
            StartStep::Create => self.created(cx, index, outcome),
            StartStep::Start(container) => self.started(cx, index, container, outcome),
            StartStep::PostStart { container, .. } => self.post_start_ended(cx, index, container, outcome),
            StartStep::Kill { .. } => {}
        }
    }

    /// What an answer says of the runtime holds whether the start is still wanted or not.
    fn take_note(&mut self, cx: &mut Context<'_>, index: ContainerIndex, step: &StartStep, outcome: &Outcome) {
        match (step, outcome) {
            (StartStep::Create, Outcome::Created(id)) => {
                let record = self.new_record(cx, index, id);
                self.records.container_created(record, index);
            }
            (StartStep::Start(id), Outcome::Done) => self.records.container_started(id, cx.now),
            _ => {}
        }
    }

    /// The record of a container that no observation has shown yet.
    fn new_record(&self, cx: &Context<'_>, index: ContainerIndex, id: &ContainerId) -> ContainerRecord {
        let shape = &self.shape.containers.at(index);
        let start = self.start.as_ref();
        ContainerRecord {
            id: id.clone(),
            sandbox: self.records.active_sandbox().map(|sandbox| sandbox.id.clone()).unwrap_or_else(unknown_sandbox),
            name: shape.name.clone(),
            role: shape.role,
            attempt: start.map_or(0, |start| start.attempt),
            spec_image: start.map(|start| start.image.clone()).unwrap_or_default(),
            image: start.map(|start| start.image.clone()).unwrap_or_default(),
            image_id: start.map(|start| start.image_id.clone()).unwrap_or_default(),
            created_at: cx.now,
            state: RuntimeState::Created,
            user: None,
        }
    }

    /// L-221: one more than the newest instance had, and never a number that users have seen already.
    pub(crate) fn next_attempt(&self, index: ContainerIndex) -> u32 {
        let after_newest = self.records.newest(index).map_or(0, |record| record.attempt.saturating_add(1));
        after_newest.max(self.memory.at(index).next_attempt)
    }

    /// The image is there: create the container.
    pub(crate) fn create(&mut self, cx: &mut Context<'_>, index: ContainerIndex, image_id: String) {
        let shape = &self.shape.containers.at(index);
        let target = match self.target_of(index) {
            Ok(target) => target,
            Err(message) => {
                return self.start_failed(cx, index, "CreateContainerConfigError", message);
            }
        };
        let (Some(pod), Some(sandbox)) = (self.pod.clone(), self.records.active_sandbox()) else {
            return self.end_start();
        };
        let attempt = self.next_attempt(index);
        let request = CreateContainer {
            pod,
            sandbox: sandbox.id.clone(),
            name: shape.name.clone(),
            role: shape.role,
            attempt,
            image_id: image_id.clone(),
            target,
        };
        let effect = cx.send(&self.reference, Action::CreateContainer(request), Purpose::Start);
        if let Some(start) = &mut self.start {
            start.image_id = image_id;
            start.attempt = attempt;
            start.step = StartStep::Create;
            start.effect = Some(effect);
        }
    }

    /// The container whose process namespace an ephemeral one joins (L-104).
    fn target_of(&self, index: ContainerIndex) -> Result<Option<ContainerId>, String> {
        let shape = &self.shape.containers.at(index);
        let Some(name) = shape.target.as_ref().filter(|_| shape.role == ContainerRole::Ephemeral) else {
            return Ok(None);
        };
        let record = self.shape.find(name).and_then(|target| self.records.newest(target));
        let Some(record) = record else {
            return Err(format!("unable to find target container {name}"));
        };
        let spec = self.pod.as_ref().and_then(|pod| pod.spec.as_ref());
        let is_shared =
            spec.is_some_and(|spec| spec.share_process_namespace.unwrap_or(false) || spec.host_pid.unwrap_or(false));
        Ok((!is_shared).then(|| record.id.clone()))
    }

    fn created(&mut self, cx: &mut Context<'_>, index: ContainerIndex, outcome: Outcome) {
        match outcome {
            Outcome::Created(id) => {
                self.container_event(cx, index, false, "Created", "Container created");
                let effect = cx.send(&self.reference, Action::StartContainer(id.clone()), Purpose::Start);
                if let Some(start) = &mut self.start {
                    start.step = StartStep::Start(id);
                    start.effect = Some(effect);
                }
            }
            Outcome::Failed(Failure { reason, message }) => {
                let reason = or_default(reason, "CreateContainerError");
                self.start_failed(cx, index, &reason, message);
            }
            _ => self.end_start(),
        }
    }

    fn started(&mut self, cx: &mut Context<'_>, index: ContainerIndex, id: ContainerId, outcome: Outcome) {
        if let Outcome::Failed(Failure { reason, message }) = outcome {
            let message = message.replace(id.as_str(), &self.shape.containers.at(index).name);
            let _ = reason; // The kubelet shows one reason for every failure of this step.
            return self.start_failed(cx, index, "RunContainerError", message);
        }
        self.container_event(cx, index, false, "Started", "Container started");
        self.begin_post_start(cx, index, id);
    }

    /// L-502.
    fn begin_post_start(&mut self, cx: &mut Context<'_>, index: ContainerIndex, id: ContainerId) {
        let handler = self.shape.containers.at(index).post_start.clone();
        let (Some(handler), Some(pod), true) = (handler, self.pod.clone(), self.records.is_running(&id)) else {
            return self.start_succeeded(index);
        };
        let (effect, sleeps_until) = match &handler.sleep {
            Some(sleep) => (None, Some(after(cx.now, seconds(sleep.seconds)))),
            None => {
                let name = self.shape.containers.at(index).name.clone();
                let action = Action::RunHook { container: id.clone(), pod, name, handler };
                (Some(cx.send(&self.reference, action, Purpose::Start)), None)
            }
        };
        if let Some(start) = &mut self.start {
            start.step = StartStep::PostStart { container: id, sleeps_until };
            start.effect = effect;
        }
    }

    fn post_start_ended(&mut self, cx: &mut Context<'_>, index: ContainerIndex, id: ContainerId, outcome: Outcome) {
        let Outcome::Failed(failure) = outcome else { return self.start_succeeded(index) };
        // L-222.
        self.container_event(cx, index, true, "FailedPostStartHook", "PostStartHook failed");
        let message = hooks::failure_message(self.shape.containers.at(index), &self.reference, &failure.message);
        let grace = self.kill_grace(None);
        self.begin_kill(cx, &id, KillScope::Start, grace, Some("FailedPostStartHook"));
        if let Some(start) = &mut self.start {
            start.step = StartStep::Kill { container: id, message };
        }
    }

    /// Moves the start on where time or an exit does it. True if anything changed.
    pub(crate) fn advance_start(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(start) = &self.start else { return false };
        let index = start.index;
        match start.step.clone() {
            StartStep::PostStart { container, sleeps_until } => {
                let has_exited = !self.records.is_running(&container);
                match (start.effect, sleeps_until) {
                    (Some(effect), _) if has_exited && !start.is_cancelled => {
                        // The container is gone: the hook has nothing to act on, and its exit decides.
                        self.cancel_start(cx);
                        let _ = effect;
                        true
                    }
                    (None, Some(until)) if has_exited || cx.now >= until => {
                        self.start_succeeded(index);
                        true
                    }
                    _ => false,
                }
            }
            StartStep::Kill { container, message } if !self.records.is_running(&container) => {
                self.memory_mut(index, |memory| {
                    memory.start_error = Some(StartError { reason: "PostStartHookError".to_owned(), message });
                });
                self.end_start();
                true
            }
            _ => false,
        }
    }

    fn start_succeeded(&mut self, index: ContainerIndex) {
        let attempt = self.next_attempt(index);
        self.memory_mut(index, |memory| {
            memory.forget_errors();
            memory.next_attempt = attempt;
        });
        self.end_start();
    }

    /// A step failed for a reason that users see; the next try waits (L-313).
    pub(crate) fn start_failed(&mut self, cx: &mut Context<'_>, index: ContainerIndex, reason: &str, message: String) {
        self.container_event(cx, index, true, "Failed", format!("Error: {message}"));
        self.hold_start(cx, index, reason, message);
    }

    /// Remembers why a start failed and when the next one may be tried.
    pub(crate) fn hold_start(&mut self, cx: &mut Context<'_>, index: ContainerIndex, reason: &str, message: String) {
        let (now, limits) = (cx.now, self.limits(cx));
        let error = StartError { reason: reason.to_owned(), message };
        self.memory_mut(index, |memory| {
            memory.start.count(now, now, limits);
            memory.wait_until = Some(after(now, memory.start.delay()));
            memory.start_error = Some(error);
        });
        self.end_start();
    }

    pub(crate) fn container_event(
        &mut self,
        cx: &mut Context<'_>,
        index: ContainerIndex,
        warning: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        let event = events::container(&self.shape.containers.at(index).field_path, warning, reason, message);
        self.record_event(cx, event);
    }
}

fn unknown_sandbox() -> crate::identity::SandboxId {
    crate::identity::SandboxId(String::new())
}

pub(crate) fn or_default(reason: String, default: &str) -> String {
    if reason.is_empty() { default.to_owned() } else { reason }
}
