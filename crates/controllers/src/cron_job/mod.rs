//! The CronJob controller (J-127 to J-137).
//!
//! One look yields the next writes only: first the status that the children make, then what is to be cleared away, then a new Job.
//! That a Job was made is seen from the Job itself, so a crash between its creation and the status loses and doubles nothing.
//! Read next: [`due`] (when), [`children`] (what).

mod children;
mod due;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, Job};

pub use self::children::SCHEDULED_TIMESTAMP;
use self::children::{Record, children, controller_of, job_name, make_job, record, surplus};
use self::due::{NoTimes, Times};
use crate::cache::{Cache, Change};
use crate::object::{Kind, Object, is_being_deleted, namespace_of, uid_of};
use crate::runner::{Planned, Reconcile, Step};
use crate::write::{Action, EventRecord, Outcome, Propagation, RefusalCause};

const COMPONENT: &str = "cronjob-controller";

/// Decides for CronJobs; keyed by their uid.
#[derive(Debug, Default)]
pub(crate) struct CronJobController {
    memory: BTreeMap<String, CronJobMemory>,
}

/// What is known of a CronJob beyond what is stored; lost without harm.
#[derive(Debug, Default)]
struct CronJobMemory {
    /// Children that were deleted on purpose: nobody misses them.
    removed: BTreeSet<String>,
    /// What has been told, so that it is told once.
    told: BTreeSet<(&'static str, String)>,
}

impl CronJobMemory {
    /// The event, unless the same was told of the same subject before.
    fn tell(
        &mut self,
        cron_job: &CronJob,
        warning: bool,
        reason: &'static str,
        of: &str,
        message: &str,
    ) -> Option<EventRecord> {
        let is_new = self.told.insert((reason, of.to_owned()));
        is_new.then(|| event(cron_job, warning, reason, message))
    }

    /// Forgets what was told of other times than this one.
    fn forget_times(&mut self, reason: &'static str, of: &str) {
        self.told.retain(|(one, subject)| *one != reason || subject == of);
    }
}

impl Reconcile for CronJobController {
    type Key = String;

    fn affected(&self, _: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let mut keys = BTreeSet::new();
        for object in [Some(change.object()), change.old()].into_iter().flatten() {
            match object {
                Object::CronJob(cron_job) => {
                    keys.insert(uid_of(&cron_job.metadata).to_owned());
                }
                Object::Job(job) => {
                    let owner = controller_of(job).filter(|owner| owner.kind == "CronJob");
                    keys.extend(owner.map(|owner| owner.uid.clone()));
                }
                _ => {}
            }
        }
        keys.into_iter().map(|key| (key, now)).collect()
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, now: Timestamp) -> Step {
        let Some(cron_job) = cache.cron_job_by_uid(key) else {
            self.memory.remove(key);
            return Step::rest();
        };
        let memory = self.memory.entry(key.clone()).or_default();
        let children = children(cache, cron_job);
        let record = record(cron_job, &children, &memory.removed);
        memory.removed.retain(|uid| children.iter().any(|job| uid_of(&job.metadata) == uid));
        let mut step = Step::rest();
        for (name, uid) in &record.unexpected {
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            step.events.extend(memory.tell(cron_job, true, "UnexpectedJob", uid, &message));
        }
        if cron_job.status.clone().unwrap_or_default() != record.status {
            step.writes.push(write_status(cron_job, record));
            return step;
        }
        step.writes.extend(surplus(&cron_job.spec, &children).into_iter().map(|job| Planned::from(delete(job))));
        if !step.writes.is_empty() || is_being_deleted(&cron_job.metadata) {
            return step;
        }
        Look { cache, cron_job, spec: &cron_job.spec, children: &children, now }.run(memory, step)
    }

    fn answered(
        &mut self,
        cache: &Cache,
        key: &String,
        action: &Action,
        outcome: &Outcome,
        _: Timestamp,
    ) -> Vec<EventRecord> {
        if let (Action::Delete { target, .. }, Outcome::Gone | Outcome::Stored(_)) = (action, outcome) {
            let memory = self.memory.entry(key.clone()).or_default();
            memory.removed.insert(target.uid.clone());
        }
        let cron_job = cache.cron_job_by_uid(key);
        cron_job.and_then(|cron_job| job_event(cron_job, action, outcome)).into_iter().collect()
    }
}

/// A CronJob at one moment.
struct Look<'a> {
    cache: &'a Cache,
    cron_job: &'a CronJob,
    spec: &'a CronJobSpec,
    children: &'a [&'a Job],
    now: Timestamp,
}

