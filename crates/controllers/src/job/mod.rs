//! The Job controller (J-61 to J-114).
//!
//! One look at a Job yields the next writes only, in this order: claim pods, create or delete pods, write the status, take finalizers.
//! It does not default or validate Jobs, name pods or end them: those are the server's and the node's.
//! Read next: [`situation`] (what is the case), [`decision`] (has it ended), [`manage`] (pods), [`status`] (counting).

mod backoff;
mod claim;
mod decision;
mod indexes;
mod manage;
mod orphans;
mod pods;
mod policy;
mod situation;
mod status;
mod template;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use self::backoff::FailureRecord;
use self::decision::{Decision, End, completes, deadline, decide};
pub(crate) use self::decision::{finished_condition, is_finished};
use self::manage::{Management, delete, manage, release};
pub(crate) use self::orphans::OrphanPods;
use self::pods::{finish_time, has_failed, has_succeeded, is_tracked};
pub(crate) use self::pods::{is_ready, is_terminal};
use self::situation::Situation;
use self::status::{Account, account};
use crate::cache::{Cache, Change};
use crate::config::JobConfig;
use crate::object::{Object, Target, is_being_deleted, uid_of};
use crate::runner::{Planned, Reconcile, Step};
use crate::time::after;
use crate::write::{Action, EventRecord, Outcome, RefusalCause};

pub use self::pods::{COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, TRACKING_FINALIZER};

/// The value of `spec.managedBy` that means this controller (J-101).
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";
const COMPONENT: &str = "job-controller";

/// Decides for Jobs; keyed by their uid.
#[derive(Debug)]
pub(crate) struct JobController {
    config: JobConfig,
    memory: BTreeMap<String, JobMemory>,
}

/// What is known of a Job beyond what is stored; lost without harm.
#[derive(Debug)]
pub(crate) struct JobMemory {
    record: FailureRecord,
    /// The size of the next batch of creations (J-65).
    batch: usize,
    /// Refusals of writes to pods in a row, and until when no more are sent.
    refusals: u32,
    blocked_until: Option<Timestamp>,
    /// The event UnknownCompletionMode has been recorded (J-74).
    mode_is_reported: bool,
}

impl Default for JobMemory {
    fn default() -> Self {
        JobMemory {
            record: FailureRecord::default(),
            batch: 1,
            refusals: 0,
            blocked_until: None,
            mode_is_reported: false,
        }
    }
}

impl JobMemory {
    /// When the next pod may be created, if pods have failed (J-85).
    fn ready_at(&mut self, config: &JobConfig) -> Option<Timestamp> {
        let initial = config.failure_back_off_initial;
        self.record.ready_at(initial, config.failure_back_off_max)
    }

    fn is_blocked(&self, now: Timestamp) -> bool {
        self.blocked_until.is_some_and(|until| until > now)
    }

    fn note_refusal(&mut self, now: Timestamp) {
        self.refusals = self.refusals.saturating_add(1);
        self.batch = 1;
        let wait = backoff::delay(self.refusals, Duration::from_secs(1), Duration::from_secs(60));
        self.blocked_until = Some(after(now, wait));
    }

    /// Ends the block, unless the success is of the very batch that was refused in part.
    fn note_success(&mut self, now: Timestamp) {
        if !self.is_blocked(now) {
            self.refusals = 0;
            self.blocked_until = None;
        }
    }

    /// Takes in what has ended; pods that were taken from the Job on purpose say nothing (J-85).
    fn learn(&mut self, situation: &Situation<'_>) {
        for pod in &situation.pods {
            if situation.is_indexed() && situation.valid_index(pod).is_none() {
                continue;
            }
            let was_taken = !is_tracked(pod) && is_being_deleted(&pod.metadata);
            if has_succeeded(pod) {
                self.record.succeeded(finish_time(pod));
            } else if has_failed(pod, situation.job) && !was_taken {
                self.record.failed(uid_of(&pod.metadata), finish_time(pod));
            }
        }
    }
}

impl JobController {
    /// A controller that remembers nothing.
    pub(crate) fn new(config: JobConfig) -> JobController {
        JobController { config, memory: BTreeMap::new() }
    }

