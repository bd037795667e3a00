//! CronJobs (J-60, J-127 to J-130).

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec};

use super::errors::Errors;
use super::job::validate_job_template;
use super::meta::{Scope, validate_object_meta, validate_object_meta_update};
use super::names::NameRule;
use crate::absent::text;
use crate::cron::{Schedule, find_time_zone};
use crate::field::{FieldError, FieldPath};

/// Eleven characters less than a Job's name may have: the controller appends the time.
const NAME_BYTES_MAX: usize = 52;
const TIME_ZONE_PART_BYTES_MAX: usize = 14;

/// Checks a CronJob that is to be created.
pub fn validate_cron_job(cron_job: &CronJob) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&cron_job.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, &mut errors);
    validate_spec(&cron_job.spec, None, &mut errors);
    let name = text(&cron_job.metadata.name);
    if name.len() > NAME_BYTES_MAX {
        errors.invalid(&metadata_at.child("name"), name, "must be no more than 52 characters");
    }
    errors.into_list()
}

/// Checks a CronJob that is to replace another.
pub fn validate_cron_job_update(new: &CronJob, old: &CronJob) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_spec(&new.spec, Some(&old.spec), &mut errors);
    errors.into_list()
}

fn validate_spec(spec: &CronJobSpec, old: Option<&CronJobSpec>, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    if spec.schedule.is_empty() {
        errors.required(&at.child("schedule"), "");
    } else {
        let had_zone = old.is_some_and(|old| old.schedule.contains("TZ"));
        validate_schedule(spec, had_zone, &at.child("schedule"), errors);
    }
    errors.nonnegative(&at.child("startingDeadlineSeconds"), spec.starting_deadline_seconds.unwrap_or(0));
    if old.is_none_or(|old| old.time_zone != spec.time_zone) {
        validate_time_zone(spec.time_zone.as_deref(), &at.child("timeZone"), errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    errors.required_one_of(&at.child("concurrencyPolicy"), text(&spec.concurrency_policy), &policies);
    validate_job_template(&spec.job_template, &at.child("jobTemplate"), errors);
    let limits = [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ];
    for (field, limit) in limits {
        errors.nonnegative(&at.child(field), limit.unwrap_or(0));
    }
}

/// A zone in the schedule itself was tolerated once, so that a CronJob that has one keeps it.
fn validate_schedule(spec: &CronJobSpec, had_zone: bool, at: &FieldPath, errors: &mut Errors) {
    let schedule = spec.schedule.as_str();
    if let Err(error) = Schedule::parse(schedule) {
        errors.invalid(at, schedule, error.to_string());
    }
    let has_zone = schedule.contains("TZ");
    if has_zone && had_zone && spec.time_zone.is_some() {
        errors.invalid(at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
    } else if has_zone && !had_zone {
        errors.invalid(at, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
}

/// J-129.
fn validate_time_zone(zone: Option<&str>, at: &FieldPath, errors: &mut Errors) {
    let Some(zone) = zone else { return };
    if zone.is_empty() {
        errors.invalid(at, zone, "timeZone must be nil or non-empty string");
        return;
    }
    if !zone.split('/').all(is_time_zone_part) {
        errors.invalid(at, zone, format!("unknown time zone {zone}"));
        return;
    }
    let is_local = zone.eq_ignore_ascii_case("Local");
    if is_local {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(at, zone, detail);
    }
    if zone != "Local" && find_time_zone(zone).is_none() {
        errors.invalid(at, zone, format!("unknown time zone {zone}"));
    }
}

fn is_time_zone_part(part: &str) -> bool {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    (1..=TIME_ZONE_PART_BYTES_MAX).contains(&part.len())
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
        && part.bytes().all(is_character)
}
