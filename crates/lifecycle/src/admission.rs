//! What the node refuses before it makes anything, and what it makes room for (L-617).
//!
//! Refusals are worded here; `preemption` picks the pods that a critical one displaces.

use std::collections::BTreeMap;

use api::resources::{Amounts, amounts, pod_requests};
use k8s_openapi::api::core::v1::Pod;

use crate::config::NodeConfig;
use crate::outbox::WorkerKey;
use crate::pod::PodWorker;
use crate::preemption::{self, Shortage};

/// Why a pod is refused: the reason of its status and of the event, and the event's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// What becomes of a new pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Refused(Refusal),
    /// There is room once these pods are down.
    AfterPreemptionOf(Vec<WorkerKey>),
}

/// New pods on a node that shuts down.
pub(crate) fn shutting_down() -> Refusal {
    Refusal { reason: "NodeShutdown".to_owned(), message: "Pod was rejected as the node is shutting down.".to_owned() }
}

/// Decides on a new pod.
pub(crate) fn admission(config: &NodeConfig, workers: &BTreeMap<WorkerKey, PodWorker>, key: WorkerKey) -> Admission {
    let Some(pod) = workers.get(&key).and_then(|worker| worker.pod.as_ref()) else { return Admission::Admitted };
    let os = pod.spec.as_ref().and_then(|spec| spec.os.as_ref()).map(|os| os.name.as_str());
    if os.is_some_and(|os| os != "linux") {
        return Admission::Refused(Refusal {
            reason: "PodOSNotSupported".to_owned(),
            message: "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        });
    }
    let shortages = shortages(config, workers, key, pod);
    let Some(first) = shortages.first() else { return Admission::Admitted };
    let is_critical = workers.get(&key).is_some_and(PodWorker::is_critical);
    if !is_critical {
        return Admission::Refused(out_of(first));
    }
    match preemption::victims(workers, key, &shortages) {
        Some(victims) => Admission::AfterPreemptionOf(victims),
        None => Admission::Refused(no_room(&shortages)),
    }
}

/// True if the pod fits beside those that are on the node.
pub(crate) fn has_room(config: &NodeConfig, workers: &BTreeMap<WorkerKey, PodWorker>, key: WorkerKey) -> bool {
    let pod = workers.get(&key).and_then(|worker| worker.pod.as_ref());
    pod.is_none_or(|pod| shortages(config, workers, key, pod).is_empty())
}

/// What the node has too little of, in the order in which Kubernetes looks.
fn shortages(
    config: &NodeConfig,
    workers: &BTreeMap<WorkerKey, PodWorker>,
    key: WorkerKey,
    pod: &Pod,
) -> Vec<Shortage> {
    if config.allocatable.is_empty() {
        return Vec::new();
    }
    let capacity = amounts(&config.allocatable);
    let others: Vec<&PodWorker> = workers
        .iter()
        .filter(|(other, worker)| **other != key && worker.takes_room())
        .map(|(_, worker)| worker)
        .collect();
    let mut found = Vec::new();
    if let Some(allowed) = capacity.get("pods") {
        let used = i64::try_from(others.len()).unwrap_or(i64::MAX);
        found.extend(Shortage::of("pods", 1, used, allowed.value()));
    }
    let requests = requests_of(pod);
    let mut used: BTreeMap<&str, i64> = BTreeMap::new();
    for other in others.iter().filter_map(|worker| worker.pod.as_ref()) {
        for (name, amount) in requests_of(other) {
            if let Some((name, _)) = requests.get_key_value(&name) {
                *used.entry(name).or_default() += units(name, amount);
            }
        }
    }
    for name in in_order(&requests) {
        let requested = requests.get(name).map_or(0, |amount| units(name, *amount));
        let has = match capacity.get(name) {
            Some(amount) => units(name, *amount),
            // Hugepages that the node does not offer cannot be had; what it says nothing of is not its own.
            None if name.starts_with("hugepages-") => 0,
            None => continue,
        };
        found.extend(Shortage::of(name, requested, used.get(name).copied().unwrap_or(0), has));
    }
    found
}

/// cpu, memory and ephemeral storage come first.
fn in_order(requests: &Amounts) -> Vec<&str> {
    let first = ["cpu", "memory", "ephemeral-storage"];
    let known = first.into_iter().filter(|name| requests.contains_key(*name));
    let rest = requests.keys().map(String::as_str).filter(|name| !first.contains(name));
    known.chain(rest).collect()
}

pub(crate) fn requests_of(pod: &Pod) -> Amounts {
    pod.spec.as_ref().map(pod_requests).unwrap_or_default()
}

/// The unit in which Kubernetes counts the resource: thousandths of a core, else whole ones.
pub(crate) fn units(name: &str, amount: api::quantity::Amount) -> i64 {
    if name == "cpu" { amount.milli_value() } else { amount.value() }
}

fn out_of(shortage: &Shortage) -> Refusal {
    let Shortage { resource, requested, used, capacity } = shortage;
    Refusal {
        reason: format!("OutOf{resource}"),
        message: format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    }
}

fn no_room(shortages: &[Shortage]) -> Refusal {
    let list: String =
        shortages.iter().map(|shortage| format!("(res: {}, q: {}), ", shortage.resource, shortage.missing())).collect();
    Refusal {
        reason: "UnexpectedAdmissionError".to_owned(),
        message: format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [{list}]"
        ),
    }
}
