//! Defaults of Jobs and CronJobs (J-1 to J-12, J-127).

use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};

use super::pod;
use crate::absent::{default_text, items_mut};

/// Fills in a Job.
pub fn job(job: &mut Job) {
    let spec = job.spec.get_or_insert_default();
    if spec.completions.is_none() && spec.parallelism.is_none() {
        spec.completions = Some(1);
    }
    spec.parallelism.get_or_insert(1);
    let back_off_limit = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
    spec.backoff_limit.get_or_insert(back_off_limit);
    let template_labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    if job.metadata.labels.as_ref().is_none_or(|labels| labels.is_empty()) {
        // J-11: a Job without labels of its own shows those of its template.
        job.metadata.labels = template_labels.filter(|labels| !labels.is_empty()).cloned();
    }
    spec.completion_mode.get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    let replacement = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
    spec.pod_replacement_policy.get_or_insert_with(|| replacement.to_owned());
    spec.manual_selector.get_or_insert(false);
    job_spec(spec);
    // Kubernetes always writes the status, be it empty.
    job.status.get_or_insert_default();
}

/// Fills in a CronJob. The Job in it is left as it is but for its template: it gets its defaults when it is made (J-127).
pub fn cron_job(cron_job: &mut CronJob) {
    let spec = &mut cron_job.spec;
    default_text(&mut spec.concurrency_policy, "Allow");
    spec.suspend.get_or_insert(false);
    spec.successful_jobs_history_limit.get_or_insert(3);
    spec.failed_jobs_history_limit.get_or_insert(1);
    spec.job_template.metadata.get_or_insert_default();
    job_spec(spec.job_template.spec.get_or_insert_default());
    cron_job.status.get_or_insert_default();
}

fn job_spec(spec: &mut JobSpec) {
    for rule in spec.pod_failure_policy.iter_mut().flat_map(|policy| policy.rules.iter_mut()) {
        for pattern in items_mut(&mut rule.on_pod_conditions) {
            default_text(&mut pattern.status, "True");
        }
    }
    pod::template(&mut spec.template);
}
