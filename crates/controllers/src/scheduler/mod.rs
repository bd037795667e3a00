//! The scheduler: binds pods to nodes, makes room for important ones, or says why it can't.
//!
//! It looks at all pending pods together, the most important first, so that a pod that is bound takes its room from those after it.
//! It knows no volumes and scores no nodes: of those that fit, the first by name is taken.
//! Read next: [`filters`] and [`affinity`] (what makes a node unfit), [`cluster`] (room), [`preemption`].

mod affinity;
mod cluster;
mod filters;
mod preemption;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use self::affinity::{pod_affinity, topology_spread};
use self::cluster::Cluster;
use self::filters::{Misfit, host_ports, node_affinity, taints, unschedulable};
use self::preemption::{Preemption, preempt, was_chosen};
use crate::cache::{Cache, Change};
use crate::job::{is_terminal, pod_target};
use crate::object::{Object, is_being_deleted, name_of, namespace_of, uid_of};
use crate::runner::{Planned, Reconcile, Step};
use crate::time::api_time;
use crate::write::{Action, EventRecord, PodStatusPatch, Propagation};

const SCHEDULER_NAME: &str = "default-scheduler";

/// Decides where pods run. All pending pods are one key.
#[derive(Debug)]
pub(crate) struct Scheduler;

impl Reconcile for Scheduler {
    type Key = ();

    fn affected(&self, _: &Cache, change: &Change, now: Timestamp) -> Vec<((), Timestamp)> {
        match change.object() {
            Object::Pod(_) | Object::Node(_) => vec![((), now)],
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, _: &(), now: Timestamp) -> Step {
        let pods = cache.all_pods().map(AsRef::as_ref);
        let mut pending: Vec<&Pod> = pods.filter(|pod| is_pending(pod)).collect();
        if pending.is_empty() {
            return Step::rest();
        }
        pending.sort_by_key(|pod| queue_order(pod));
        let mut cluster = Cluster::new(cache);
        let mut step = Step::rest();
        for pod in pending {
            step.writes.extend(schedule(pod, &mut cluster, now));
        }
        step
    }
}

/// True for a pod that waits for this scheduler.
fn is_pending(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER_NAME);
    spec.node_name.as_deref().unwrap_or_default().is_empty()
        && scheduler == SCHEDULER_NAME
        && !is_being_deleted(&pod.metadata)
        && !is_terminal(pod)
}

/// The highest priority first, then the oldest.
fn queue_order(pod: &Pod) -> (Reverse<i32>, Option<Timestamp>, String) {
    let created = pod.metadata.creation_timestamp.as_ref();
    let name = format!("{}/{}", namespace_of(&pod.metadata), name_of(&pod.metadata));
    (Reverse(priority(pod)), created.map(|time| time.0), name)
}

fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// Binds the pod to the first node that fits, or makes room, or says why there is none.
fn schedule<'a>(pod: &'a Pod, cluster: &mut Cluster<'a>, now: Timestamp) -> Vec<Planned> {
    let gates = pod.spec.iter().flat_map(|spec| &spec.scheduling_gates).flatten();
    if gates.count() > 0 {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        return say(pod, "SchedulingGated", message, None, now).into_iter().collect();
    }
    let mut misfits = Vec::new();
    for place in 0..cluster.candidates.len() {
        match misfit(pod, place, cluster) {
            Some(misfit) => misfits.push(misfit),
            None => return take(pod, place, cluster).into_iter().collect(),
        }
    }
    if misfits.is_empty() {
        return complain(pod, "no nodes available to schedule pods", None, now).into_iter().collect();
    }
    match preempt(pod, &misfits, cluster) {
        Preemption::Victims { node_name, victims } => {
            let mut planned: Vec<Planned> = victims.iter().map(|victim| evict(victim, pod, &node_name, now)).collect();
            let message = available(&misfits);
            planned.extend(complain(pod, &message, Some(&node_name), now));
            reserve(pod, &node_name, &victims, cluster);
            planned
        }
        Preemption::Waiting => {
            let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.clone());
            reserve(pod, &nominated.unwrap_or_default(), &[], cluster);
            Vec::new()
        }
        Preemption::None(why) => {
            let message = format!("{} no new claims to deallocate, preemption: {why}", available(&misfits));
            complain(pod, &message, Some(""), now).into_iter().collect()
        }
    }
}