impl Look<'_> {
    /// Starts what is due.
    fn run(&self, memory: &mut CronJobMemory, mut step: Step) -> Step {
        let times = match Times::of(self.spec) {
            Ok(times) => times,
            Err(error) => return complain(self.cron_job, memory, &error, step),
        };
        let schedule = &self.spec.schedule;
        if times.has_own_zone {
            let message = format!(
                "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            step.events.extend(memory.tell(self.cron_job, true, "UnsupportedSchedule", schedule, &message));
        }
        if self.spec.suspend == Some(true) {
            return step;
        }
        let due = match times.due(self.cron_job, self.spec, self.now) {
            Ok(due) => due,
            Err(error) => return complain(self.cron_job, memory, &error, step),
        };
        let step = step.again(Some(due.next_look));
        match due.time.filter(|time| !self.is_done(*time)) {
            Some(time) => self.start(memory, &times, time, due.too_many, step),
            None => step,
        }
    }

    /// True if the time was acted upon, or its name is taken (J-132).
    fn is_done(&self, time: Timestamp) -> bool {
        let status = self.cron_job.status.as_ref();
        let last = status.and_then(|status| status.last_schedule_time.as_ref());
        let name = job_name(self.cron_job, time);
        let namespace = namespace_of(&self.cron_job.metadata);
        last.is_some_and(|last| last.0 == time) || self.cache.find(&Kind::JOB, namespace, &name).is_some()
    }

    /// Starts the Job for a time, if the concurrency policy lets it (J-133).
    ///
    /// A time past `startingDeadlineSeconds` is not due to begin with (J-132).
    fn start(
        &self,
        memory: &mut CronJobMemory,
        times: &Times,
        time: Timestamp,
        too_many: bool,
        mut step: Step,
    ) -> Step {
        let (cron_job, of) = (self.cron_job, time.to_string());
        for reason in ["TooManyMissedTimes", "JobAlreadyActive"] {
            memory.forget_times(reason, &of);
        }
        if too_many {
            let message =
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            step.events.extend(memory.tell(cron_job, true, "TooManyMissedTimes", &of, message));
        }
        let active = cron_job.status.as_ref().and_then(|status| status.active.as_deref());
        let active = active.unwrap_or_default();
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
                step.events.extend(memory.tell(cron_job, false, "JobAlreadyActive", &of, message));
                return step;
            }
            Some("Replace") if !active.is_empty() => {
                let is_active = |job: &&&Job| active.iter().any(|one| one.uid == job.metadata.uid);
                let replaced = self.children.iter().filter(is_active);
                step.writes.extend(replaced.map(|job| Planned::from(delete(job))));
                return step;
            }
            _ => {}
        }
        let job = make_job(cron_job, self.spec, time, &times.shown_zone);
        step.writes.push(Action::Create(job.into()).into());
        step
    }
}

/// Tells why nothing can be started; only another spec changes that.
fn complain(cron_job: &CronJob, memory: &mut CronJobMemory, error: &NoTimes, mut step: Step) -> Step {
    let message = error.to_string();
    step.events.extend(memory.tell(cron_job, true, error.reason(), &message, &message));
    step
}

fn write_status(cron_job: &CronJob, record: Record) -> Planned {
    let mut written = cron_job.clone();
    written.status = Some(record.status);
    let news = record.news.into_iter();
    let events = news.map(|(reason, message)| event(cron_job, false, reason, &message)).collect();
    Planned { action: Action::UpdateStatus(written.into()), events }
}

fn delete(job: &Job) -> Action {
    Action::Delete {
        target: Object::from(job.clone()).target(),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    }
}

/// What the answer to a write of a Job tells (J-136).
fn job_event(cron_job: &CronJob, action: &Action, outcome: &Outcome) -> Option<EventRecord> {
    match (action, outcome) {
        (Action::Create(job), Outcome::Stored(_)) => {
            Some(event(cron_job, false, "SuccessfulCreate", &format!("Created job {}", job.name())))
        }
        (Action::Create(_), Outcome::Refused(refusal)) => {
            let is_quiet = matches!(refusal.cause, RefusalCause::NamespaceTerminating | RefusalCause::AlreadyExists);
            let message = format!("Error creating job: {}", refusal.message);
            (!is_quiet).then(|| event(cron_job, true, "FailedCreate", &message))
        }
        (Action::Delete { .. }, Outcome::Refused(refusal)) => {
            let message = format!("Deleted job: {}", refusal.message);
            (refusal.cause != RefusalCause::NotFound).then(|| event(cron_job, true, "FailedDelete", &message))
        }
        (Action::Delete { target, .. }, _) => {
            Some(event(cron_job, false, "SuccessfulDelete", &format!("Deleted job {}", target.name)))
        }
        _ => None,
    }
}

fn event(cron_job: &CronJob, warning: bool, reason: &str, message: &str) -> EventRecord {
    EventRecord {
        regarding: Object::from(cron_job.clone()).reference(),
        component: COMPONENT,
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}
