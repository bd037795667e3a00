//! The conditions that the node owns (L-720 to L-726).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};

use crate::identity::ContainerRole;
use crate::pod::shape::{ContainerIndex, ContainerShape};
use crate::status::View;
use crate::status::phase::Phase;
use crate::time::to_the_second;

/// The condition types that only the node writes.
pub(crate) const OWNED: [&str; 8] = [
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    "PodResizePending",
    "PodResizeInProgress",
    "AllContainersRestarting",
];

/// Set by whoever disrupts the pod, the node too.
pub(crate) const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What conditions are made of.
pub(crate) struct Judged<'a> {
    /// Every container but the ephemeral ones, with its status.
    pub(crate) statuses: &'a [(ContainerIndex, &'a ContainerShape, &'a ContainerStatus)],
    /// The phase as the containers have it, whether told or not.
    pub(crate) phase: Phase,
}

/// `status`, `reason`, `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Claim {
    fn yes() -> Self {
        Claim { is_true: true, reason: "", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Claim { is_true: false, reason, message }
    }
}

/// All conditions, in the order in which the kubelet sends them (L-720).
pub(crate) fn conditions(view: &View<'_>, judged: &Judged<'_>, disruption: Option<&PodCondition>) -> Vec<PodCondition> {
    let mut list: Vec<PodCondition> = Vec::with_capacity(8);
    list.extend(view.foreign_conditions().cloned());
    if let Some(disruption) = disruption {
        list.retain(|condition| condition.type_ != DISRUPTION_TARGET);
        list.push(disruption.clone());
    }
    let containers_ready = containers_ready(judged);
    let ready = if containers_ready.is_true { ready(view, &list) } else { containers_ready.clone() };
    let ready_to_start = Claim { is_true: !view.needs_sandbox, ..Claim::yes() };
    list.push(view.condition("PodReadyToStartContainers", ready_to_start));
    list.push(view.condition("Initialized", initialized(view, judged)));
    list.push(view.condition("Ready", ready));
    list.push(view.condition("ContainersReady", containers_ready));
    list.push(view.condition("PodScheduled", Claim::yes()));
    if view.shape.could_restart_all {
        let mut condition = view.condition("AllContainersRestarting", all_containers_restarting(view, judged.phase));
        condition.observed_generation = None;
        list.push(condition);
    }
    list
}

/// L-722.
fn containers_ready(judged: &Judged<'_>) -> Claim {
    match judged.phase {
        Phase::Succeeded => return Claim::no("PodCompleted", String::new()),
        Phase::Failed => return Claim::no("PodFailed", String::new()),
        Phase::Pending | Phase::Running => {}
    }
    let counts = |role| matches!(role, ContainerRole::Sidecar | ContainerRole::App);
    let unready: Vec<&str> = judged
        .statuses
        .iter()
        .filter(|(_, shape, status)| counts(shape.role) && !status.ready)
        .map(|(_, shape, _)| shape.name.as_str())
        .collect();
    if unready.is_empty() {
        return Claim::yes();
    }
    Claim::no("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
}

/// L-724: readiness gates, once the containers are ready.
fn ready(view: &View<'_>, so_far: &[PodCondition]) -> Claim {
    let gates = view.pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let failing: Vec<String> = gates.iter().filter_map(|gate| gate_fault(&gate.condition_type, so_far)).collect();
    if failing.is_empty() { Claim::yes() } else { Claim::no("ReadinessGatesNotReady", failing.join(", ")) }
}

fn gate_fault(gate: &str, conditions: &[PodCondition]) -> Option<String> {
    match conditions.iter().find(|condition| condition.type_ == gate) {
        None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        Some(condition) if condition.status == "True" => None,
        Some(condition) => {
            Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {}", condition.status))
        }
    }
}

/// L-723.
fn initialized(view: &View<'_>, judged: &Judged<'_>) -> Claim {
    if judged.phase == Phase::Succeeded {
        return Claim { is_true: true, reason: "PodCompleted", message: String::new() };
    }
    let has_left_waiting = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    if judged.statuses.iter().any(|(_, shape, status)| shape.role == ContainerRole::App && has_left_waiting(status)) {
        return Claim::yes();
    }
    let is_incomplete = |(_, shape, status): &&(ContainerIndex, &ContainerShape, &ContainerStatus)| match shape.role {
        ContainerRole::Sidecar => status.started != Some(true),
        ContainerRole::Init => !status.ready,
        ContainerRole::App | ContainerRole::Ephemeral => false,
    };
    let incomplete: Vec<&str> =
        judged.statuses.iter().filter(is_incomplete).map(|(_, shape, _)| shape.name.as_str()).collect();
    if incomplete.is_empty() || view.was_true("Initialized") {
        return Claim::yes();
    }
    Claim::no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", incomplete.join(" ")))
}

/// L-112.
fn all_containers_restarting(view: &View<'_>, phase: Phase) -> Claim {
    match phase {
        Phase::Succeeded => Claim::no("PodCompleted", String::new()),
        Phase::Failed => Claim::no("PodFailed", String::new()),
        Phase::Pending | Phase::Running if view.is_restarting_all => Claim {
            is_true: true,
            reason: "RestartAllContainersStarted",
            message: "container exited with restart policy rule".to_owned(),
        },
        Phase::Pending | Phase::Running => Claim::no("", String::new()),
    }
}

impl View<'_> {
    fn condition(&self, type_: &str, claim: Claim) -> PodCondition {
        let status = if claim.is_true { "True" } else { "False" };
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(claim.reason).filter(|reason| !reason.is_empty()).map(str::to_owned),
            message: Some(claim.message).filter(|message| !message.is_empty()),
            observed_generation: self.pod.metadata.generation,
            last_transition_time: Some(to_the_second(self.now)),
            last_probe_time: None,
        }
        .with_transition_of(self.previous_condition(type_), self.now)
    }
}

trait Transition {
    fn with_transition_of(self, previous: Option<&PodCondition>, now: Timestamp) -> Self;
}

impl Transition for PodCondition {
    /// L-725: the time moves only when the status does.
    fn with_transition_of(mut self, previous: Option<&PodCondition>, now: Timestamp) -> Self {
        self.last_transition_time = previous
            .filter(|previous| previous.status == self.status)
            .and_then(|previous| previous.last_transition_time.clone())
            .or_else(|| Some(to_the_second(now)));
        self
    }
}

/// The condition of a pod that the node ends for its own reasons (L-616, L-617).
pub(crate) fn disruption_target(message: &str, generation: Option<i64>, now: Timestamp) -> PodCondition {
    PodCondition {
        type_: DISRUPTION_TARGET.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(message.to_owned()),
        observed_generation: generation,
        last_transition_time: Some(to_the_second(now)),
        last_probe_time: None,
    }
}
