//! Jobs (J-26 to J-59) and the specs of Jobs in CronJobs (J-60).

mod failure_policy;
mod indexes;
mod spec;
mod status;
mod success_policy;
mod update;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::errors::Errors;
use super::labels::selector_matches;
use super::meta::{Scope, validate_object_meta};
use super::names::{NameRule, is_label};
use crate::absent::{entry, text};
use crate::field::{FieldError, FieldPath};

pub use self::indexes::{IndexListError, count_indexes};
pub(crate) use self::spec::validate_job_template;
pub use self::status::validate_job_status_update;
pub use self::update::validate_job_update;

const JOB_NAME_BYTES_MAX: usize = 63;

/// Checks a Job that is to be created, its selector and labels generated already.
pub fn validate_job(job: &Job) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole(job, true, &mut errors);
    errors.into_list()
}

fn validate_whole(job: &Job, requires_prefixed_labels: bool, errors: &mut Errors) {
    let empty = JobSpec::default();
    let spec = job.spec.as_ref().unwrap_or(&empty);
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&job.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, errors);
    validate_generated_selector(job, spec, requires_prefixed_labels, errors);
    spec::validate_job_spec(spec, &FieldPath::root("spec"), errors);
    validate_pod_hostname(job, spec, &metadata_at.child("name"), errors);
}

/// J-41, J-42: what [`crate::strategy::job`] generates is there, unless the user chose a selector.
fn validate_generated_selector(job: &Job, spec: &JobSpec, requires_prefixed_labels: bool, errors: &mut Errors) {
    let Some(selector) = spec.selector.as_ref().filter(|_| spec.manual_selector != Some(true)) else { return };
    let (uid, name) = (text(&job.metadata.uid), text(&job.metadata.name));
    if uid.is_empty() {
        errors.required(&FieldPath::root("metadata").child("uid"), "");
    }
    let mut expected = vec![("controller-uid", uid), ("job-name", name)];
    if requires_prefixed_labels {
        expected.extend([("batch.kubernetes.io/controller-uid", uid), ("batch.kubernetes.io/job-name", name)]);
    }
    let empty = ObjectMeta::default();
    let template = spec.template.metadata.as_ref().unwrap_or(&empty);
    for (key, value) in &expected {
        validate_has_label(template, key, value, errors);
    }
    let labels = expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if selector_matches(Some(selector), &Some(labels)) == Some(false) {
        errors.invalid_object(&FieldPath::root("spec").child("selector"), selector, "`selector` not auto-generated");
    }
}

fn validate_has_label(template: &ObjectMeta, key: &str, expected: &str, errors: &mut Errors) {
    let at = FieldPath::root("spec").child("template").child("metadata").child("labels").key(key);
    match entry(&template.labels, key) {
        None => errors.required(&at, &format!("must be '{expected}'")),
        Some(value) if value != expected => {
            errors.invalid_object(&at, &template.labels, format!("must be '{expected}'"));
        }
        Some(_) => {}
    }
}

/// J-27: each pod of an Indexed Job has the Job's name and its index as hostname.
fn validate_pod_hostname(job: &Job, spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    let completions = spec.completions.filter(|completions| *completions > 0);
    let Some(completions) = completions.filter(|_| text(&spec.completion_mode) == "Indexed") else { return };
    let name = text(&job.metadata.name);
    let hostname = format!("{name}-{}", completions - 1);
    if hostname.len() > JOB_NAME_BYTES_MAX || !is_label(&hostname) {
        errors.invalid(at, name, format!("will not able to create pod with invalid DNS label: {hostname}"));
    }
}
