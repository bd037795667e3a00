//! Looks at what the engine does from outside, with knowledge of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use lifecycle::effect::CreateContainer;
use lifecycle::effect::Signal;
use lifecycle::input::ProbeOutcome;
use lifecycle::{Action, ContainerRole, Effect, EffectId, Input, Outcome, PodObservation, SandboxId};

use crate::runtime::{Runtime, is_running};

/// SIGKILL comes at latest so long after the end of the grace: the floor of two seconds, and the fractions of two stages.
const SLACK: Duration = Duration::from_secs(3);

/// A container within one sandbox.
type Place = (SandboxId, String);

pub(crate) struct Judge {
    /// Init containers in order: name, sidecar, has a startup probe.
    init: Vec<(String, bool, bool)>,
    effects: BTreeSet<EffectId>,
    /// The start under way.
    starting: Option<EffectId>,
    /// Startup probes under way.
    startup_probes: BTreeMap<EffectId, Place>,
    /// What has been made, run, passed its startup probe or completed, in each sandbox.
    made: BTreeSet<Place>,
    run: BTreeSet<Place>,
    started_up: BTreeSet<Place>,
    completed: BTreeSet<Place>,
    /// What the engine knows.
    known: Option<Arc<PodObservation>>,
    /// When the pod was told to end, and when its grace is over.
    grace_ends: Option<Timestamp>,
    is_ending: bool,
    /// Containers whose kill began before the pod's end.
    killed_before: BTreeSet<String>,
    killed: BTreeSet<String>,
    restarts: BTreeMap<String, i32>,
    final_phase: Option<String>,
    last_sent: Option<PodStatus>,
    last_failed: bool,
    status_in_flight: Option<EffectId>,
    faults: Vec<String>,
}

impl Judge {
    pub(crate) fn new(pod: &Pod) -> Self {
        let spec = pod.spec.as_ref().unwrap();
        let is_sidecar = |container: &Container| container.restart_policy.as_deref() == Some("Always");
        let init = spec.init_containers.iter().flatten();
        Judge {
            init: init.map(|c| (c.name.clone(), is_sidecar(c), is_sidecar(c) && c.startup_probe.is_some())).collect(),
            effects: BTreeSet::new(),
            starting: None,
            startup_probes: BTreeMap::new(),
            made: BTreeSet::new(),
            run: BTreeSet::new(),
            started_up: BTreeSet::new(),
            completed: BTreeSet::new(),
            known: None,
            grace_ends: None,
            is_ending: false,
            killed_before: BTreeSet::new(),
            killed: BTreeSet::new(),
            restarts: BTreeMap::new(),
            final_phase: None,
            last_sent: None,
            last_failed: false,
            status_in_flight: None,
            faults: Vec::new(),
        }
    }

    pub(crate) fn agent_restarted(&mut self) {
        self.effects.clear();
        self.starting = None;
        self.status_in_flight = None;
        self.last_sent = None;
        self.is_ending = false;
        self.grace_ends = None;
        self.killed.clear();
        self.killed_before.clear();
        self.known = None;
        self.startup_probes.clear();
    }

    /// What the engine was told.
    pub(crate) fn told(&mut self, input: &Input, now: Timestamp) {
        match input {
            Input::PodApplied(pod) if pod.metadata.deletion_timestamp.is_some() => {
                self.is_ending = true;
                let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(30).max(1).unsigned_abs();
                self.ends_within(grace, now);
            }
            Input::PodDeleted(_) => self.is_ending = true,
            Input::Observed(observation) => self.known = Some(Arc::new(observation.clone())),
            Input::EffectDone { effect, outcome } => self.answered(*effect, outcome),
            _ => {}
        }
    }

    fn answered(&mut self, effect: EffectId, outcome: &Outcome) {
        if self.starting == Some(effect) {
            self.starting = None;
        }
        if self.status_in_flight == Some(effect) {
            self.status_in_flight = None;
            self.last_failed = matches!(outcome, Outcome::Failed(_));
        }
        let passed = matches!(outcome, Outcome::Probe(ProbeOutcome::Success | ProbeOutcome::Warning(_)));
        if let (Some(place), true) = (self.startup_probes.remove(&effect), passed) {
            self.started_up.insert(place);
        }
    }

    /// A container has begun to run.
    pub(crate) fn ran(&mut self, record: &lifecycle::ContainerRecord) {
        self.run.insert((record.sandbox.clone(), record.name.clone()));
    }

    /// A container has ended.
    pub(crate) fn exited(&mut self, record: &lifecycle::ContainerRecord, code: i32) {
        if code == 0 {
            self.completed.insert((record.sandbox.clone(), record.name.clone()));
        }
    }

    fn ends_within(&mut self, grace: u64, now: Timestamp) {
        let end = now + Duration::from_secs(grace);
        self.grace_ends = Some(self.grace_ends.map_or(end, |old| old.min(end)));
    }

