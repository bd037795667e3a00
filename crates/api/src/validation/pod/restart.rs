//! A container's own restart policy and its rules (L-1206 to L-1208).

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use crate::absent::items;
use crate::field::FieldPath;
use crate::validation::errors::Errors;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const RULES_WITHOUT_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// As [`validate_restart_policy`]; Kubernetes looks no further into the rules of an init container without a policy.
pub(super) fn validate_init_restart_policy(container: &Container, at: &FieldPath, errors: &mut Errors) {
    if container.restart_policy.is_some() {
        validate_restart_policy(container, at, errors);
    } else if !items(&container.restart_policy_rules).is_empty() {
        errors.required(&at.child("restartPolicy"), RULES_WITHOUT_POLICY);
    }
}

pub(super) fn validate_restart_policy(container: &Container, at: &FieldPath, errors: &mut Errors) {
    let rules = items(&container.restart_policy_rules);
    let policy_at = at.child("restartPolicy");
    match &container.restart_policy {
        None if rules.is_empty() => return,
        None => errors.required(&policy_at, RULES_WITHOUT_POLICY),
        Some(policy) => errors.one_of(&policy_at, policy, &["Always", "Never", "OnFailure"]),
    }
    if rules.len() > RULES_MAX {
        errors.too_many(&at.child("restartPolicyRules"), rules.len(), RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(rule, &at.child("restartPolicyRules").index(index), errors);
    }
}

fn validate_rule(rule: &ContainerRestartRule, at: &FieldPath, errors: &mut Errors) {
    errors.one_of(&at.child("action"), &rule.action, &["Restart", "RestartAllContainers"]);
    let at = at.child("exitCodes");
    let Some(exit_codes) = &rule.exit_codes else {
        errors.required(&at, "must be specified");
        return;
    };
    errors.one_of(&at.child("operator"), &exit_codes.operator, &["In", "NotIn"]);
    let count = items(&exit_codes.values).len();
    if count > EXIT_CODES_MAX {
        errors.too_many(&at.child("values"), count, EXIT_CODES_MAX);
    }
}
