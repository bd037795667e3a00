//! How many pods a Job should have, and which ones come or go (J-65 to J-69, J-85 to J-90, J-99, J-103).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::backoff::delay;
use super::pods::{
    TRACKING_FINALIZER, completion_index, deletion_order, finish_time, is_terminal, is_terminating, is_tracked,
};
use super::situation::{Situation, index_attempts};
use super::template::{indexed_pod, plain_pod};
use super::{JobMemory, pod_target};
use crate::config::JobConfig;
use crate::object::uid_of;
use crate::write::{Action, MetadataChange, Propagation};

/// What to do about the pods.
#[derive(Debug)]
pub(crate) enum Management {
    /// Nothing.
    Rest,
    /// Nothing before this time.
    Wait(Timestamp),
    /// These writes.
    Write(Vec<Action>),
}

/// Brings the number of active pods to what it should be; either creates or deletes (J-67).
pub(crate) fn manage(
    situation: &Situation<'_>,
    memory: &mut JobMemory,
    config: &JobConfig,
    now: Timestamp,
) -> Management {
    // An active pod without the finalizer is one whose removal was begun: it is never counted, so it goes.
    let doomed = situation.active.iter().filter(|pod| !is_tracked(pod));
    let mut writes: Vec<Action> = doomed.map(|pod| delete(pod)).collect();
    if writes.is_empty() {
        let surplus = surplus(situation);
        // J-68: the finalizer goes first, so that the pod is never counted as failed.
        writes = surplus.into_iter().map(release).collect();
    }
    writes.truncate(config.pods_per_step);
    if !writes.is_empty() {
        memory.batch = 1;
        return Management::Write(writes);
    }
    if situation.is_suspended() {
        return Management::Rest;
    }
    create(situation, memory, config, now)
}

/// How many pods should be active (J-66).
fn wanted(situation: &Situation<'_>) -> usize {
    let parallelism = situation.spec.parallelism.unwrap_or(1);
    let wanted = match situation.spec.completions {
        _ if situation.is_suspended() => 0,
        None if situation.succeeded > 0 => return situation.active.len(),
        None => parallelism,
        Some(completions) => completions.saturating_sub(situation.succeeded).min(parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The active pods that are too many: for Indexed Jobs first those without an index of their own (J-68).
fn surplus<'a>(situation: &Situation<'a>) -> Vec<&'a Pod> {
    let mut pods = situation.active.clone();
    pods.sort_by(|one, other| deletion_order(one, other));
    let too_many = pods.len().saturating_sub(wanted(situation));
    let mut surplus = Vec::new();
    if situation.is_indexed() {
        let (extra, rest) = split_by_index(situation, pods);
        surplus = extra;
        pods = rest;
    }
    let missing = too_many.saturating_sub(surplus.len());
    surplus.extend(pods.into_iter().take(missing));
    surplus
}

/// Splits pods, in the order of deletion, into those without a valid index or with one that another pod keeps, and the rest.
fn split_by_index<'a>(situation: &Situation<'a>, pods: Vec<&'a Pod>) -> (Vec<&'a Pod>, Vec<&'a Pod>) {
    let mut keeper: BTreeMap<u32, &str> = BTreeMap::new();
    for pod in &pods {
        if let Some(index) = situation.valid_index(pod) {
            // The last in the order of deletion keeps the index.
            keeper.insert(index, uid_of(&pod.metadata));
        }
    }
    let keepers: BTreeSet<&str> = keeper.into_values().collect();
    pods.into_iter().partition(|pod| !keepers.contains(uid_of(&pod.metadata)))
}

fn create(situation: &Situation<'_>, memory: &mut JobMemory, config: &JobConfig, now: Timestamp) -> Management {
    let mut held = situation.active.len();
    if situation.only_replaces_failed() {
        held += usize::try_from(situation.terminating).unwrap_or(0);
    }
    let missing = wanted(situation).saturating_sub(held);
    let missing = missing.min(config.pods_per_step);
    if missing == 0 {
        memory.batch = 1;
        return Management::Rest;
    }
    let per_index = situation.spec.backoff_limit_per_index.is_some();
    if !per_index && let Some(ready_at) = memory.ready_at(config).filter(|at| *at > now) {
        return Management::Wait(ready_at);
    }
    // J-65: a batch at a time, the next one twice as large.
    let batch = memory.batch;
    memory.batch = batch.saturating_mul(2);
    let pods = if situation.indexed.is_some() {
        match indexed_pods(situation, missing, config, now) {
            Ok(pods) => pods.into_iter().take(batch).map(|make| make()).collect(),
            Err(ready_at) => return Management::Wait(ready_at),
        }
    } else {
        vec![plain_pod(situation.job, situation.spec); missing.min(batch)]
    };
    if pods.is_empty() {
        return Management::Rest;
    }
    let writes = pods.into_iter().map(|pod| Action::Create(pod.into()));
    Management::Write(writes.collect())
}

/// The pods of the lowest indexes that have none (J-69), or the time when the first of them may be tried again (J-90).
///
/// An index that waits for its back-off takes the place of a pod: the next higher index is not started instead.
fn indexed_pods<'a>(
    situation: &'a Situation<'_>,
    missing: usize,
    config: &JobConfig,
    now: Timestamp,
) -> Result<Vec<impl FnOnce() -> Pod + 'a>, Timestamp> {
    let Some(indexed) = &situation.indexed else {
        return Ok(Vec::new());
    };
    let mut taken = indexed.succeeded.clone();
    taken.extend(&situation.active_indexes());
    if let Some(failed) = &indexed.failed {
        taken.extend(failed);
    }
    if situation.only_replaces_failed() {
        let terminating = situation.pods.iter().filter(|pod| is_terminating(pod));
        taken.extend(&terminating.filter_map(|pod| completion_index(pod)).collect());
    }
    let mut ready = Vec::new();
    let mut nearest: Option<Timestamp> = None;
    for index in taken.first_missing(missing, indexed.completions) {
        let replaced = indexed.kept.get(&index).copied();
        let ready_at = replaced.map(|pod| index_ready_at(pod, config));
        match ready_at.filter(|at| *at > now) {
            Some(at) => nearest = Some(nearest.map_or(at, |nearest| nearest.min(at))),
            None => ready.push(move || indexed_pod(situation.job, situation.spec, index, replaced)),
        }
    }
    match nearest {
        Some(at) if ready.is_empty() => Err(at),
        _ => Ok(ready),
    }
}

/// J-90: when an index may be tried again after its pod failed.
fn index_ready_at(failed: &Pod, config: &JobConfig) -> Timestamp {
    let failures = index_attempts(failed).saturating_add(1);
    let initial = config.failure_back_off_initial;
    let wait = delay(failures, initial, config.failure_back_off_max);
    crate::time::after(finish_time(failed), wait)
}

/// Takes the tracking finalizer from a pod.
///
/// If the pod is active, only from the very version that was seen: one that has ended in the meantime must be counted.
pub(crate) fn release(pod: &Pod) -> Action {
    let version = pod.metadata.resource_version.clone();
    Action::EditMetadata {
        target: pod_target(pod),
        if_version: version.filter(|_| !is_terminal(pod)),
        changes: vec![MetadataChange::RemoveFinalizer(TRACKING_FINALIZER.to_owned())],
    }
}

/// Deletes a pod with its own grace period.
pub(crate) fn delete(pod: &Pod) -> Action {
    Action::Delete {
        target: pod_target(pod),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    }
}
