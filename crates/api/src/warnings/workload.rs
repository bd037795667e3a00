//! Warnings of Jobs and the other kinds that have a pod template.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job, JobSpec};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec, ReplicationController};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pod::warn_of_template;
use super::{warn_of_claim, warn_of_name};
use crate::absent::{items, text};
use crate::field::FieldPath;

/// More indexes than this can't be recorded if many of them fail and many run at once.
const COMPLETIONS_SOFT_MAX: i32 = 100_000;
const PARALLELISM_SOFT_MAX: i32 = 10_000;

/// Warnings for a Job that is created.
pub fn job(job: &Job) -> Vec<String> {
    let mut warnings = begin(&job.metadata);
    warn_of_job(job.spec.as_ref(), &FieldPath::root("spec"), &mut warnings);
    warnings
}

/// Warnings for a Job that replaces an old one.
pub fn job_update(new: &Job, old: &Job) -> Vec<String> {
    let mut warnings = Vec::new();
    if new.metadata.generation != old.metadata.generation {
        warn_of_job(new.spec.as_ref(), &FieldPath::root("spec"), &mut warnings);
    }
    warnings
}

/// Warnings for a CronJob that is created.
pub fn cron_job(cron_job: &CronJob) -> Vec<String> {
    let mut warnings = begin(&cron_job.metadata);
    warn_of_job(cron_job.spec.job_template.spec.as_ref(), &job_template_at(), &mut warnings);
    warnings
}

/// Warnings for a CronJob that replaces an old one.
pub fn cron_job_update(new: &CronJob, old: &CronJob) -> Vec<String> {
    let mut warnings = Vec::new();
    if new.metadata.generation != old.metadata.generation {
        warn_of_job(new.spec.job_template.spec.as_ref(), &job_template_at(), &mut warnings);
    }
    if new.spec.schedule.contains("TZ") {
        let page = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
        warnings.push(format!(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see {page} for more details"
        ));
    }
    warnings
}

/// Warnings for a PodTemplate that is created.
pub fn pod_template(template: &PodTemplate) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(template) = &template.template {
        warn_of_template(template, &FieldPath::root("template"), &mut warnings);
    }
    warnings
}

/// Warnings for a Deployment that is created.
pub fn deployment(deployment: &Deployment) -> Vec<String> {
    let mut warnings = begin(&deployment.metadata);
    warn_of_spec_template(&deployment.spec.template, &mut warnings);
    warnings
}

/// Warnings for a ReplicaSet that is created.
pub fn replica_set(replica_set: &ReplicaSet) -> Vec<String> {
    let mut warnings = begin(&replica_set.metadata);
    if let Some(template) = &replica_set.spec.template {
        warn_of_spec_template(template, &mut warnings);
    }
    warnings
}

/// Warnings for a ReplicationController that is created.
pub fn replication_controller(controller: &ReplicationController) -> Vec<String> {
    let mut warnings = begin(&controller.metadata);
    if let Some(template) = controller.spec.as_ref().and_then(|spec| spec.template.as_ref()) {
        warn_of_spec_template(template, &mut warnings);
    }
    warnings
}

/// Warnings for a DaemonSet that is created.
pub fn daemon_set(daemon_set: &DaemonSet) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_of_spec_template(&daemon_set.spec.template, &mut warnings);
    warnings
}

/// Warnings for a StatefulSet that is created.
pub fn stateful_set(stateful_set: &StatefulSet) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = &stateful_set.spec;
    warn_of_spec_template(&spec.template, &mut warnings);
    let at = FieldPath::root("spec").child("volumeClaimTemplates");
    for (index, claim) in items(&spec.volume_claim_templates).iter().enumerate() {
        if let Some(claim) = &claim.spec {
            warn_of_claim(claim, &at.index(index), &mut warnings);
        }
    }
    if spec.revision_history_limit.is_some_and(|limit| limit < 0) {
        let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {text}"));
    }
    warnings
}

fn begin(metadata: &ObjectMeta) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_of_name(text(&metadata.name), "Pod names and hostnames", &mut warnings);
    warnings
}

fn job_template_at() -> FieldPath {
    FieldPath::root("spec").child("jobTemplate").child("spec")
}

fn warn_of_spec_template(template: &PodTemplateSpec, warnings: &mut Vec<String>) {
    warn_of_template(template, &FieldPath::root("spec").child("template"), warnings);
}

fn warn_of_job(spec: Option<&JobSpec>, at: &FieldPath, warnings: &mut Vec<String>) {
    let Some(spec) = spec else { return };
    let is_large =
        spec.completions.unwrap_or(0) > COMPLETIONS_SOFT_MAX && spec.parallelism.unwrap_or(0) > PARALLELISM_SOFT_MAX;
    if text(&spec.completion_mode) == "Indexed" && is_large {
        let case = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4";
        let text = "Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        warnings.push(format!("{at}: {case}, {text}"));
    }
    warn_of_template(&spec.template, &at.child("template"), warnings);
}
