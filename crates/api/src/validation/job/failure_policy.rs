//! `podFailurePolicy`: what the failure of a pod means to its Job (J-47 to J-54).

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
};

use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;
/// Sorted as Kubernetes lists them.
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) fn validate_pod_failure_policy(
    policy: &PodFailurePolicy,
    spec: &JobSpec,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let at = at.child("rules");
    if policy.rules.len() > RULES_MAX {
        errors.too_many(&at, policy.rules.len(), RULES_MAX);
    }
    let pod = spec.template.spec.as_ref();
    let containers = pod.iter().flat_map(|pod| pod.containers.iter().chain(items(&pod.init_containers)));
    let names: BTreeSet<&str> = containers.map(|container| container.name.as_str()).collect();
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_rule(rule, spec, &names, &at.index(index), errors);
    }
}

fn validate_rule(
    rule: &PodFailurePolicyRule,
    spec: &JobSpec,
    containers: &BTreeSet<&str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let action_at = at.child("action");
    match rule.action.as_str() {
        "" => errors.required(&action_at, &valid_values(&ACTIONS)),
        "FailIndex" if spec.backoff_limit_per_index.is_none() => {
            errors.invalid(&action_at, "FailIndex", "requires the backoffLimitPerIndex to be set");
        }
        action => errors.one_of(&action_at, action, &ACTIONS),
    }
    if let Some(requirement) = &rule.on_exit_codes {
        validate_exit_codes(requirement, containers, &at.child("onExitCodes"), errors);
    }
    let conditions = items(&rule.on_pod_conditions);
    if !conditions.is_empty() {
        validate_conditions(conditions, &at.child("onPodConditions"), errors);
    }
    match (rule.on_exit_codes.is_some(), conditions.is_empty()) {
        (true, false) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.invalid_without_value(at, detail);
        }
        (false, true) => {
            errors.invalid_without_value(at, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        _ => {}
    }
}

fn validate_conditions(conditions: &[PodFailurePolicyOnPodConditionsPattern], at: &FieldPath, errors: &mut Errors) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(at, conditions.len(), CONDITIONS_MAX);
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let at = at.index(index);
        errors.invalid_text(&at.child("type"), &pattern.type_, names::qualified_name(&pattern.type_));
        match text(&pattern.status) {
            "" => errors.required(&at.child("status"), &valid_values(&STATUSES)),
            status => errors.one_of(&at.child("status"), status, &STATUSES),
        }
    }
}

fn validate_exit_codes(
    requirement: &PodFailurePolicyOnExitCodesRequirement,
    containers: &BTreeSet<&str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    match requirement.operator.as_str() {
        "" => errors.required(&at.child("operator"), &valid_values(&OPERATORS)),
        operator => errors.one_of(&at.child("operator"), operator, &OPERATORS),
    }
    if let Some(name) = requirement.container_name.as_deref().filter(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&at.child("containerName"), name, detail);
    }
    let (values, at) = (requirement.values.as_slice(), at.child("values"));
    if values.is_empty() {
        errors.invalid(&at, serde_json::Value::Null, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&at, values.len(), EXIT_CODES_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if requirement.operator == "In" && *value == 0 {
            errors.invalid(&at.index(index), *value, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(&at.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid_object(&at, &values, "must be ordered");
    }
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}
