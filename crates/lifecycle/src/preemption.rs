//! Which pods a critical pod displaces when the node has too little for it (L-617).
//!
//! As few and as cheap as possible: best-effort pods before burstable before guaranteed ones, of each the one that comes nearest to what is missing.

use std::collections::BTreeMap;

use api::qos::{QosClass, qos_class};

use crate::admission::{requests_of, units};
use crate::outbox::WorkerKey;
use crate::pod::PodWorker;
use crate::pod::termination::Ending;

const MESSAGE: &str = "Preempted in order to admit critical pod";

/// A resource that a new pod wants more of than is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) resource: String,
    pub(crate) requested: i64,
    pub(crate) used: i64,
    pub(crate) capacity: i64,
}

impl Shortage {
    pub(crate) fn of(resource: &str, requested: i64, used: i64, capacity: i64) -> Option<Self> {
        let is_short = requested > 0 && requested > capacity.saturating_sub(used);
        is_short.then(|| Shortage { resource: resource.to_owned(), requested, used, capacity })
    }

    pub(crate) fn missing(&self) -> i64 {
        self.requested.saturating_sub(self.capacity.saturating_sub(self.used))
    }
}

/// What is still missing, by resource.
type Missing = BTreeMap<String, i64>;

/// A pod that could be displaced.
struct Candidate {
    key: WorkerKey,
    qos: QosClass,
    requests: BTreeMap<String, i64>,
}

impl Candidate {
    fn request(&self, resource: &str) -> i64 {
        if resource == "pods" { 1 } else { self.requests.get(resource).copied().unwrap_or(0) }
    }
}

/// The pods to displace; `None` if all of them would not be enough.
pub(crate) fn victims(
    workers: &BTreeMap<WorkerKey, PodWorker>,
    preemptor: WorkerKey,
    shortages: &[Shortage],
) -> Option<Vec<WorkerKey>> {
    let missing: Missing = shortages.iter().map(|shortage| (shortage.resource.clone(), shortage.missing())).collect();
    let by = workers.get(&preemptor)?;
    let candidates: Vec<Candidate> = workers
        .iter()
        .filter(|(key, worker)| **key != preemptor && worker.takes_room() && is_preemptable(by, worker))
        .map(|(key, worker)| candidate(*key, worker))
        .collect();
    let of =
        |qos: QosClass| -> Vec<&Candidate> { candidates.iter().filter(|candidate| candidate.qos == qos).collect() };
    let (best_effort, burstable, guaranteed) =
        (of(QosClass::BestEffort), of(QosClass::Burstable), of(QosClass::Guaranteed));
    // From the dearest class only what the cheaper ones cannot give; then the same of the next.
    let cheaper: Vec<&Candidate> = best_effort.iter().chain(&burstable).copied().collect();
    let from_guaranteed = nearest(guaranteed, left(&missing, &cheaper))?;
    let others: Vec<&Candidate> = best_effort.iter().chain(&from_guaranteed).copied().collect();
    let from_burstable = nearest(burstable, left(&missing, &others))?;
    let others: Vec<&Candidate> = from_burstable.iter().chain(&from_guaranteed).copied().collect();
    let from_best_effort = nearest(best_effort, left(&missing, &others))?;
    let all = from_best_effort.into_iter().chain(from_burstable).chain(from_guaranteed);
    Some(all.map(|candidate| candidate.key).collect())
}

fn candidate(key: WorkerKey, worker: &PodWorker) -> Candidate {
    let pod = worker.pod.as_ref();
    let requests = pod.map(|pod| requests_of(pod)).unwrap_or_default();
    Candidate {
        key,
        qos: pod.map_or(QosClass::BestEffort, |pod| qos_class(pod)),
        requests: requests.into_iter().map(|(name, amount)| (name.clone(), units(&name, amount))).collect(),
    }
}

fn is_preemptable(by: &PodWorker, worker: &PodWorker) -> bool {
    (by.is_critical() && !worker.is_critical())
        || by.priority().zip(worker.priority()).is_some_and(|(one, other)| one > other)
}

/// What is missing after the pods are gone.
fn left(missing: &Missing, gone: &[&Candidate]) -> Missing {
    let still = missing.iter().map(|(resource, quantity)| {
        let freed: i64 = gone.iter().map(|candidate| candidate.request(resource)).sum();
        (resource.clone(), quantity.saturating_sub(freed))
    });
    still.filter(|(_, quantity)| *quantity > 0).collect()
}

/// One pod after another, each the nearest to what is missing, until nothing is.
fn nearest(mut candidates: Vec<&Candidate>, mut missing: Missing) -> Option<Vec<&Candidate>> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let best = (0..candidates.len()).min_by(|one, other| {
            let key = |index: &usize| {
                candidates.get(*index).map(|candidate| (distance(&missing, candidate), size(candidate)))
            };
            key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
        })?;
        let candidate = candidates.swap_remove(best);
        missing = left(&missing, &[candidate]);
        chosen.push(candidate);
    }
    Some(chosen)
}

/// How much of what is missing the pod would leave missing: 0 if it gives all.
fn distance(missing: &Missing, candidate: &Candidate) -> f64 {
    missing
        .iter()
        .map(|(resource, quantity)| {
            let rest = quantity.saturating_sub(candidate.request(resource)).max(0);
            (rest as f64 / *quantity as f64).powi(2)
        })
        .sum()
}

fn size(candidate: &Candidate) -> (i64, i64) {
    (candidate.request("memory"), candidate.request("cpu"))
}

/// How a displaced pod ends.
pub(crate) fn ending() -> Ending {
    Ending {
        reason: "Preempting".to_owned(),
        message: MESSAGE.to_owned(),
        disruption: Some("Pod was preempted by Kubelet to accommodate a critical pod.".to_owned()),
        is_rejection: false,
    }
}
