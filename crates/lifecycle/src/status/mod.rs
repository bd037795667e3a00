//! The status of a pod as users see it, computed anew from what is known (section 7).
//!
//! [`compute`] is a pure function of a [`View`].
//! When a status is written, and what is held back until everything is down, is in `pod::publish`.

pub(crate) mod conditions;
pub(crate) mod containers;
pub(crate) mod fill_in;
pub(crate) mod merge;
pub(crate) mod phase;
pub(crate) mod termination_message;

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus};

use crate::config::NodeConfig;
use crate::identity::{ContainerId, ContainerRole};
use crate::observation::ContainerRecord;
use crate::pod::memory::{ContainerMemory, StartError};
use crate::pod::records::Records;
use crate::pod::shape::{ContainerIndex, ContainerShape, PerContainer, PodShape};
use crate::pod::start::Start;
use crate::probe::{ProbeKind, ProbeResult};
use crate::status::conditions::{Judged, conditions};
use crate::status::phase::Phase;
use crate::time::to_the_second;

/// Everything that a status is made of.
pub(crate) struct View<'a> {
    pub(crate) now: Timestamp,
    pub(crate) config: &'a NodeConfig,
    pub(crate) pod: &'a Pod,
    pub(crate) shape: &'a PodShape,
    pub(crate) records: &'a Records,
    pub(crate) memory: &'a PerContainer<ContainerMemory>,
    /// The last status, computed or read from the API.
    pub(crate) previous: &'a PodStatus,
    /// The start under way, whose instance is not yet shown (L-222).
    pub(crate) starting: Option<&'a Start>,
    /// A container's exit restarts all, and nothing has been removed yet (L-112).
    pub(crate) is_restarting_all: bool,
    pub(crate) is_deleted: bool,
    pub(crate) is_static: bool,
    /// Every container is known to be stopped for good.
    pub(crate) all_down: bool,
    /// A new sandbox would have to be made (L-205).
    pub(crate) needs_sandbox: bool,
    /// The active sandbox has a record of an app container (L-226, L-701).
    pub(crate) is_active: bool,
    /// The pod must go through its init containers (again) before it runs (L-229).
    pub(crate) is_initializing_again: bool,
    pub(crate) message_budget: usize,
    /// A phase that is decided whatever the containers say: final phases are never left, and the node may end a pod (L-707).
    pub(crate) forced: Option<Verdict<'a>>,
    pub(crate) disruption: Option<&'a PodCondition>,
}

/// A phase with its reason and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict<'a> {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<&'a str>,
    pub(crate) message: Option<&'a str>,
}

impl<'a> View<'a> {
    /// The records of a container that users may see, newest first.
    fn visible(&self, index: ContainerIndex) -> impl Iterator<Item = &'a ContainerRecord> {
        let starting = self.starting;
        self.records.of(index).filter(move |record| !starting.is_some_and(|start| start.is_of(index, record)))
    }

    /// True if a restart of all, told by the last status, has taken the container away.
    fn is_reset(&self, shape: &ContainerShape) -> bool {
        !self.is_restarting_all && self.was_true("AllContainersRestarting") && shape.role != ContainerRole::Ephemeral
    }

    fn previous_status(&self, shape: &ContainerShape) -> Option<&'a ContainerStatus> {
        let list = match shape.role {
            ContainerRole::Init | ContainerRole::Sidecar => &self.previous.init_container_statuses,
            ContainerRole::App => &self.previous.container_statuses,
            ContainerRole::Ephemeral => &self.previous.ephemeral_container_statuses,
        };
        list.as_deref()?.iter().find(|status| status.name == shape.name)
    }

    fn container_id(&self, record: &ContainerRecord) -> String {
        api_container_id(self.config, &record.id)
    }

    /// L-733: every container of a pod with init containers waits for the pod.
    fn default_waiting_reason(&self) -> &'static str {
        if self.shape.has_init() { "PodInitializing" } else { "ContainerCreating" }
    }

    fn start_error(&self, index: ContainerIndex) -> Option<&'a StartError> {
        self.memory.get(index).and_then(|memory| memory.start_error.as_ref())
    }

    /// True if the container is being started again, or will be, whatever its last exit says.
    fn is_restarted_after_kill(&self, index: ContainerIndex) -> bool {
        if self.starting.is_some_and(|start| start.index == index) {
            return true;
        }
        let newest = self.visible(index).next().map(|record| &record.id);
        newest.is_some() && self.memory.get(index).and_then(|memory| memory.restart_after_kill.as_ref()) == newest
    }

    fn probe_result(&self, index: ContainerIndex, kind: ProbeKind, id: &ContainerId) -> Option<ProbeResult> {
        self.memory.get(index)?.probe(kind)?.result_for(id)
    }

    /// True if the next look at the container starts it (L-734).
    fn is_to_be_started(
        &self,
        index: ContainerIndex,
        shape: &ContainerShape,
        newest: Option<&ContainerRecord>,
    ) -> bool {
        if self.is_deleted {
            return false;
        }
        let Some(newest) = newest else { return true };
        match newest.exit() {
            Some(exit) => shape.restart.should_restart(exit.effective_code()) || self.is_restarted_after_kill(index),
            None => !newest.is_running(),
        }
    }

    fn previous_condition(&self, type_: &str) -> Option<&'a PodCondition> {
        self.previous.conditions.as_deref()?.iter().find(|condition| condition.type_ == type_)
    }

    fn was_true(&self, type_: &str) -> bool {
        self.previous_condition(type_).is_some_and(|condition| condition.status == "True")
    }

    /// The conditions that others keep in the object.
    fn foreign_conditions(&self) -> impl Iterator<Item = &'a PodCondition> {
        self.pod.status.iter().flat_map(foreign_conditions)
    }
}