    fn sync(&mut self, cache: &Cache, job: &Job, spec: &JobSpec, now: Timestamp) -> Step {
        let uid = uid_of(&job.metadata);
        let memory = self.memory.entry(uid.to_owned()).or_default();
        if let Some(step) = report_unknown_mode(job, spec, memory) {
            return step;
        }
        let claims = claim::claim(cache, job, spec);
        if !claims.writes.is_empty() && !memory.is_blocked(now) {
            return Step::write(claims.writes);
        }
        let situation = Situation::new(job, spec, claims.pods);
        memory.learn(&situation);
        let mut decision = decide(&situation, now);
        let mut pods_are_managed = false;
        let mut step = Step::rest();
        if memory.is_blocked(now) {
            step = step.again(memory.blocked_until);
        } else if let Some(decision) = &decision {
            let writes = end_active_pods(&situation, decision);
            if !writes.is_empty() {
                return Step::write(writes);
            }
        } else if !is_being_deleted(&job.metadata) {
            match manage(&situation, memory, &self.config, now) {
                Management::Write(writes) => return Step::write(writes),
                Management::Wait(until) => step = step.again(Some(until)),
                Management::Rest => {}
            }
            pods_are_managed = true;
        }
        if decision.is_none() && completes(&situation) {
            decision = Some(Decision::completions_reached());
        }
        let uncounted_max = self.config.pods_per_step;
        let account = account(&situation, decision.as_ref(), pods_are_managed, uncounted_max, now);
        let start = account.status.start_time.as_ref();
        let deadline = start.and_then(|start| deadline(&situation, start.0));
        let mut step = step.again(deadline.filter(|_| decision.is_none()));
        step.writes = settle(job, &situation, decision.as_ref(), account);
        step
    }
}

impl Reconcile for JobController {
    type Key = String;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let later = after(now, self.config.batch_period);
        match change {
            Change::Applied { old, new } if matches!(new, Object::Job(_)) => {
                let generation = |object: &Object| object.metadata().generation;
                let is_status_change = old.as_ref().is_some_and(|old| generation(old) == generation(new));
                let at = if is_status_change { later } else { now };
                vec![(new.uid().to_owned(), at)]
            }
            Change::Deleted { old: Object::Job(job) } => {
                vec![(uid_of(&job.metadata).to_owned(), now)]
            }
            _ => claim::jobs_of(cache, change).into_iter().map(|uid| (uid, later)).collect(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, now: Timestamp) -> Step {
        let job = cache.job_by_uid(key).filter(|job| !is_finished(job));
        let Some((job, spec)) = job.and_then(|job| Some((job, job.spec.as_ref()?))) else {
            self.memory.remove(key);
            return Step::rest();
        };
        if is_managed_elsewhere(job) {
            return Step::rest();
        }
        self.sync(cache, job, spec, now)
    }

    fn answered(
        &mut self,
        cache: &Cache,
        key: &String,
        action: &Action,
        outcome: &Outcome,
        now: Timestamp,
    ) -> Vec<EventRecord> {
        let Some(job) = cache.job_by_uid(key) else {
            return Vec::new();
        };
        if let Some(memory) = self.memory.get_mut(key)
            && !matches!(action, Action::UpdateStatus(_))
        {
            match outcome {
                Outcome::Refused(refusal) => match refusal.cause {
                    // The newer version is on its way, and brings the Job up again.
                    RefusalCause::Conflict => {}
                    RefusalCause::NotFound if !matches!(action, Action::Create(_)) => {}
                    _ => memory.note_refusal(now),
                },
                _ => memory.note_success(now),
            }
        }
        pod_event(job, action, outcome).into_iter().collect()
    }
}

/// J-101.
pub(crate) fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != CONTROLLER_NAME)
}

/// J-74: a completion mode of a newer server is told once and otherwise left alone.
fn report_unknown_mode(job: &Job, spec: &JobSpec, memory: &mut JobMemory) -> Option<Step> {
    let mode = spec.completion_mode.as_deref().unwrap_or("NonIndexed");
    if matches!(mode, "NonIndexed" | "Indexed") {
        return None;
    }
    let mut step = Step::rest();
    if !std::mem::replace(&mut memory.mode_is_reported, true) {
        let message = "Skipped Job sync because completion mode is unknown";
        step.events.push(event(job, true, "UnknownCompletionMode", message));
    }
    Some(step)
}

