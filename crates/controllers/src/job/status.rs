//! The status of a Job, and which pods may lose their finalizer under it (J-76 to J-81, J-100, J-103 to J-110).
//!
//! Counting takes three writes, so that a crash between any two of them neither loses nor doubles a pod:
//! the uid is noted in the status, the finalizer is taken from the pod, the uid is moved into the counter.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::decision::{Decision, End};
use super::indexes::Indexes;
use super::pods::{has_failed, has_succeeded, is_active, is_tracked};
use super::situation::{Situation, to_i32};
use crate::object::{is_being_deleted, uid_of};
use crate::time::api_time;

/// The status as it should be, and what follows once it is stored.
#[derive(Debug)]
pub(crate) struct Account<'a> {
    pub(crate) status: JobStatus,
    /// Pods whose end this status has in it, or that are not to be counted: they may lose the finalizer.
    pub(crate) releasable: Vec<&'a Pod>,
    /// The condition Suspended changed to this value.
    pub(crate) suspended: Option<bool>,
    /// The Job ends with this status.
    pub(crate) is_final: bool,
}

/// Draws up the status.
///
/// `pods_are_managed` says that nothing stands against what the Job wants of its pods: only then is it said to be suspended or resumed.
pub(crate) fn account<'a>(
    situation: &Situation<'a>,
    decision: Option<&Decision>,
    pods_are_managed: bool,
    uncounted_max: usize,
    now: Timestamp,
) -> Account<'a> {
    let mut status = situation.status.clone();
    if status.start_time.is_none() && !situation.is_suspended() {
        status.start_time = Some(api_time(now));
    }
    let mut tally = Tally::new(situation);
    tally.move_to_counters(&mut status);
    let releasable = tally.take_in(situation, decision, uncounted_max);
    tally.write(situation, &mut status);
    status.active = Some(to_i32(situation.active.len())).filter(|active| *active != 0);
    status.ready = Some(situation.ready);
    status.terminating = Some(situation.terminating);
    let mut account = Account { status, releasable, suspended: None, is_final: false };
    match decision {
        Some(decision) => account.end(situation, decision, now),
        None if pods_are_managed => account.suspend_or_resume(situation, now),
        None => {}
    }
    account
}

impl Account<'_> {
    /// Sets the interim condition, or the final one when the interim one is stored and nothing is left to count or to wait for.
    fn end(&mut self, situation: &Situation<'_>, decision: &Decision, now: Timestamp) {
        let (reason, message) = (decision.reason.as_str(), decision.message.as_str());
        if !decision.is_recorded {
            let type_ = decision.end.interim_condition();
            set_condition(&mut self.status, type_, true, reason, message, now);
            return;
        }
        let nothing_uncounted =
            self.status.uncounted_terminated_pods.as_ref() == Some(&UncountedTerminatedPods::default());
        let is_settled = self.releasable.is_empty()
            && nothing_uncounted
            && situation.active.is_empty()
            && situation.terminating == 0;
        if !is_settled {
            return;
        }
        let type_ = decision.end.final_condition();
        set_condition(&mut self.status, type_, true, reason, message, now);
        if decision.end == End::Success {
            self.status.completion_time = Some(api_time(now));
        }
        self.is_final = true;
    }

    /// J-103, J-104.
    fn suspend_or_resume(&mut self, situation: &Situation<'_>, now: Timestamp) {
        let suspended = situation.is_suspended();
        let (reason, message) =
            if suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
        if set_condition(&mut self.status, "Suspended", suspended, reason, message, now) {
            self.suspended = Some(suspended);
            self.status.start_time = (!suspended).then(|| api_time(now));
        }
    }
}