    /// What the engine asks for.
    pub(crate) fn sent(&mut self, effect: &Effect, now: Timestamp, runtime: &Runtime) {
        if !self.effects.insert(effect.id) {
            self.faults.push(format!("{:?} was used twice", effect.id));
        }
        match &effect.action {
            Action::CreateContainer(request) => {
                self.begins(effect, "create");
                self.judge_order(request);
                self.made.insert((request.sandbox.clone(), request.name.clone()));
            }
            Action::StartContainer(_) => self.begins(effect, "start"),
            Action::Probe { container, pod, name, probe } => {
                let spec = pod.spec.as_ref().unwrap();
                let mut init = spec.init_containers.iter().flatten();
                let is_startup = init.any(|c| c.name == *name && c.startup_probe.as_ref() == Some(&**probe));
                if let Some(record) = runtime.find(container).filter(|_| is_startup) {
                    self.startup_probes.insert(effect.id, (record.sandbox.clone(), name.clone()));
                }
            }
            Action::RunSandbox { .. } if self.is_ending => {
                self.faults.push("a sandbox is made for a pod that ends".to_owned());
            }
            Action::SignalContainer { container, signal } => {
                if *signal == Signal::Kill {
                    self.killed.insert(container.0.clone());
                }
                self.judge_turn(container, signal, now, runtime);
            }
            Action::RecordEvent(event) if event.reason == "Killing" && !self.is_ending => {
                self.killed_before.insert(event.field_path.clone());
            }
            Action::WriteStatus(status) => self.writes(effect.id, status),
            _ => {}
        }
    }

    fn begins(&mut self, effect: &Effect, what: &str) {
        if self.is_ending {
            self.faults.push(format!("{what} after termination began: {:?}", effect.id));
        }
        if self.starting.replace(effect.id).is_some() {
            self.faults.push(format!("{what} while another start is under way"));
        }
    }

    /// L-211: what stands before a container in the list of init containers has completed, or has started and passed its startup probe.
    fn judge_order(&mut self, request: &CreateContainer) {
        let place = |name: &str| (request.sandbox.clone(), name.to_owned());
        let is_again = self.made.contains(&place(&request.name));
        if request.role == ContainerRole::Ephemeral || is_again {
            return;
        }
        let position = self.init.iter().position(|(name, ..)| *name == request.name);
        for (name, is_sidecar, has_startup) in &self.init[..position.unwrap_or(self.init.len())] {
            let is_passed = match (is_sidecar, has_startup) {
                (true, true) => self.started_up.contains(&place(name)),
                (true, false) => self.run.contains(&place(name)),
                (false, _) => self.completed.contains(&place(name)),
            };
            if !is_passed {
                self.faults.push(format!("{} is made before {name} has done its part", request.name));
            }
        }
    }

    /// L-604: a sidecar's signal waits for the app containers while there is grace.
    fn judge_turn(&mut self, id: &lifecycle::ContainerId, signal: &Signal, now: Timestamp, runtime: &Runtime) {
        let Some(record) = runtime.find(id) else { return };
        let path = format!("spec.initContainers{{{}}}", record.name);
        let is_judged = record.role == ContainerRole::Sidecar
            && matches!(signal, Signal::Stop { .. })
            && !self.killed_before.contains(&path)
            && self.grace_ends.is_some_and(|end| now < end);
        let known = self.known.as_ref().map(|known| known.containers.as_slice()).unwrap_or_default();
        let app = known.iter().find(|other| other.role == ContainerRole::App && is_running(other));
        if let (true, Some(app)) = (is_judged, app) {
            self.faults.push(format!("{id} is signalled while {} runs and has grace", app.id));
        }
    }

    fn writes(&mut self, effect: EffectId, status: &PodStatus) {
        if self.status_in_flight.replace(effect).is_some() {
            self.faults.push("two writes of a status at a time".to_owned());
        }
        if self.last_sent.as_ref() == Some(status) && !self.last_failed {
            self.faults.push("a status is written that does not differ".to_owned());
        }
        self.last_sent = Some(status.clone());
    }

    /// A status has reached the API.
    pub(crate) fn written(&mut self, status: &PodStatus) {
        let phase = status.phase.clone().unwrap_or_default();
        if let Some(told) = self.final_phase.as_ref().filter(|told| **told != phase) {
            self.faults.push(format!("the phase went from {told} to {phase}"));
        }
        if phase == "Succeeded" || phase == "Failed" {
            self.final_phase = Some(phase);
        }
        let lists = [&status.init_container_statuses, &status.container_statuses];
        for container in lists.into_iter().flatten().flatten() {
            self.count(container);
        }
    }

    fn count(&mut self, container: &ContainerStatus) {
        let old = self.restarts.insert(container.name.clone(), container.restart_count).unwrap_or(0);
        if container.restart_count < old {
            self.faults.push(format!(
                "the restart count of {} fell from {old} to {}",
                container.name, container.restart_count
            ));
        }
    }

    /// The first thing that is wrong.
    pub(crate) fn fault(&mut self, now: Timestamp, runtime: &Runtime) -> Option<String> {
        if let Some(end) = self.grace_ends.map(|end| end + SLACK).filter(|end| now > *end) {
            let late = runtime.containers.iter().find(|record| {
                is_running(record) && !self.killed.contains(&record.id.0) && started_before(record, end)
            });
            if let Some(record) = late {
                return Some(format!("{} runs on after the grace period without SIGKILL", record.id));
            }
        }
        self.faults.first().cloned()
    }
}

fn started_before(record: &lifecycle::ContainerRecord, moment: Timestamp) -> bool {
    match record.state {
        lifecycle::RuntimeState::Running { started_at } => started_at + Duration::from_secs(40) < moment,
        _ => false,
    }
}
