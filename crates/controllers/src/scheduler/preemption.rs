//! Room for a pod by pods of lower priority that go (default preemption).
//!
//! Disruption budgets are not looked at.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use super::cluster::Cluster;
use super::filters::Misfit;
use super::{misfit, priority};
use crate::object::{is_being_deleted, name_of};

/// The reason of the condition DisruptionTarget of a pod that goes to make room.
pub(crate) const REASON: &str = "PreemptionByScheduler";

/// What preemption can do for a pod.
#[derive(Debug)]
pub(crate) enum Preemption<'a> {
    /// These pods go from the node, the most important first.
    Victims { node_name: String, victims: Vec<&'a Pod> },
    /// Pods go from the node already.
    Waiting,
    /// Nothing, for this reason.
    None(String),
}

/// Looks for the node where the least is lost.
pub(crate) fn preempt<'a>(pod: &'a Pod, misfits: &[Misfit], cluster: &Cluster<'a>) -> Preemption<'a> {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Preemption::None("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if is_waiting(pod, misfits, cluster) {
        return Preemption::Waiting;
    }
    let mut found: Vec<(String, Vec<&Pod>)> = Vec::new();
    let mut verdicts = Vec::new();
    for (place, misfit) in misfits.iter().enumerate() {
        let Some(candidate) = cluster.candidates.get(place) else {
            continue;
        };
        if !misfit.may_be_resolved {
            verdicts.extend(Misfit::for_good("Preemption is not helpful for scheduling"));
            continue;
        }
        match victims(pod, place, cluster) {
            Ok(victims) => found.push((name_of(&candidate.node.metadata).to_owned(), victims)),
            Err(misfit) => verdicts.push(misfit),
        }
    }
    found.sort_by_key(|(node_name, victims)| {
        let priorities = victims.iter().map(|victim| i64::from(priority(victim)) - i64::from(i32::MIN));
        (victims.first().map(|victim| priority(victim)), priorities.sum::<i64>(), victims.len(), node_name.clone())
    });
    match found.into_iter().next() {
        Some((node_name, victims)) => Preemption::Victims { node_name, victims },
        None => Preemption::None(super::available(&verdicts)),
    }
}

/// True while pods that were chosen for this one go from the node that it was promised.
fn is_waiting(pod: &Pod, misfits: &[Misfit], cluster: &Cluster<'_>) -> bool {
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    let Some(nominated) = nominated.filter(|name| !name.is_empty()) else {
        return false;
    };
    let places = cluster.candidates.iter().zip(misfits);
    let mut places = places.filter(|(candidate, _)| name_of(&candidate.node.metadata) == nominated);
    places.any(|(candidate, misfit)| {
        let mut going = candidate.pods.iter().filter(|other| is_being_deleted(&other.metadata) && was_chosen(other));
        misfit.may_be_resolved && going.any(|other| priority(other) < priority(pod))
    })
}

/// True for a pod that was told to go to make room.
pub(crate) fn was_chosen(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    conditions
        .any(|one| one.type_ == "DisruptionTarget" && one.status == "True" && one.reason.as_deref() == Some(REASON))
}

/// The fewest and least important pods without which the pod fits on the node.
fn victims<'a>(pod: &'a Pod, place: usize, cluster: &Cluster<'a>) -> Result<Vec<&'a Pod>, Misfit> {
    let pods = cluster.candidates.get(place).map(|candidate| candidate.pods.clone()).unwrap_or_default();
    let mut lower: Vec<&Pod> = pods.into_iter().filter(|other| priority(other) < priority(pod)).collect();
    let none = "No preemption victims found for incoming pod";
    if lower.is_empty() {
        return Err(Misfit { reasons: vec![none.to_owned()], may_be_resolved: false });
    }
    if let Some(misfit) = misfit(pod, place, &cluster.without(place, &lower)) {
        return Err(misfit);
    }
    lower.sort_by_key(|one| (Reverse(priority(one)), started(one), one.metadata.name.clone()));
    // The most important are let off first, if the pod still fits with them.
    let mut victims = lower.clone();
    for one in lower {
        let without_one: Vec<&Pod> =
            victims.iter().copied().filter(|other| other.metadata.uid != one.metadata.uid).collect();
        if misfit(pod, place, &cluster.without(place, &without_one)).is_none() {
            victims = without_one;
        }
    }
    Ok(victims)
}

/// When the pod started; one that has not started yet counts as the newest.
fn started(pod: &Pod) -> Timestamp {
    let start = pod.status.as_ref().and_then(|status| status.start_time.as_ref());
    start.map_or(Timestamp::MAX, |time| time.0)
}

/// The condition that a victim gets before it is deleted.
pub(crate) fn condition(victim: &Pod, now: Timestamp) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some("default-scheduler: preempting to accommodate a higher priority pod".to_owned()),
        last_transition_time: Some(crate::time::api_time(now)),
        observed_generation: victim.metadata.generation,
        ..PodCondition::default()
    }
}
