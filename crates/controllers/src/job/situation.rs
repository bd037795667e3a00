//! What is the case with a Job: its pods, counted and sorted.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::pods::{
    completion_index, finish_time, has_failed, has_succeeded, index_failures, index_ignored_failures, is_active,
    is_ready, is_terminating, is_tracked, only_replaces_failed,
};
use super::policy::{Verdict, judge};
use crate::object::uid_of;

/// A Job with its pods at one moment.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) job: &'a Job,
    pub(crate) spec: &'a JobSpec,
    pub(crate) status: JobStatus,
    /// The claimed pods; those of Indexed Jobs in the order of indexes.
    pub(crate) pods: Vec<&'a Pod>,
    /// Pods that run or are to run (J-67).
    pub(crate) active: Vec<&'a Pod>,
    /// How many pods were deleted and have not ended (J-100).
    pub(crate) terminating: i32,
    /// How many active pods are ready.
    pub(crate) ready: i32,
    /// Successes, counted and to be counted.
    pub(crate) succeeded: i32,
    /// Failures, counted and to be counted; ignored ones are left out (J-82).
    pub(crate) failed: i32,
    /// Present on Indexed Jobs.
    pub(crate) indexed: Option<IndexedSituation<'a>>,
}

/// What an Indexed Job has besides.
#[derive(Debug)]
pub(crate) struct IndexedSituation<'a> {
    pub(crate) completions: u32,
    /// Indexes that have succeeded, recorded or not.
    pub(crate) succeeded: Indexes,
    /// Indexes that have failed for good, if there is a limit for each (J-89).
    pub(crate) failed: Option<Indexes>,
    /// For each index that waits for its replacement, the failed pod that is kept until then (J-88).
    pub(crate) kept: BTreeMap<u32, &'a Pod>,
}

impl<'a> Situation<'a> {
    /// Sorts and counts the pods that the Job has claimed.
    pub(crate) fn new(job: &'a Job, spec: &'a JobSpec, mut pods: Vec<&'a Pod>) -> Situation<'a> {
        let status = job.status.clone().unwrap_or_default();
        let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
        if is_indexed {
            pods.sort_by_key(|pod| (completion_index(pod), pod.metadata.name.as_deref()));
        }
        let active: Vec<&Pod> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
        let mut situation = Situation {
            job,
            spec,
            terminating: count(&pods, is_terminating),
            ready: count(&active, is_ready),
            succeeded: status.succeeded.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            status,
            pods,
            active,
            indexed: None,
        };
        situation.count();
        if is_indexed {
            let indexed = situation.look_at_indexes();
            situation.succeeded = i32::try_from(indexed.succeeded.len()).unwrap_or(i32::MAX);
            situation.indexed = Some(indexed);
        }
        situation
    }

    /// Adds to the counters what has ended and is not in them.
    fn count(&mut self) {
        let (succeeded, failed) = self.uncounted();
        let (mut successes, mut failures) = (succeeded.len(), failed.len());
        for pod in self.pods.iter().filter(|pod| self.is_countable(pod)) {
            let uid = uid_of(&pod.metadata);
            if has_succeeded(pod) && !succeeded.contains(uid) && !failed.contains(uid) {
                successes += 1;
            } else if has_failed(pod, self.job) && !failed.contains(uid) && judge(self.job, pod).counts() {
                failures += 1;
            }
        }
        self.succeeded = self.succeeded.saturating_add(to_i32(successes));
        self.failed = self.failed.saturating_add(to_i32(failures));
    }

    /// The uids that `status.uncountedTerminatedPods` lists: succeeded, failed.
    pub(crate) fn uncounted(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let uncounted = self.status.uncounted_terminated_pods.clone();
        let uncounted = uncounted.unwrap_or_default();
        (uncounted.succeeded.into_iter().flatten().collect(), uncounted.failed.into_iter().flatten().collect())
    }

    /// True for a pod that is yet to be counted: it has the finalizer and, in an Indexed Job, a valid index.
    pub(crate) fn is_countable(&self, pod: &Pod) -> bool {
        is_tracked(pod) && (!self.is_indexed() || self.valid_index(pod).is_some())
    }

    /// True for Indexed Jobs.
    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    /// The pod's index, if it is below the completions.
    pub(crate) fn valid_index(&self, pod: &Pod) -> Option<u32> {
        completion_index(pod).filter(|index| *index < self.completions())
    }

    /// `completions`, 0 if absent.
    pub(crate) fn completions(&self) -> u32 {
        let completions = self.spec.completions.unwrap_or(0);
        u32::try_from(completions).unwrap_or(0)
    }

    /// True if `suspend` is set.
    pub(crate) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// True if a terminating pod holds its place until it has ended (J-99).
    pub(crate) fn only_replaces_failed(&self) -> bool {
        only_replaces_failed(self.job)
    }

    /// The stored condition of this type, if it is True.
    pub(crate) fn true_condition(&self, type_: &str) -> Option<&JobCondition> {
        let conditions = self.status.conditions.iter().flatten();
        let mut of_type = conditions.filter(|condition| condition.type_ == type_);
        of_type.find(|condition| condition.status == "True")
    }

    /// What the failure policy says of a pod.
    pub(crate) fn judge(&self, pod: &Pod) -> Verdict {
        judge(self.job, pod)
    }

    /// `status.startTime`.
    pub(crate) fn start_time(&self) -> Option<Timestamp> {
        self.status.start_time.as_ref().map(|time| time.0)
    }

    fn look_at_indexes(&self) -> IndexedSituation<'a> {
        let completions = self.completions();
        let recorded = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut succeeded = Indexes::parse(recorded, completions);
        let (_, uncounted_failed) = self.uncounted();
        for pod in self.pods.iter().filter(|pod| has_succeeded(pod)) {
            // A pod that was counted as failed while it was being deleted stays a failure.
            let is_failure = uncounted_failed.contains(uid_of(&pod.metadata));
            if self.is_countable(pod) && !is_failure {
                succeeded.extend(&self.valid_index(pod).into_iter().collect());
            }
        }
        let limit = self.spec.backoff_limit_per_index;
        let failed = limit.map(|limit| self.failed_indexes(limit));
        let kept = match &failed {
            Some(failed) => self.kept_pods(&succeeded, failed),
            None => BTreeMap::new(),
        };
        IndexedSituation { completions, succeeded, failed, kept }
    }