/// The first filter that the node fails.
fn misfit(pod: &Pod, place: usize, cluster: &Cluster<'_>) -> Option<Misfit> {
    let spec = pod.spec.as_ref()?;
    let candidate = cluster.candidates.get(place)?;
    let node = candidate.node;
    unschedulable(spec, node)
        .or_else(|| taints(spec, node))
        .or_else(|| node_affinity(spec, node))
        .or_else(|| host_ports(spec, candidate))
        .or_else(|| candidate.lacks(pod))
        .or_else(|| topology_spread(pod, spec, node, cluster))
        .or_else(|| pod_affinity(pod, spec, node, cluster))
}

/// Keeps the room that is made for a pod from those after it.
fn reserve<'a>(pod: &'a Pod, node_name: &str, victims: &[&Pod], cluster: &mut Cluster<'a>) {
    let mut places = cluster.candidates.iter();
    if let Some(place) = places.position(|one| name_of(&one.node.metadata) == node_name) {
        *cluster = cluster.without(place, victims);
        if let Some(candidate) = cluster.candidates.get_mut(place) {
            candidate.add(pod);
        }
    }
}

/// `0/1 nodes are available: 1 Insufficient cpu.`
fn available(misfits: &[Misfit]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in misfits.iter().flat_map(|misfit| &misfit.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let reasons = counts.into_iter().map(|(reason, count)| format!("{count} {reason}"));
    let mut reasons: Vec<String> = reasons.collect();
    reasons.sort();
    let total = misfits.len();
    format!("0/{total} nodes are available: {}.", reasons.join(", "))
}

/// Binds the pod to a node.
fn take<'a>(pod: &'a Pod, place: usize, cluster: &mut Cluster<'a>) -> Option<Planned> {
    let candidate = cluster.candidates.get_mut(place)?;
    candidate.add(pod);
    let (namespace, name) = (namespace_of(&pod.metadata), name_of(&pod.metadata));
    let node_name = name_of(&candidate.node.metadata).to_owned();
    let message = format!("Successfully assigned {namespace}/{name} to {node_name}");
    Some(Planned {
        events: vec![event(pod, false, "Scheduled", &message)],
        action: Action::Bind { pod: pod_target(pod), node_name },
    })
}

/// Tells a pod that it goes, then deletes it.
fn evict(victim: &Pod, preemptor: &Pod, node_name: &str, now: Timestamp) -> Planned {
    if !was_chosen(victim) {
        let conditions = vec![preemption::condition(victim, now)];
        return Planned::from(patch(victim, PodStatusPatch { conditions, ..PodStatusPatch::default() }));
    }
    let message = format!("Preempted by pod {} on node {node_name}", uid_of(&preemptor.metadata));
    let action = Action::Delete {
        target: pod_target(victim),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    };
    Planned { events: vec![event(victim, false, "Preempted", &message)], action }
}

/// Says that the pod fits nowhere, as condition and event.
fn complain(pod: &Pod, message: &str, nominated: Option<&str>, now: Timestamp) -> Option<Planned> {
    let mut planned = say(pod, "Unschedulable", message, nominated, now)?;
    planned.events.push(event(pod, true, "FailedScheduling", message));
    Some(planned)
}

/// Sets the condition PodScheduled to False and the nominated node, unless they are so already.
fn say(pod: &Pod, reason: &str, message: &str, nominated: Option<&str>, now: Timestamp) -> Option<Planned> {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let stored = conditions.flatten().find(|one| one.type_ == "PodScheduled");
    let is_said = stored.is_some_and(|stored| {
        stored.status == "False"
            && stored.reason.as_deref() == Some(reason)
            && stored.message.as_deref() == Some(message)
    });
    let promised = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    let nominated = nominated.filter(|name| *name != promised.unwrap_or_default());
    if is_said && nominated.is_none() {
        return None;
    }
    let since = stored.filter(|stored| stored.status == "False");
    let since = since.and_then(|stored| stored.last_transition_time.clone());
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since.unwrap_or_else(|| api_time(now))),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    };
    let nominated_node_name = nominated.map(str::to_owned);
    let status = PodStatusPatch { conditions: vec![condition], nominated_node_name, ..PodStatusPatch::default() };
    Some(Planned::from(patch(pod, status)))
}

fn patch(pod: &Pod, patch: PodStatusPatch) -> Action {
    Action::PatchPodStatus { pod: pod_target(pod), patch: Box::new(patch) }
}

fn event(pod: &Pod, warning: bool, reason: &str, message: &str) -> EventRecord {
    EventRecord {
        regarding: Object::from(pod.clone()).reference(),
        component: SCHEDULER_NAME,
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
