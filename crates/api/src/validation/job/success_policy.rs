//! `successPolicy`: when an Indexed Job has succeeded before all of it has (J-55 to J-58).

use k8s_openapi::api::batch::v1::{SuccessPolicy, SuccessPolicyRule};

use super::indexes::count_indexes;
use crate::field::FieldPath;
use crate::validation::errors::Errors;

const RULES_MAX: usize = 20;
const INDEXES_BYTES_MAX: usize = 64 * 1024;

pub(super) fn validate_success_policy(policy: &SuccessPolicy, completions: i32, at: &FieldPath, errors: &mut Errors) {
    let at = at.child("rules");
    if policy.rules.is_empty() {
        errors.required(&at, "at least one rules must be specified when the successPolicy is specified");
    }
    if policy.rules.len() > RULES_MAX {
        errors.too_many(&at, policy.rules.len(), RULES_MAX);
    }
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_rule(rule, completions, &at.index(index), errors);
    }
}

fn validate_rule(rule: &SuccessPolicyRule, completions: i32, at: &FieldPath, errors: &mut Errors) {
    if rule.succeeded_count.is_none() && rule.succeeded_indexes.is_none() {
        errors.required(at, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut listed = 0;
    if let Some(indexes) = &rule.succeeded_indexes {
        let at = at.child("succeededIndexes");
        if indexes.len() > INDEXES_BYTES_MAX {
            errors.too_long(&at, INDEXES_BYTES_MAX);
        }
        match count_indexes(indexes, completions) {
            Ok(count) => listed = count,
            Err(error) => errors.invalid(&at, indexes.as_str(), format!("error parsing succeededIndexes: {error}")),
        }
    }
    let Some(count) = rule.succeeded_count else { return };
    let at = at.child("succeededCount");
    errors.nonnegative(&at, count);
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&at, count, detail);
    }
    if rule.succeeded_indexes.is_some() && i64::from(count) > listed {
        let detail = format!(
            "must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&at, count, detail);
    }
}
