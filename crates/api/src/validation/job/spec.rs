//! The spec of a Job (J-28 to J-40, J-45, J-46).

use k8s_openapi::api::batch::v1::{JobSpec, JobTemplateSpec};

use super::failure_policy::validate_pod_failure_policy;
use super::success_policy::validate_success_policy;
use crate::absent::text;
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::labels::{selector_matches, validate_label_selector};
use crate::validation::names;
use crate::validation::pod::validate_template;

const PARALLELISM_MAX_INDEXED: i32 = 100_000;
const FAILED_INDEXES_MAX: i32 = 100_000;
const COMPLETIONS_SOFT_LIMIT: i32 = 100_000;
const LIMIT_FOR_HIGH_COMPLETIONS: i32 = 10_000;
const MANAGED_BY_BYTES_MAX: usize = 63;
const REQUIRES_INDEXED: &str = "requires indexed completion mode";

/// Checks the spec of a Job with its selector.
pub(super) fn validate_job_spec(spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    validate_without_selector(spec, at, errors);
    match &spec.selector {
        None => errors.required(&at.child("selector"), ""),
        Some(selector) => validate_label_selector(Some(selector), &at.child("selector"), errors),
    }
    let labels = spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    if selector_matches(spec.selector.as_ref(), &labels) == Some(false) {
        let at = at.child("template").child("metadata").child("labels");
        errors.invalid_object(&at, &labels, "`selector` does not match template `labels`");
    }
}

/// Checks the Job in a CronJob, which gets its selector later (J-60).
pub(crate) fn validate_job_template(template: &JobTemplateSpec, at: &FieldPath, errors: &mut Errors) {
    let empty = JobSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&empty);
    let at = at.child("spec");
    validate_without_selector(spec, &at, errors);
    if let Some(selector) = &spec.selector {
        errors.invalid_object(&at.child("selector"), selector, "`selector` will be auto-generated");
    }
    if spec.manual_selector == Some(true) {
        errors.not_supported_value(&at.child("manualSelector"), true, &["nil", "false"]);
    }
}

fn validate_without_selector(spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    validate_numbers(spec, at, errors);
    if let Some(managed_by) = &spec.managed_by {
        validate_managed_by(managed_by, &at.child("managedBy"), errors);
    }
    let mode = spec.completion_mode.as_deref();
    if let Some(mode) = mode {
        errors.one_of(&at.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode == Some("Indexed") {
        validate_indexed(spec, at, errors);
    }
    if mode.is_none_or(|mode| mode == "NonIndexed") {
        let fields =
            [("backoffLimitPerIndex", spec.backoff_limit_per_index), ("maxFailedIndexes", spec.max_failed_indexes)];
        for (field, value) in fields {
            if let Some(value) = value {
                errors.invalid(&at.child(field), value, REQUIRES_INDEXED);
            }
        }
    }
    if let Some(policy) = &spec.pod_failure_policy {
        validate_pod_failure_policy(policy, spec, &at.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = &spec.success_policy {
        let at = at.child("successPolicy");
        if mode == Some("Indexed") {
            validate_success_policy(policy, spec.completions.unwrap_or(0), &at, errors);
        } else {
            errors.invalid_object(&at, policy, REQUIRES_INDEXED);
        }
    }
    if let Some(policy) = &spec.pod_replacement_policy {
        let supported: &[&str] =
            if spec.pod_failure_policy.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        errors.one_of(&at.child("podReplacementPolicy"), policy, supported);
    }
    validate_template(&spec.template, &at.child("template"), errors);
    validate_restart_policy(spec, &at.child("template").child("spec").child("restartPolicy"), errors);
}

fn validate_numbers(spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    let numbers = [
        ("parallelism", spec.parallelism.map(i64::from)),
        ("completions", spec.completions.map(i64::from)),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit.map(i64::from)),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.map(i64::from)),
        ("maxFailedIndexes", spec.max_failed_indexes.map(i64::from)),
    ];
    for (field, value) in numbers {
        errors.nonnegative(&at.child(field), value.unwrap_or(0));
    }
    if spec.max_failed_indexes.is_some() && spec.backoff_limit_per_index.is_none() {
        errors.required(&at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
}

/// J-37: `acme.io/foo`.
fn validate_managed_by(managed_by: &str, at: &FieldPath, errors: &mut Errors) {
    match managed_by.split_once('/') {
        _ if managed_by.is_empty() => errors.required(at, ""),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            errors.invalid_text(at, host, names::dns_subdomain(host));
            errors.invalid_text(at, path, names::url_path(path));
        }
        _ => errors.invalid(at, managed_by, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if managed_by.len() > MANAGED_BY_BYTES_MAX {
        errors.too_long(at, MANAGED_BY_BYTES_MAX);
    }
}

/// J-32 to J-36: an Indexed Job has completions, and few enough of everything that its status stays small.
fn validate_indexed(spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    let (parallelism, max_failed) = (spec.parallelism.unwrap_or(0), spec.max_failed_indexes.unwrap_or(0));
    let (parallelism_at, max_failed_at) = (at.child("parallelism"), at.child("maxFailedIndexes"));
    if spec.completions.is_none() {
        errors.required(&at.child("completions"), "when completion mode is Indexed");
    }
    if parallelism > PARALLELISM_MAX_INDEXED {
        let detail = format!("must be less than or equal to {PARALLELISM_MAX_INDEXED} when completion mode is Indexed");
        errors.invalid(&parallelism_at, parallelism, detail);
    }
    if spec.completions.is_some_and(|completions| max_failed > completions) {
        errors.invalid(&max_failed_at, max_failed, "must be less than or equal to completions");
    }
    if max_failed > FAILED_INDEXES_MAX {
        errors.invalid(&max_failed_at, max_failed, format!("must be less than or equal to {FAILED_INDEXES_MAX}"));
    }
    let is_high = spec.completions.is_some_and(|completions| completions > COMPLETIONS_SOFT_LIMIT);
    if !is_high || spec.backoff_limit_per_index.is_none() {
        return;
    }
    if spec.max_failed_indexes.is_none() {
        let detail = format!("must be specified when completions is above {COMPLETIONS_SOFT_LIMIT}");
        errors.required(&max_failed_at, &detail);
    }
    let detail = format!(
        "must be less than or equal to {LIMIT_FOR_HIGH_COMPLETIONS} when completions are above {COMPLETIONS_SOFT_LIMIT} and used with backoff limit per index"
    );
    for (at, value) in [(parallelism_at, parallelism), (max_failed_at, max_failed)] {
        if value > LIMIT_FOR_HIGH_COMPLETIONS {
            errors.invalid(&at, value, detail.as_str());
        }
    }
}

/// J-45, J-46: `Always` is what defaulting fills in, so it counts as missing.
fn validate_restart_policy(spec: &JobSpec, at: &FieldPath, errors: &mut Errors) {
    let policy = spec.template.spec.as_ref().map_or("", |spec| text(&spec.restart_policy));
    match policy {
        "" | "Always" => errors.required(at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.pod_failure_policy.is_some() => {
            errors.invalid(at, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => errors.one_of(at, policy, &["OnFailure", "Never"]),
    }
}