/// Deletes what is active once the end is recorded: pods of a failed Job with their finalizer, so that they are counted;
/// pods of a Job that succeeded when it has been taken from them, so that they are not (J-78).
fn end_active_pods(situation: &Situation<'_>, decision: &Decision) -> Vec<Action> {
    if !decision.is_recorded {
        return Vec::new();
    }
    let active = situation.active.iter();
    active.filter(|pod| decision.end == End::Failure || !is_tracked(pod)).map(|pod| delete(pod)).collect()
}

/// Writes the status if it differs, else takes the finalizers that it frees.
fn settle(job: &Job, situation: &Situation<'_>, decision: Option<&Decision>, account: Account<'_>) -> Vec<Planned> {
    if job.status.as_ref() == Some(&account.status) {
        let releasable = account.releasable.into_iter();
        return releasable.map(|pod| release(pod).into()).collect();
    }
    let events = status_events(job, situation, decision, &account);
    let mut written = job.clone();
    written.status = Some(account.status);
    vec![Planned { action: Action::UpdateStatus(written.into()), events }]
}

/// What the status tells, once it is stored (J-114).
fn status_events(
    job: &Job,
    situation: &Situation<'_>,
    decision: Option<&Decision>,
    account: &Account<'_>,
) -> Vec<EventRecord> {
    let mut events = Vec::new();
    match account.suspended {
        Some(true) => events.push(event(job, false, "Suspended", "Job suspended")),
        Some(false) => events.push(event(job, false, "Resumed", "Job resumed")),
        None => {}
    }
    let Some(decision) = decision.filter(|_| account.is_final) else {
        return events;
    };
    if decision.end == End::Failure {
        events.push(event(job, true, &decision.reason, &decision.message));
        return events;
    }
    let completions = situation.spec.completions;
    if completions.is_some_and(|wanted| account.status.succeeded.unwrap_or(0) > wanted) {
        let message = "Too many succeeded pods running after completion count reached";
        events.push(event(job, true, "TooManySucceededPods", message));
    }
    events.push(event(job, false, "Completed", "Job completed"));
    events
}

/// What the answer to a write of a pod tells (J-65, section 13).
fn pod_event(job: &Job, action: &Action, outcome: &Outcome) -> Option<EventRecord> {
    match (action, outcome) {
        (Action::Create(_), Outcome::Stored(pod)) => {
            let message = format!("Created pod: {}", pod.name());
            Some(event(job, false, "SuccessfulCreate", &message))
        }
        (Action::Create(_), Outcome::Refused(refusal)) => {
            let message = format!("Error creating: {}", refusal.message);
            let is_telling = refusal.cause != RefusalCause::NamespaceTerminating;
            is_telling.then(|| event(job, true, "FailedCreate", &message))
        }
        (Action::Delete { .. }, Outcome::Refused(refusal)) => {
            let message = format!("Error deleting: {}", refusal.message);
            let is_telling = refusal.cause != RefusalCause::NotFound;
            is_telling.then(|| event(job, true, "FailedDelete", &message))
        }
        (Action::Delete { target, .. }, _) => {
            let message = format!("Deleted pod: {}", target.name);
            Some(event(job, false, "SuccessfulDelete", &message))
        }
        _ => None,
    }
}

fn event(job: &Job, warning: bool, reason: &str, message: &str) -> EventRecord {
    EventRecord {
        regarding: Object::from(job.clone()).reference(),
        component: COMPONENT,
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// What names a pod.
pub(crate) fn pod_target(pod: &Pod) -> Target {
    Target {
        kind: crate::object::Kind::POD,
        namespace: crate::object::namespace_of(&pod.metadata).to_owned(),
        name: crate::object::name_of(&pod.metadata).to_owned(),
        uid: uid_of(&pod.metadata).to_owned(),
    }
}
