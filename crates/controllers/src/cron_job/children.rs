//! The Jobs of a CronJob: how they are made, recognised, recorded and cleared away (J-131, J-134, J-135).

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::cache::Cache;
use crate::job::finished_condition;
use crate::object::{Object, is_being_deleted, name_of, uid_of};
use crate::time::api_time;

/// The annotation that carries the time for which a Job was made.
pub const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The Jobs that the CronJob controls, in the order of uids.
pub(crate) fn children<'a>(cache: &'a Cache, cron_job: &CronJob) -> Vec<&'a Job> {
    let uid = uid_of(&cron_job.metadata).to_owned();
    cache
        .dependents(&uid)
        .filter_map(|object| match object {
            Object::Job(job) => Some(job.as_ref()),
            _ => None,
        })
        .filter(|job| controller_of(job).is_some_and(|owner| owner.uid == uid))
        .collect()
}

/// The owner reference of a Job's controller.
pub(crate) fn controller_of(job: &Job) -> Option<&OwnerReference> {
    let mut owners = job.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true))
}

/// The name of the Job for a time: the same for the same time, so that it is not made twice.
pub(crate) fn job_name(cron_job: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", name_of(&cron_job.metadata), time.as_second().div_euclid(60))
}

/// The Job for a time (J-131).
pub(crate) fn make_job(cron_job: &CronJob, spec: &CronJobSpec, time: Timestamp, zone: &TimeZone) -> Job {
    let template = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_TIMESTAMP.to_owned(), rfc3339(time, zone));
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "CronJob".to_owned(),
        name: name_of(&cron_job.metadata).to_owned(),
        uid: uid_of(&cron_job.metadata).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron_job, time)),
            namespace: cron_job.metadata.namespace.clone(),
            labels: template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    }
}

/// As Go writes it: an offset of zero is `Z`.
fn rfc3339(time: Timestamp, zone: &TimeZone) -> String {
    let time = time.to_zoned(zone.clone());
    let format = if time.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    time.strftime(format).to_string()
}

/// The time for which this controller made the Job; `None` for a Job of other making.
fn scheduled_time(cron_job: &CronJob, job: &Job) -> Option<Timestamp> {
    let annotations = job.metadata.annotations.as_ref()?;
    let time: Timestamp = annotations.get(SCHEDULED_TIMESTAMP)?.parse().ok()?;
    (job_name(cron_job, time) == name_of(&job.metadata)).then_some(time)
}

/// The status that the children make, and what there is to tell about it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) status: CronJobStatus,
    /// Events of type Normal: reason and message.
    pub(crate) news: Vec<(&'static str, String)>,
    /// Names and uids of unfinished children that nobody accounts for.
    pub(crate) unexpected: Vec<(String, String)>,
}

/// Draws up the status; `removed` are the children that this controller has deleted.
pub(crate) fn record(cron_job: &CronJob, children: &[&Job], removed: &BTreeSet<String>) -> Record {
    let mut record = Record { status: cron_job.status.clone().unwrap_or_default(), ..Record::default() };
    let mut active = record.status.active.take().unwrap_or_default();
    for job in children {
        let uid = uid_of(&job.metadata);
        let is_active = active.iter().any(|one| one.uid.as_deref() == Some(uid));
        let is_new = is_newly_made(cron_job, job, &mut record.status);
        if let Some(end) = finished_condition(job) {
            if is_active || is_new {
                let (name, end) = (name_of(&job.metadata), end.type_.as_str());
                record.news.push(("SawCompletedJob", format!("Saw completed job: {name}, condition: {end}")));
            }
            active.retain(|one| one.uid.as_deref() != Some(uid));
            let completion = job.status.as_ref().and_then(|status| status.completion_time.clone());
            record.status.last_successful_time = completion.max(record.status.last_successful_time.take());
        } else if is_new {
            active.push(reference(job));
        } else if !is_active && !removed.contains(uid) {
            record.unexpected.push((name_of(&job.metadata).to_owned(), uid.to_owned()));
        }
    }
    active.retain(|one| {
        let uid = one.uid.as_deref().unwrap_or_default();
        let is_there = children.iter().any(|job| uid_of(&job.metadata) == uid);
        let is_removed = removed.contains(uid);
        if !is_there && !is_removed {
            let name = one.name.as_deref().unwrap_or_default();
            record.news.push(("MissingJob", format!("Active job went missing: {name}")));
        }
        is_there && !is_removed
    });
    record.status.active = Some(active).filter(|active| !active.is_empty());
    record
}

/// Takes note of a Job that was made and is not recorded yet; true if it is such a one.
fn is_newly_made(cron_job: &CronJob, job: &Job, status: &mut CronJobStatus) -> bool {
    let stored = cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let Some(time) = scheduled_time(cron_job, job) else {
        return false;
    };
    if stored.is_some_and(|stored| time <= stored.0) || is_being_deleted(&job.metadata) {
        return false;
    }
    let time = api_time(time);
    status.last_schedule_time = Some(time).max(status.last_schedule_time.take());
    true
}

fn reference(job: &Job) -> ObjectReference {
    Object::from(job.clone()).reference()
}

/// The finished children beyond what the limits keep, oldest first (J-135).
pub(crate) fn surplus<'a>(spec: &CronJobSpec, children: &[&'a Job]) -> Vec<&'a Job> {
    let mut surplus = Vec::new();
    let limits = [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    for (type_, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
            continue;
        };
        let ended = children.iter().copied();
        let mut ended: Vec<&Job> =
            ended.filter(|job| finished_condition(job).is_some_and(|one| one.type_ == type_)).collect();
        ended.sort_by_key(|job| {
            let start = job.status.as_ref().and_then(|status| status.start_time.as_ref());
            // Without a start time a Job counts as the newest.
            (start.is_none(), start.map(|time| time.0), name_of(&job.metadata))
        });
        let count = ended.len().saturating_sub(limit);
        surplus.extend(ended.into_iter().take(count));
    }
    surplus.retain(|job| !is_being_deleted(&job.metadata));
    surplus
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn j131_the_scheduled_time_is_shown_in_the_zone_of_the_cron_job() {
        let time: Timestamp = "2026-01-01T09:00:00Z".parse().unwrap();
        let zone = |name: &str| api::cron::find_time_zone(name).unwrap();
        assert_eq!(rfc3339(time, &TimeZone::UTC), "2026-01-01T09:00:00Z");
        assert_eq!(rfc3339(time, &zone("Europe/Berlin")), "2026-01-01T10:00:00+01:00");
        assert_eq!(rfc3339(time, &zone("Europe/London")), "2026-01-01T09:00:00Z");
    }
}
