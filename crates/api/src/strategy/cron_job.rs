//! CronJobs: status and generation (J-130).

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus};

use super::bump_generation;
use super::gates::{Gates, drop_disabled_template_fields};

/// Makes a new CronJob of what was sent: no status, generation 1.
pub fn prepare_for_create(cron_job: &mut CronJob, gates: Gates) {
    cron_job.status = Some(CronJobStatus::default());
    cron_job.metadata.generation = Some(1);
    drop_disabled(cron_job, None, gates);
}

/// Keeps the status, and counts the generation up if the spec changes.
pub fn prepare_for_update(new: &mut CronJob, old: &CronJob, gates: Gates) {
    new.status.clone_from(&old.status);
    drop_disabled(new, Some(old), gates);
    bump_generation(&mut new.metadata, &old.metadata, &new.spec, &old.spec);
}

/// Keeps the spec.
pub fn prepare_for_status_update(new: &mut CronJob, old: &CronJob) {
    new.spec.clone_from(&old.spec);
    new.metadata.generation = old.metadata.generation;
}

fn drop_disabled(cron_job: &mut CronJob, old: Option<&CronJob>, gates: Gates) {
    let Some(job) = &mut cron_job.spec.job_template.spec else { return };
    let old = old.and_then(|old| old.spec.job_template.spec.as_ref());
    job.scheduling = None;
    drop_disabled_template_fields(&mut job.template, old.map(|old| &old.template), gates);
}
