//! Labels and label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::errors::Errors;
use super::names;
use crate::absent::{entries, items};
use crate::field::FieldPath;

pub(crate) fn validate_label_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    errors.invalid_text(at, name, names::qualified_name(name));
}

pub(crate) fn validate_labels(labels: &Option<BTreeMap<String, String>>, at: &FieldPath, errors: &mut Errors) {
    for (key, value) in entries(labels) {
        validate_label_name(key, at, errors);
        errors.invalid_text(at, value, names::label_value(value));
    }
}

/// Checks a label selector, which may be absent.
pub(crate) fn validate_label_selector(selector: Option<&LabelSelector>, at: &FieldPath, errors: &mut Errors) {
    let Some(selector) = selector else { return };
    validate_labels(&selector.match_labels, &at.child("matchLabels"), errors);
    for (index, requirement) in items(&selector.match_expressions).iter().enumerate() {
        validate_requirement(requirement, &at.child("matchExpressions").index(index), errors);
    }
}

fn validate_requirement(requirement: &LabelSelectorRequirement, at: &FieldPath, errors: &mut Errors) {
    let values = items(&requirement.values);
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&at.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&at.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        operator => errors.invalid(&at.child("operator"), operator, "not a valid selector operator"),
    }
    validate_label_name(&requirement.key, &at.child("key"), errors);
    for (index, value) in values.iter().enumerate() {
        errors.invalid_text(&at.child("values").index(index), value, names::label_value(value));
    }
}

/// Whether a selector is one that can be evaluated and picks an object with these labels.
/// A selector that can't be evaluated gives `None`.
pub(crate) fn selector_matches(
    selector: Option<&LabelSelector>,
    labels: &Option<BTreeMap<String, String>>,
) -> Option<bool> {
    let Some(selector) = selector else { return Some(false) };
    let mut errors = Errors::default();
    validate_label_selector(Some(selector), &FieldPath::root("selector"), &mut errors);
    if !errors.is_empty() {
        return None;
    }
    let label = |key: &str| labels.as_ref().and_then(|labels| labels.get(key));
    let equal = entries(&selector.match_labels).all(|(key, value)| label(key) == Some(value));
    let met = items(&selector.match_expressions).iter().all(|requirement| {
        let value = label(&requirement.key);
        let is_listed = value.is_some_and(|value| items(&requirement.values).contains(value));
        match requirement.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    });
    Some(equal && met)
}