/// Sets a condition; says whether the list is different after it. What was never there is not set to False (J-104).
fn set_condition(
    status: &mut JobStatus,
    type_: &str,
    value: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let condition = JobCondition {
        type_: type_.to_owned(),
        status: if value { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(api_time(now)),
        last_transition_time: Some(api_time(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    let changed = match conditions.iter_mut().find(|one| one.type_ == type_) {
        Some(one) => {
            let same =
                one.status == condition.status && one.reason == condition.reason && one.message == condition.message;
            if !same {
                *one = condition;
            }
            !same
        }
        None if value => {
            conditions.push(condition);
            true
        }
        None => false,
    };
    if conditions.is_empty() {
        status.conditions = None;
    }
    changed
}

/// What has ended and where it is noted.
#[derive(Debug)]
struct Tally {
    /// Uids of pods that still have the finalizer.
    tracked: BTreeSet<String>,
    succeeded: Vec<String>,
    failed: Vec<String>,
    completed_indexes: Indexes,
}

impl Tally {
    fn new(situation: &Situation<'_>) -> Tally {
        let tracked = situation.pods.iter().filter(|pod| is_tracked(pod));
        let tracked = tracked.map(|pod| uid_of(&pod.metadata).to_owned());
        let stored = &situation.status;
        let uncounted = stored.uncounted_terminated_pods.clone().unwrap_or_default();
        let completed = stored.completed_indexes.as_deref().unwrap_or_default();
        Tally {
            tracked: tracked.collect(),
            succeeded: uncounted.succeeded.unwrap_or_default(),
            failed: uncounted.failed.unwrap_or_default(),
            completed_indexes: Indexes::parse(completed, situation.completions()),
        }
    }

    /// Counts the noted pods whose finalizer is gone.
    fn move_to_counters(&mut self, status: &mut JobStatus) {
        let count = |noted: &mut Vec<String>, counter: &mut Option<i32>| {
            let before = noted.len();
            noted.retain(|uid| self.tracked.contains(uid));
            let counted = to_i32(before - noted.len());
            let total = counter.unwrap_or(0).saturating_add(counted);
            *counter = Some(total).filter(|total| *total != 0);
        };
        count(&mut self.succeeded, &mut status.succeeded);
        count(&mut self.failed, &mut status.failed);
    }

    /// Notes what has ended; yields the pods that may lose the finalizer once the note is stored.
    fn take_in<'a>(
        &mut self,
        situation: &Situation<'a>,
        decision: Option<&Decision>,
        uncounted_max: usize,
    ) -> Vec<&'a Pod> {
        let mut releasable = Vec::new();
        let mut noted = self.succeeded.len() + self.failed.len();
        for pod in situation.pods.iter().copied().filter(|pod| is_tracked(pod)) {
            if !may_be_released(situation, decision, pod) {
                continue;
            }
            // A pod that finds no room in the lists waits; one that is in them already does not.
            let has_room = noted < uncounted_max;
            let settled = if has_succeeded(pod) && !self.has_noted_failure(pod) {
                self.note_success(situation, pod, has_room)
            } else if counts_as_failed(situation, decision, pod) {
                self.note_failure(situation, pod, has_room)
            } else {
                Note::Needless
            };
            noted += usize::from(settled == Note::Made);
            if settled != Note::NoRoom {
                releasable.push(pod);
            }
        }
        releasable
    }

    fn has_noted_failure(&self, pod: &Pod) -> bool {
        self.failed.iter().any(|uid| uid == uid_of(&pod.metadata))
    }

    /// Notes a success by uid, in Indexed Jobs by index (J-77).
    fn note_success(&mut self, situation: &Situation<'_>, pod: &Pod, has_room: bool) -> Note {
        if !situation.is_indexed() {
            return note(&mut self.succeeded, pod, has_room);
        }
        match situation.valid_index(pod).filter(|index| !self.completed_indexes.contains(*index)) {
            None => Note::Needless,
            Some(_) if !has_room => Note::NoRoom,
            Some(index) => {
                self.completed_indexes.insert(index);
                Note::Made
            }
        }
    }

    fn note_failure(&mut self, situation: &Situation<'_>, pod: &Pod, has_room: bool) -> Note {
        if situation.is_countable(pod) && situation.judge(pod).counts() {
            note(&mut self.failed, pod, has_room)
        } else {
            Note::Needless
        }
    }

    fn write(self, situation: &Situation<'_>, status: &mut JobStatus) {
        let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        status.uncounted_terminated_pods =
            Some(UncountedTerminatedPods { succeeded: some(self.succeeded), failed: some(self.failed) });
        if let Some(indexed) = &situation.indexed {
            let total = to_i32(self.completed_indexes.len() as usize);
            status.succeeded = Some(total).filter(|total| *total != 0);
            let text = self.completed_indexes.to_string();
            status.completed_indexes = Some(text).filter(|text| !text.is_empty());
            status.failed_indexes = indexed.failed.as_ref().map(Indexes::to_string);
        }
    }
}

/// Whether a pod may lose its finalizer once it is noted (J-79).
fn may_be_released(situation: &Situation<'_>, decision: Option<&Decision>, pod: &Pod) -> bool {
    if has_succeeded(pod) || is_being_deleted(&situation.job.metadata) {
        return true;
    }
    if let Some(decision) = decision {
        // Under a failure the active pods are deleted first, with the finalizer, and then counted.
        return decision.end == End::Success || !is_active(pod);
    }
    let kept = situation.indexed.iter().flat_map(|indexed| indexed.kept.values());
    let is_kept = kept.into_iter().any(|kept| kept.metadata.uid == pod.metadata.uid);
    has_failed(pod, situation.job) && !is_kept
}

/// Whether a pod that did not succeed is one more failure (J-78): under a failed Job, every one is.
fn counts_as_failed(situation: &Situation<'_>, decision: Option<&Decision>, pod: &Pod) -> bool {
    let under_failure = decision.is_some_and(|decision| decision.end == End::Failure);
    !has_succeeded(pod) && (has_failed(pod, situation.job) || under_failure)
}

/// What became of the wish to note a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Made,
    /// It is noted already, or is not to be counted.
    Needless,
    NoRoom,
}

fn note(list: &mut Vec<String>, pod: &Pod, has_room: bool) -> Note {
    let uid = uid_of(&pod.metadata);
    if list.iter().any(|one| one == uid) {
        return Note::Needless;
    }
    if has_room {
        list.push(uid.to_owned());
        return Note::Made;
    }
    Note::NoRoom
}