    /// J-89: an index is failed when its pod failed at the limit, or by a FailIndex rule.
    fn failed_indexes(&self, limit: i32) -> Indexes {
        let recorded = self.status.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::parse(recorded, self.completions());
        // Once the end is recorded, pods fail because they are deleted, which says nothing of their indexes.
        let has_ended =
            ["FailureTarget", "SuccessCriteriaMet"].into_iter().any(|type_| self.true_condition(type_).is_some());
        for pod in self.pods.iter().filter(|_| !has_ended) {
            if self.is_countable(pod) && has_failed(pod, self.job) {
                let is_final = match self.judge(pod) {
                    Verdict::FailIndex => true,
                    Verdict::Ignore => false,
                    Verdict::Count | Verdict::FailJob(_) => index_failures(pod) >= limit,
                };
                failed.extend(&self.valid_index(pod).filter(|_| is_final).into_iter().collect());
            }
        }
        failed
    }

    /// J-88: the newest failed pod of each index that is to be tried again and has no active pod yet.
    fn kept_pods(&self, succeeded: &Indexes, failed: &Indexes) -> BTreeMap<u32, &'a Pod> {
        let active: Indexes = self.active_indexes();
        let mut kept: BTreeMap<u32, &'a Pod> = BTreeMap::new();
        for pod in self.pods.iter().copied() {
            if !self.is_countable(pod) || !has_failed(pod, self.job) {
                continue;
            }
            let Some(index) = self.valid_index(pod) else {
                continue;
            };
            if succeeded.contains(index) || failed.contains(index) || active.contains(index) {
                continue;
            }
            let rank = |pod: &Pod| (index_attempts(pod), finish_time(pod));
            let newest = kept.entry(index).or_insert(pod);
            if rank(pod) > rank(newest) {
                *newest = pod;
            }
        }
        kept
    }

    /// The indexes that have an active pod.
    pub(crate) fn active_indexes(&self) -> Indexes {
        let active = self.active.iter();
        active.filter_map(|pod| completion_index(pod)).collect()
    }
}

/// The failures of the pod's index before this pod, ignored ones included.
pub(crate) fn index_attempts(pod: &Pod) -> u32 {
    let attempts = index_failures(pod).saturating_add(index_ignored_failures(pod));
    u32::try_from(attempts).unwrap_or(0)
}

fn count(pods: &[&Pod], is_one: impl Fn(&Pod) -> bool) -> i32 {
    to_i32(pods.iter().filter(|pod| is_one(pod)).count())
}

pub(crate) fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
