//! Why a node is not for a pod because of other pods: affinity, anti-affinity and topology spread.

use std::collections::{BTreeMap, BTreeSet};

use api::selector::LabelSelector;
use k8s_openapi::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1;

use super::cluster::{Candidate, Cluster};
use super::filters::{Misfit, node_affinity};
use crate::cache::Cache;
use crate::object::{Kind, is_being_deleted, name_of, namespace_of};

/// The pods that the pod wants near, or far, must be so.
pub(crate) fn pod_affinity(pod: &Pod, spec: &PodSpec, node: &Node, cluster: &Cluster<'_>) -> Option<Misfit> {
    let affinity = spec.affinity.as_ref();
    if !wanted_are_near(pod, wanted(affinity), node, cluster) {
        return Misfit::for_good("node(s) didn't match pod affinity rules");
    }
    let unwanted = unwanted(affinity);
    if unwanted.iter().any(|term| is_near(&|other| selects(term, pod, other, cluster.cache), term, node, cluster)) {
        return Misfit::for_now("node(s) didn't match pod anti-affinity rules");
    }
    if is_unwanted(pod, node, cluster) {
        return Misfit::for_now("node(s) didn't satisfy existing pods anti-affinity rules");
    }
    None
}

fn wanted(affinity: Option<&Affinity>) -> &[PodAffinityTerm] {
    let affinity = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
    terms.unwrap_or_default()
}

fn unwanted(affinity: Option<&Affinity>) -> &[PodAffinityTerm] {
    let affinity = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = affinity.and_then(|one| one.required_during_scheduling_ignored_during_execution.as_deref());
    terms.unwrap_or_default()
}

/// True if a pod that meets all terms is near by each of them; the first of a group that wants its own kind needs none.
fn wanted_are_near(pod: &Pod, terms: &[PodAffinityTerm], node: &Node, cluster: &Cluster<'_>) -> bool {
    if terms.is_empty() {
        return true;
    }
    if terms.iter().any(|term| domain(node, &term.topology_key).is_none()) {
        return false;
    }
    let meets_all = |other: &Pod| terms.iter().all(|term| selects(term, pod, other, cluster.cache));
    if terms.iter().all(|term| is_near(&meets_all, term, node, cluster)) {
        return true;
    }
    let mut others = cluster.candidates.iter().flat_map(|candidate| &candidate.pods);
    !others.any(|other| meets_all(other)) && meets_all(pod)
}

/// True if a pod on a node of the same domain forbids this one.
fn is_unwanted(pod: &Pod, node: &Node, cluster: &Cluster<'_>) -> bool {
    cluster.candidates.iter().any(|candidate| {
        candidate.pods.iter().any(|other| {
            let affinity = other.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
            unwanted(affinity).iter().any(|term| {
                is_same_domain(node, candidate.node, &term.topology_key) && selects(term, other, pod, cluster.cache)
            })
        })
    })
}

/// True if a pod of the kind is on a node of the same domain.
fn is_near(is_one: &dyn Fn(&Pod) -> bool, term: &PodAffinityTerm, node: &Node, cluster: &Cluster<'_>) -> bool {
    let near = cluster.candidates.iter().filter(|one| is_same_domain(node, one.node, &term.topology_key));
    near.flat_map(|candidate| &candidate.pods).any(|other| is_one(other))
}

/// True if a term of `owner` means `other`.
fn selects(term: &PodAffinityTerm, owner: &Pod, other: &Pod, cache: &Cache) -> bool {
    let namespace = namespace_of(&other.metadata);
    let namespaces = term.namespaces.as_deref().unwrap_or_default();
    let in_namespace = match &term.namespace_selector {
        None if namespaces.is_empty() => namespace == namespace_of(&owner.metadata),
        selector => {
            let labels = cache.find(&Kind::NAMESPACE, "", namespace).and_then(|one| one.metadata().labels.clone());
            let by_selector = || matches(selector.as_ref(), &labels.unwrap_or_default());
            namespaces.iter().any(|one| one == namespace) || by_selector()
        }
    };
    in_namespace && matches_pod(term.label_selector.as_ref(), other)
}

fn matches_pod(selector: Option<&v1::LabelSelector>, pod: &Pod) -> bool {
    matches(selector, pod.metadata.labels.as_ref().unwrap_or(&BTreeMap::new()))
}

/// An absent selector selects nothing, an empty one everything.
fn matches(selector: Option<&v1::LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    selector.is_some() && LabelSelector::from_spec(selector).is_ok_and(|selector| selector.matches(labels))
}

fn domain<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn is_same_domain(one: &Node, other: &Node, key: &str) -> bool {
    domain(one, key).is_some_and(|value| domain(other, key) == Some(value))
}

/// Pods that are to be spread must not differ in number by more than they may.
pub(crate) fn topology_spread(pod: &Pod, spec: &PodSpec, node: &Node, cluster: &Cluster<'_>) -> Option<Misfit> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    let hard: Vec<_> = constraints.filter(|one| one.when_unsatisfiable == "DoNotSchedule").collect();
    for constraint in hard {
        let Some(own) = domain(node, &constraint.topology_key) else {
            let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
            return Misfit::for_good(reason);
        };
        if skew(pod, spec, constraint, own, cluster) > i64::from(constraint.max_skew) {
            return Misfit::for_now("node(s) didn't match pod topology spread constraints");
        }
    }
    None
}

/// By how much the domain would exceed the emptiest one if the pod went there.
fn skew(pod: &Pod, spec: &PodSpec, constraint: &TopologySpreadConstraint, own: &str, cluster: &Cluster<'_>) -> i64 {
    let selector = constraint.label_selector.as_ref();
    let is_counted = |other: &&&Pod| {
        namespace_of(&other.metadata) == namespace_of(&pod.metadata)
            && !is_being_deleted(&other.metadata)
            && matches_pod(selector, other)
    };
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let eligible = |one: &&Candidate<'_>| node_affinity(spec, one.node).is_none();
    for candidate in cluster.candidates.iter().filter(eligible) {
        if let Some(value) = domain(candidate.node, &constraint.topology_key)
            && seen.insert(name_of(&candidate.node.metadata))
        {
            let pods = candidate.pods.iter().filter(is_counted).count();
            *counts.entry(value).or_default() += i64::try_from(pods).unwrap_or(i64::MAX);
        }
    }
    let domains = i32::try_from(counts.len()).unwrap_or(i32::MAX);
    let fewest = counts.values().min().copied().unwrap_or(0);
    let fewest = if domains < constraint.min_domains.unwrap_or(1) { 0 } else { fewest };
    let here = counts.get(own).copied().unwrap_or(0);
    here + i64::from(matches_pod(selector, pod)) - fewest
}
