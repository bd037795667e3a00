//! Updates of a Job's status (J-25): rules that keep clients from seeing a Job that both runs and has ended.
//! A rule is looked at only when what it speaks of changes, so that a status with an old fault can still be written.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};

use super::indexes::{count_indexes, first_overlap};
use crate::absent::{items, text};
use crate::equality::is_semantically_equal;
use crate::field::{FieldError, FieldPath};
use crate::validation::errors::Errors;
use crate::validation::meta::validate_object_meta_update;

/// The old and the new status with what the rules ask of them.
struct Change<'a> {
    spec: &'a JobSpec,
    new: &'a JobStatus,
    old: &'a JobStatus,
}

impl Change<'_> {
    fn is(&self, condition: &str) -> bool {
        is_condition_true(self.new, condition)
    }

    fn was(&self, condition: &str) -> bool {
        is_condition_true(self.old, condition)
    }

    fn is_changed(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn is_finished_changed(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }
}

/// Checks a Job whose status is to change.
pub fn validate_job_status_update(new: &Job, old: &Job) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let (empty_spec, empty) = (JobSpec::default(), JobStatus::default());
    let change = Change {
        spec: new.spec.as_ref().unwrap_or(&empty_spec),
        new: new.status.as_ref().unwrap_or(&empty),
        old: old.status.as_ref().unwrap_or(&empty),
    };
    let at = FieldPath::root("status");
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_counts(change.new, &at, &mut errors);
    validate_end(&change, &at, &mut errors);
    validate_finished(&change, &at, &mut errors);
    validate_indexes(&change, &at, &mut errors);
    validate_pods_left(&change, &at, &mut errors);
    validate_success_criteria(&change, &at.child("conditions"), &mut errors);
    validate_direction(&change, &at, &mut errors);
    errors.into_list()
}

pub(super) fn is_condition_true(status: &JobStatus, kind: &str) -> bool {
    items(&status.conditions).iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn validate_counts(status: &JobStatus, at: &FieldPath, errors: &mut Errors) {
    let counts = [
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    ];
    for (field, count) in counts {
        errors.nonnegative(&at.child(field), count.unwrap_or(0));
    }
    let Some(uncounted) = &status.uncounted_terminated_pods else { return };
    let at = at.child("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for (field, uids) in [("succeeded", &uncounted.succeeded), ("failed", &uncounted.failed)] {
        for (index, uid) in items(uids).iter().enumerate() {
            let at = at.child(field).index(index);
            if uid.is_empty() {
                errors.invalid(&at, "", "must not be empty");
            } else if !seen.insert(uid.as_str()) {
                errors.duplicate(&at, uid.as_str());
            }
        }
    }
}

/// Complete and Failed exclude each other; Complete and only Complete has a completion time.
fn validate_end(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let (conditions_at, time_at) = (at.child("conditions"), at.child("completionTime"));
    let is_complete = change.is("Complete");
    let (start, completion) = (&change.new.start_time, &change.new.completion_time);
    let is_completion_changed = change.old.completion_time != *completion;
    if (change.is_changed("Complete") || change.is_changed("Failed")) && is_complete && change.is("Failed") {
        errors.invalid_without_value(&conditions_at, "cannot set Complete=True and Failed=true conditions");
    }
    let is_target_changed = change.is_changed("FailureTarget");
    if (change.is_changed("Complete") || is_target_changed) && is_complete && change.is("FailureTarget") {
        errors.invalid_without_value(&conditions_at, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if change.is_changed("Complete") || is_completion_changed {
        match completion {
            Some(_) if !is_complete => {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid_object(&time_at, completion, detail);
            }
            None if is_complete => errors.required(&time_at, "completionTime is required for Complete jobs"),
            _ => {}
        }
    }
    let is_start_changed = change.old.start_time != *start;
    if (is_start_changed || is_completion_changed)
        && let (Some(start), Some(end)) = (start, completion)
        && end < start
    {
        errors.invalid_object(&time_at, completion, "must be equal to or after `startTime`");
    }
}

/// The interim conditions come before the final ones; a finished Job has no pods running and has started.
fn validate_finished(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let conditions_at = at.child("conditions");
    let are_failed_indexes_changed = change.old.failed_indexes != change.new.failed_indexes;
    if (change.is_changed("Failed") || are_failed_indexes_changed) && change.is("Failed") && !change.is("FailureTarget")
    {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.invalid_without_value(&conditions_at, detail);
    }
    let is_criteria_changed = change.is_changed("Complete") || change.is_changed("SuccessCriteriaMet");
    if is_criteria_changed && change.is("Complete") && !change.is("SuccessCriteriaMet") {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.invalid_without_value(&conditions_at, detail);
    }
    if !change.is_finished() {
        return;
    }
    let active = change.new.active.unwrap_or(0);
    let is_active_changed = change.old.active.unwrap_or(0) != active;
    if (change.is_finished_changed() || is_active_changed) && active > 0 {
        errors.invalid(&at.child("active"), active, "active>0 is invalid for finished job");
    }
    let is_start_changed = change.old.start_time != change.new.start_time;
    let never_starts = change.spec.suspend == Some(true) && change.spec.completions == Some(0);
    if (change.is_finished_changed() || is_start_changed) && !never_starts && change.new.start_time.is_none() {
        errors.required(&at.child("startTime"), "startTime is required for finished job");
    }
    let uncounted = &change.new.uncounted_terminated_pods;
    let are_changed = !is_semantically_equal(uncounted, &change.old.uncounted_terminated_pods);
    let is_any_left =
        uncounted.as_ref().is_some_and(|it| !items(&it.failed).is_empty() || !items(&it.succeeded).is_empty());
    if (change.is_finished_changed() || are_changed) && is_any_left {
        errors.invalid_object(&at.child("uncountedTerminatedPods"), uncounted, "must be empty for finished job");
    }
}

fn validate_indexes(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let (completed_at, failed_at) = (at.child("completedIndexes"), at.child("failedIndexes"));
    let (completed, failed) = (text(&change.new.completed_indexes), &change.new.failed_indexes);
    let is_completed_changed = text(&change.old.completed_indexes) != completed;
    let is_failed_changed = change.old.failed_indexes != *failed;
    let completions = change.spec.completions;
    let has_limit_per_index = change.spec.backoff_limit_per_index.is_some();
    if let Some(error) =
        completions.filter(|_| is_completed_changed).and_then(|completions| count_indexes(completed, completions).err())
    {
        errors.invalid(&completed_at, completed, format!("error parsing completedIndexes: {error}"));
    }
    if let (true, true, Some(completions), Some(failed)) = (is_failed_changed, has_limit_per_index, completions, failed)
        && let Err(error) = count_indexes(failed, completions)
    {
        errors.invalid(&failed_at, failed.as_str(), format!("error parsing failedIndexes: {error}"));
    }
    let is_indexed = text(&change.spec.completion_mode) == "Indexed";
    if is_completed_changed && !completed.is_empty() && !is_indexed {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed_at, completed, detail);
    }
    let Some(failed) = failed else { return };
    if is_failed_changed && !has_limit_per_index {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed_at, failed.as_str(), detail);
    }
    let overlap = completions.and_then(|completions| first_overlap(completed, failed, completions));
    if let Some(index) = overlap.filter(|_| is_failed_changed || is_completed_changed) {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&failed_at, failed.as_str(), detail);
    }
}

