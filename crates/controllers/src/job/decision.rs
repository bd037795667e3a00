//! Whether a Job has ended, and how (J-72, J-82 to J-84, J-91, J-98, J-102).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};

use super::pods::{has_failed, restarts_in_place};
use super::policy::{Verdict, met_success_rule};
use super::situation::Situation;
use crate::time::after_seconds;

/// The end of a Job, decided and perhaps not recorded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) end: End,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The interim condition (SuccessCriteriaMet or FailureTarget) is stored.
    pub(crate) is_recorded: bool,
}

/// The two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
}

impl End {
    /// The condition that is set when the end is decided (J-109, J-110).
    pub(crate) fn interim_condition(self) -> &'static str {
        match self {
            End::Success => "SuccessCriteriaMet",
            End::Failure => "FailureTarget",
        }
    }

    /// The condition that is set when all pods have ended and are counted.
    pub(crate) fn final_condition(self) -> &'static str {
        match self {
            End::Success => "Complete",
            End::Failure => "Failed",
        }
    }
}

impl Decision {
    fn new(end: End, reason: &str, message: &str) -> Decision {
        Decision { end, reason: reason.to_owned(), message: message.to_owned(), is_recorded: false }
    }

    fn recorded(end: End, condition: &JobCondition) -> Decision {
        Decision {
            end,
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
            is_recorded: true,
        }
    }

    /// Success by the number of completions (J-66).
    pub(crate) fn completions_reached() -> Decision {
        let message = "Reached expected number of succeeded pods";
        Decision::new(End::Success, "CompletionsReached", message)
    }
}

/// True once Complete or Failed is True; such a Job is never changed again (J-108).
pub(crate) fn is_finished(job: &Job) -> bool {
    finished_condition(job).is_some()
}

/// The condition that ended the Job.
pub(crate) fn finished_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
}

/// The end of the Job, but for completions, which are tested after the pods have been managed (J-72).
///
/// The first cause that holds decides (J-75): what is recorded, then failures, then the success policy.
pub(crate) fn decide(situation: &Situation<'_>, now: Timestamp) -> Option<Decision> {
    for end in [End::Success, End::Failure] {
        if let Some(condition) = situation.true_condition(end.interim_condition()) {
            return Some(Decision::recorded(end, condition));
        }
    }
    policy_failure(situation)
        .or_else(|| limit_failure(situation))
        .or_else(|| deadline_failure(situation, now))
        .or_else(|| index_failure(situation))
        .or_else(|| policy_success(situation))
}

/// J-93, J-95: a FailJob rule.
fn policy_failure(situation: &Situation<'_>) -> Option<Decision> {
    let pods = situation.pods.iter();
    let mut failed = pods.filter(|pod| has_failed(pod, situation.job));
    failed.find_map(|pod| match situation.judge(pod) {
        Verdict::FailJob(message) => Some(Decision::new(End::Failure, "PodFailurePolicy", &message)),
        _ => None,
    })
}

/// J-82, J-83: too many failed pods, or too many restarts in place.
fn limit_failure(situation: &Situation<'_>) -> Option<Decision> {
    let spec = situation.spec;
    let limit = spec.backoff_limit.unwrap_or(6);
    let restart_policy = spec.template.spec.as_ref()?.restart_policy.as_deref();
    let restarts = situation.pods.iter().map(|pod| restarts_in_place(pod));
    let restarts = restarts.fold(0, i32::saturating_add);
    let too_many_restarts = restart_policy == Some("OnFailure") && restarts > 0 && restarts >= limit;
    let is_reached = situation.failed > limit || too_many_restarts;
    is_reached.then(|| {
        let message = "Job has reached the specified backoff limit";
        Decision::new(End::Failure, "BackoffLimitExceeded", message)
    })
}

/// J-102.
fn deadline_failure(situation: &Situation<'_>, now: Timestamp) -> Option<Decision> {
    let is_past = deadline(situation, situation.start_time()?)? <= now;
    is_past.then(|| {
        let message = "Job was active longer than specified deadline";
        Decision::new(End::Failure, "DeadlineExceeded", message)
    })
}

/// When `activeDeadlineSeconds` end for a Job that was started at the time given; never while it is suspended.
pub(crate) fn deadline(situation: &Situation<'_>, start: Timestamp) -> Option<Timestamp> {
    let seconds = situation.spec.active_deadline_seconds?;
    (!situation.is_suspended()).then(|| after_seconds(start, seconds))
}

/// J-91.
fn index_failure(situation: &Situation<'_>) -> Option<Decision> {
    let indexed = situation.indexed.as_ref()?;
    let failed = indexed.failed.as_ref()?.len();
    let most = situation.spec.max_failed_indexes;
    if most.is_some_and(|most| i64::from(failed) > i64::from(most)) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Decision::new(End::Failure, "MaxFailedIndexesExceeded", message));
    }
    let ended = failed.saturating_add(indexed.succeeded.len());
    let all_ended = failed > 0 && ended >= indexed.completions;
    all_ended.then(|| Decision::new(End::Failure, "FailedIndexes", "Job has failed indexes"))
}

/// J-98.
fn policy_success(situation: &Situation<'_>) -> Option<Decision> {
    let indexed = situation.indexed.as_ref()?;
    let message = met_success_rule(situation.job, &indexed.succeeded, indexed.completions)?;
    Some(Decision::new(End::Success, "SuccessPolicy", &message))
}

/// J-66: all that was asked for has succeeded and nothing is active.
pub(crate) fn completes(situation: &Situation<'_>) -> bool {
    let enough = match situation.spec.completions {
        None => situation.succeeded > 0,
        Some(completions) => situation.succeeded >= completions,
    };
    enough && situation.active.is_empty()
}
