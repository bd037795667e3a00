//! The nodes as the scheduler sees them: each with the pods that take room on it.

use std::collections::BTreeMap;

use api::quantity::Amount;
use api::resources::{Amounts, amounts, pod_requests};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::filters::Misfit;
use crate::cache::Cache;
use crate::job::is_terminal;
use crate::object::{name_of, uid_of};

/// All nodes, and the cache for what else there is to know.
#[derive(Clone, Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) candidates: Vec<Candidate<'a>>,
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a Node,
    /// The pods that take room on it, those that wait for room made for them included.
    pub(crate) pods: Vec<&'a Pod>,
    used: Amounts,
}

impl<'a> Cluster<'a> {
    /// The nodes in the order of names; pods that have ended take no room.
    pub(crate) fn new(cache: &'a Cache) -> Cluster<'a> {
        let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in cache.all_pods().filter(|pod| !is_terminal(pod)) {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            pods.entry(node.unwrap_or_default()).or_default().push(pod);
        }
        let candidates = cache.nodes().map(|node| {
            let pods = pods.remove(name_of(&node.metadata)).unwrap_or_default();
            Candidate::new(node, pods)
        });
        Cluster { cache, candidates: candidates.collect() }
    }

    /// The same nodes, but one of them without some of its pods.
    pub(crate) fn without(&self, place: usize, removed: &[&Pod]) -> Cluster<'a> {
        let mut cluster = self.clone();
        if let Some(candidate) = cluster.candidates.get_mut(place) {
            let is_removed = |pod: &&Pod| removed.iter().any(|one| uid_of(&one.metadata) == uid_of(&pod.metadata));
            let pods = candidate.pods.iter().copied().filter(|pod| !is_removed(pod)).collect();
            *candidate = Candidate::new(candidate.node, pods);
        }
        cluster
    }
}

impl<'a> Candidate<'a> {
    fn new(node: &'a Node, pods: Vec<&'a Pod>) -> Candidate<'a> {
        let mut candidate = Candidate { node, pods: Vec::new(), used: Amounts::new() };
        for pod in pods {
            candidate.add(pod);
        }
        candidate
    }

    /// Gives the pod its room.
    pub(crate) fn add(&mut self, pod: &'a Pod) {
        for (name, amount) in requests(pod) {
            let sum = self.used.entry(name).or_insert(Amount::ZERO);
            *sum = sum.plus(amount);
        }
        self.pods.push(pod);
    }

    /// What the pod lacks on the node.
    pub(crate) fn lacks(&self, pod: &Pod) -> Option<Misfit> {
        let allocatable = self.node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        // A node that has not said yet what it has is not refused for it.
        let allocatable = allocatable.map(amounts).filter(|all| !all.is_empty())?;
        let mut misfit = Misfit { reasons: Vec::new(), may_be_resolved: true };
        let pods_max = allocatable.get("pods").copied();
        let pods = i64::try_from(self.pods.len()).unwrap_or(i64::MAX).saturating_add(1);
        if pods_max.is_some_and(|max| pods > max.value()) {
            misfit.reasons.push("Too many pods".to_owned());
        }
        for (name, amount) in requests(pod).into_iter().filter(|(_, amount)| !amount.is_zero()) {
            let whole = allocatable.get(&name).copied().unwrap_or(Amount::ZERO);
            let used = self.used.get(&name).copied().unwrap_or(Amount::ZERO);
            if amount.plus(used) > whole {
                misfit.reasons.push(format!("Insufficient {name}"));
                misfit.may_be_resolved &= amount <= whole;
            }
        }
        (!misfit.reasons.is_empty()).then_some(misfit)
    }
}

fn requests(pod: &Pod) -> Amounts {
    pod.spec.as_ref().map(pod_requests).unwrap_or_default()
}