fn validate_pods_left(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let (new, old) = (change.new, change.old);
    let terminating = new.terminating.unwrap_or(0);
    let is_terminating_changed = new.terminating != old.terminating;
    if (change.is_finished_changed() || is_terminating_changed) && change.is_finished() && terminating > 0 {
        errors.invalid(&at.child("terminating"), terminating, "terminating>0 is invalid for finished job");
    }
    let active = new.active.unwrap_or(0);
    let is_changed = new.ready != old.ready || active != old.active.unwrap_or(0);
    if let Some(ready) = new.ready.filter(|ready| is_changed && *ready > active) {
        errors.invalid(&at.child("ready"), ready, "cannot set more ready pods than active");
    }
}

fn validate_success_criteria(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let is_met = change.is("SuccessCriteriaMet");
    if is_met && change.is("Failed") {
        errors.invalid_without_value(at, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if is_met && change.is("FailureTarget") {
        errors.invalid_without_value(at, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if change.spec.success_policy.is_some() && !is_met && change.is("Complete") {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.invalid_without_value(at, detail);
    }
}

/// Ends are final and counts don't fall.
fn validate_direction(change: &Change<'_>, at: &FieldPath, errors: &mut Errors) {
    let (new, old, spec) = (change.new, change.old, change.spec);
    let conditions_at = at.child("conditions");
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if change.was(condition) && !change.is(condition) {
            let detail = format!("cannot disable the terminal {condition}=True condition");
            errors.invalid_without_value(&conditions_at, &detail);
        }
    }
    let (failed, succeeded) = (new.failed.unwrap_or(0), new.succeeded.unwrap_or(0));
    if failed < old.failed.unwrap_or(0) {
        errors.invalid(&at.child("failed"), failed, "cannot decrease the failed counter");
    }
    let may_shrink = text(&spec.completion_mode) == "Indexed" && spec.completions == spec.parallelism;
    if !may_shrink && succeeded < old.succeeded.unwrap_or(0) {
        errors.invalid(&at.child("succeeded"), succeeded, "cannot decrease the succeeded counter");
    }
    let is_moved = new.completion_time.is_some() && old.completion_time.is_some();
    if is_moved && new.completion_time != old.completion_time {
        errors.invalid_object(&at.child("completionTime"), &new.completion_time, "field is immutable");
    }
    let is_resuming = change.was("Suspended") && is_condition_false(new, "Suspended");
    let is_start_changed = old.start_time.is_some() && old.start_time != new.start_time;
    if is_start_changed && !is_resuming && spec.suspend != Some(true) {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid_object(&at.child("startTime"), &new.start_time, detail);
    }
    let (was_met, is_met) = (change.was("SuccessCriteriaMet"), change.is("SuccessCriteriaMet"));
    if was_met && !is_met {
        errors.invalid_without_value(&conditions_at, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if change.was("Complete") && !was_met && is_met {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_without_value(&conditions_at, detail);
    }
}

fn is_condition_false(status: &JobStatus, kind: &str) -> bool {
    items(&status.conditions).iter().any(|condition| condition.type_ == kind && condition.status == "False")
}