/// The conditions of a status that are not the node's.
pub(crate) fn foreign_conditions(status: &PodStatus) -> impl Iterator<Item = &PodCondition> {
    status.conditions.iter().flatten().filter(|condition| !conditions::OWNED.contains(&condition.type_.as_str()))
}

/// `<runtime>://<id>` (L-736).
pub(crate) fn api_container_id(config: &NodeConfig, id: &ContainerId) -> String {
    format!("{}://{}", config.runtime_name, id)
}

/// A computed status.
#[derive(Clone, Debug)]
pub(crate) struct Computed {
    /// The status with the phase as the containers have it.
    pub(crate) status: PodStatus,
    pub(crate) phase: Phase,
}

/// Computes the status.
pub(crate) fn compute(view: &View<'_>) -> Computed {
    let made: Vec<ContainerStatus> =
        view.shape.containers.iter().map(|(index, shape)| containers::container_status(view, index, shape)).collect();
    let judged: Vec<(ContainerIndex, &ContainerShape, &ContainerStatus)> = view
        .shape
        .containers
        .iter()
        .zip(&made)
        .filter(|((_, shape), _)| shape.role != ContainerRole::Ephemeral)
        .map(|((index, shape), status)| (index, shape, status))
        .collect();
    let (phase, reason, message) = verdict(view, phase::phase(view, &judged));
    let conditions = conditions(view, &Judged { statuses: &judged, phase }, view.disruption);
    let mut status = PodStatus {
        phase: Some(phase.name().to_owned()),
        reason,
        message,
        conditions: Some(conditions),
        observed_generation: view.pod.metadata.generation,
        ..carried_over(view)
    };
    addresses(view, &mut status);
    sort_into(view, made, &mut status);
    Computed { status, phase }
}

/// L-707: a forced phase, else the computed one; reason and message live as long as their phase.
fn verdict(view: &View<'_>, computed: Phase) -> (Phase, Option<String>, Option<String>) {
    if let Some(forced) = view.forced {
        return (forced.phase, forced.reason.map(str::to_owned), forced.message.map(str::to_owned));
    }
    if computed == Phase::parse(view.previous.phase.as_deref()) {
        return (computed, view.previous.reason.clone(), view.previous.message.clone());
    }
    (computed, None, None)
}

/// What the node does not compute anew (L-727, L-728).
fn carried_over(view: &View<'_>) -> PodStatus {
    let stored = view.pod.status.as_ref();
    PodStatus {
        qos_class: stored.and_then(|status| status.qos_class.clone()).or_else(|| view.previous.qos_class.clone()),
        start_time: view.previous.start_time.clone().or_else(|| Some(to_the_second(view.now))),
        nominated_node_name: stored.and_then(|status| status.nominated_node_name.clone()),
        resource_claim_statuses: stored.and_then(|status| status.resource_claim_statuses.clone()),
        extended_resource_claim_status: stored.and_then(|status| status.extended_resource_claim_status.clone()),
        pod_ip: view.previous.pod_ip.clone(),
        pod_ips: view.previous.pod_ips.clone(),
        ..PodStatus::default()
    }
}

/// L-727.
fn addresses(view: &View<'_>, status: &mut PodStatus) {
    let host: Vec<String> = view.config.host_ips.iter().take(2).map(IpAddr::to_string).collect();
    status.host_ip = host.first().cloned();
    status.host_ips = (!host.is_empty()).then(|| host.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    let primary_is_v4 = view.config.host_ips.first().is_none_or(IpAddr::is_ipv4);
    let pod: Vec<String> = if view.shape.host_network {
        host
    } else {
        view.records.active_sandbox().map(|sandbox| pod_ips(&sandbox.ips, primary_is_v4)).unwrap_or_default()
    };
    // The addresses of a stopped sandbox stay.
    if let Some(first) = pod.first() {
        status.pod_ip = Some(first.clone());
        status.pod_ips = Some(pod.into_iter().map(|ip| PodIP { ip }).collect());
    }
}

/// At most one address of each family, the node's own family first.
fn pod_ips(ips: &[IpAddr], primary_is_v4: bool) -> Vec<String> {
    let of_family = |is_v4: bool| ips.iter().find(|ip| ip.is_ipv4() == is_v4).map(IpAddr::to_string);
    of_family(primary_is_v4).into_iter().chain(of_family(!primary_is_v4)).collect()
}

/// L-730: init statuses in spec order, the others by name.
fn sort_into(view: &View<'_>, made: Vec<ContainerStatus>, status: &mut PodStatus) {
    let (mut init, mut app, mut ephemeral) = (Vec::new(), Vec::new(), Vec::new());
    for ((_, shape), made) in view.shape.containers.iter().zip(made) {
        match shape.role {
            ContainerRole::Init | ContainerRole::Sidecar => init.push(made),
            ContainerRole::App => app.push(made),
            ContainerRole::Ephemeral => ephemeral.push(made),
        }
    }
    app.sort_by(|one, other| one.name.cmp(&other.name));
    ephemeral.sort_by(|one, other| one.name.cmp(&other.name));
    let some = |list: Vec<ContainerStatus>| (!list.is_empty()).then_some(list);
    status.init_container_statuses = some(init);
    status.container_statuses = some(app);
    status.ephemeral_container_statuses = some(ephemeral);
}
