//! The scheduler: binds pods to nodes, or says why it can't.
//!
//! It looks at all pending pods together, the most important first, so that a pod that is bound takes its room from those after it.
//! It makes no room on nodes, knows no volumes and scores no nodes: of those that fit, the first by name is taken.
//! Read next: [`filters`] (what makes a node unfit).

mod filters;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition, PodSpec};

use self::filters::{Candidate, Misfit, host_ports, node_affinity, taints, unschedulable};
use crate::cache::{Cache, Change};
use crate::job::{is_terminal, pod_target};
use crate::object::{Object, is_being_deleted, name_of, namespace_of};
use crate::runner::{Planned, Reconcile, Step};
use crate::time::api_time;
use crate::write::{Action, EventRecord, PodStatusPatch};

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
        let mut pending: Vec<&Pod> = cache.all_pods().map(AsRef::as_ref).filter(|pod| is_pending(pod)).collect();
        if pending.is_empty() {
            return Step::rest();
        }
        pending.sort_by_key(|pod| queue_order(pod));
        let mut candidates = candidates(cache);
        let mut step = Step::rest();
        for pod in pending {
            let planned = schedule(pod, &mut candidates, now);
            step.writes.extend(planned);
        }
        step
    }
}

/// True for a pod that waits for this scheduler.
fn is_pending(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(SCHEDULER_NAME);
    node_name(spec).is_empty() && scheduler == SCHEDULER_NAME && !is_being_deleted(&pod.metadata) && !is_terminal(pod)
}

/// The highest priority first, then the oldest.
fn queue_order(pod: &Pod) -> (Reverse<i32>, Option<Timestamp>, String) {
    let created = pod.metadata.creation_timestamp.as_ref();
    let name = format!("{}/{}", namespace_of(&pod.metadata), name_of(&pod.metadata));
    (Reverse(priority(pod)), created.map(|time| time.0), name)
}

fn priority(pod: &Pod) -> i32 {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.priority).unwrap_or(0)
}

fn node_name(spec: &PodSpec) -> &str {
    spec.node_name.as_deref().unwrap_or_default()
}

/// The nodes with the pods that take room on them.
fn candidates(cache: &Cache) -> Vec<Candidate<'_>> {
    let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in cache.all_pods().filter(|pod| !is_terminal(pod)) {
        let node = pod.spec.as_ref().map(node_name).unwrap_or_default();
        pods.entry(node).or_default().push(pod);
    }
    let nodes = cache.nodes().map(AsRef::as_ref);
    nodes
        .map(|node: &Node| Candidate { node, pods: pods.remove(name_of(&node.metadata)).unwrap_or_default() })
        .collect()
}

/// Binds the pod to the first node that fits, or says why there is none.
fn schedule<'a>(pod: &'a Pod, candidates: &mut [Candidate<'a>], now: Timestamp) -> Option<Planned> {
    let spec = pod.spec.as_ref()?;
    if spec.scheduling_gates.iter().flatten().next().is_some() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        return say(pod, "SchedulingGated", message, now);
    }
    let mut misfits = Vec::new();
    for candidate in candidates.iter_mut() {
        match misfit(spec, candidate) {
            Some(misfit) => misfits.push(misfit),
            None => {
                candidate.pods.push(pod);
                return Some(bind(pod, candidate.node));
            }
        }
    }
    let message = explain(&misfits);
    let mut planned = say(pod, "Unschedulable", &message, now)?;
    planned.events.push(event(pod, true, "FailedScheduling", &message));
    Some(planned)
}

/// The first filter that the node fails.
fn misfit(spec: &PodSpec, candidate: &Candidate<'_>) -> Option<Misfit> {
    let node = candidate.node;
    unschedulable(spec, node)
        .or_else(|| taints(spec, node))
        .or_else(|| node_affinity(spec, node))
        .or_else(|| host_ports(spec, candidate))
}

/// `0/1 nodes are available: 1 Insufficient cpu. ...`
fn explain(misfits: &[Misfit]) -> String {
    if misfits.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let preemption: Vec<Misfit> = misfits.iter().map(cannot_preempt).collect();
    format!("{} no new claims to deallocate, preemption: {}", available(misfits), available(&preemption))
}

fn cannot_preempt(misfit: &Misfit) -> Misfit {
    let reason = if misfit.may_be_resolved {
        "No preemption victims found for incoming pod"
    } else {
        "Preemption is not helpful for scheduling"
    };
    Misfit { reasons: vec![reason.to_owned()], may_be_resolved: false }
}

fn available(misfits: &[Misfit]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in misfits.iter().flat_map(|misfit| &misfit.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    let total = misfits.len();
    format!("0/{total} nodes are available: {}.", reasons.join(", "))
}

fn bind(pod: &Pod, node: &Node) -> Planned {
    let (namespace, name) = (namespace_of(&pod.metadata), name_of(&pod.metadata));
    let node_name = name_of(&node.metadata).to_owned();
    let message = format!("Successfully assigned {namespace}/{name} to {node_name}");
    Planned {
        events: vec![event(pod, false, "Scheduled", &message)],
        action: Action::Bind { pod: pod_target(pod), node_name },
    }
}

/// Sets the condition PodScheduled to False, unless it says the same already.
fn say(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Planned> {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let stored = conditions.flatten().find(|one| one.type_ == "PodScheduled");
    let is_said = stored.is_some_and(|stored| {
        stored.status == "False"
            && stored.reason.as_deref() == Some(reason)
            && stored.message.as_deref() == Some(message)
    });
    if is_said {
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
    let patch = PodStatusPatch { conditions: vec![condition], ..PodStatusPatch::default() };
    Some(Planned::from(Action::PatchPodStatus { pod: pod_target(pod), patch: Box::new(patch) }))
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
