//! Affinity to nodes and to pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::absent::{entries, items};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::labels::{validate_label_name, validate_label_selector};
use crate::validation::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT_DETAIL: &str = "must be in the range 1-100";
const UNSET_SELECTOR: &str = "must not be specified when labelSelector is not set";

pub(super) fn validate_affinity(affinity: Option<&Affinity>, at: &FieldPath, errors: &mut Errors) {
    let Some(affinity) = affinity else { return };
    if let Some(node) = &affinity.node_affinity {
        validate_node_affinity(node, &at.child("nodeAffinity"), errors);
    }
    if let Some(pod) = &affinity.pod_affinity {
        let (required, preferred) = (
            items(&pod.required_during_scheduling_ignored_during_execution),
            items(&pod.preferred_during_scheduling_ignored_during_execution),
        );
        validate_pod_affinity(required, preferred, &at.child("podAffinity"), errors);
    }
    if let Some(pod) = &affinity.pod_anti_affinity {
        let (required, preferred) = (
            items(&pod.required_during_scheduling_ignored_during_execution),
            items(&pod.preferred_during_scheduling_ignored_during_execution),
        );
        validate_pod_affinity(required, preferred, &at.child("podAntiAffinity"), errors);
    }
}

/// Label keys whose values a pod takes into its own selectors.
pub(super) fn validate_match_label_keys(
    keys: &[String],
    mismatch_keys: &[String],
    selector: Option<&LabelSelector>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    for (field, keys) in [("matchLabelKeys", keys), ("mismatchLabelKeys", mismatch_keys)] {
        if !keys.is_empty() && selector.is_none() {
            errors.forbidden(&at.child(field), UNSET_SELECTOR);
        } else {
            for (index, key) in keys.iter().enumerate() {
                validate_label_name(key, &at.child(field).index(index), errors);
            }
        }
    }
    if let Some(selector) = selector {
        // The requirement made of a key is in the selector already, so only a second one is the user's.
        let by_key: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
        let mut seen: BTreeSet<&str> = entries(&selector.match_labels).map(|(key, _)| key).collect();
        for requirement in items(&selector.match_expressions) {
            let key = requirement.key.as_str();
            if let Some(index) = by_key.get(key).filter(|_| seen.contains(key)) {
                errors.invalid(&at.index(*index), key, "exists in both matchLabelKeys and labelSelector");
            }
            seen.insert(key);
        }
    }
    for (index, key) in keys.iter().enumerate().filter(|(_, key)| mismatch_keys.contains(key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(&at.child("matchLabelKeys").index(index), key.as_str(), detail);
    }
}

fn validate_node_affinity(affinity: &NodeAffinity, at: &FieldPath, errors: &mut Errors) {
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let at = at.child(REQUIRED).child("nodeSelectorTerms");
        if selector.node_selector_terms.is_empty() {
            errors.required(&at, "must have at least one node selector term");
        }
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            validate_node_term(term, true, &at.index(index), errors);
        }
    }
    for (index, term) in items(&affinity.preferred_during_scheduling_ignored_during_execution).iter().enumerate() {
        let at = at.child(PREFERRED).index(index);
        if !(1..=100).contains(&term.weight) {
            errors.invalid(&at.child("weight"), term.weight, WEIGHT_DETAIL);
        }
        // A preference may name values that no label can have; it gets a warning.
        validate_node_term(&term.preference, false, &at.child("preference"), errors);
    }
}

fn validate_node_term(term: &NodeSelectorTerm, checks_values: bool, at: &FieldPath, errors: &mut Errors) {
    for (index, requirement) in items(&term.match_expressions).iter().enumerate() {
        validate_node_requirement(requirement, checks_values, &at.child("matchExpressions").index(index), errors);
    }
    for (index, requirement) in items(&term.match_fields).iter().enumerate() {
        validate_node_field(requirement, &at.child("matchFields").index(index), errors);
    }
}

fn validate_node_requirement(
    requirement: &NodeSelectorRequirement,
    checks_values: bool,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let values = items(&requirement.values);
    let values_at = at.child("values");
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&values_at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&values_at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        operator => errors.invalid(&at.child("operator"), operator, "not a valid selector operator"),
    }
    validate_label_name(&requirement.key, &at.child("key"), errors);
    for (index, value) in values.iter().enumerate().filter(|_| checks_values) {
        errors.invalid_text(&values_at.index(index), value, names::label_value(value));
    }
}

fn validate_node_field(requirement: &NodeSelectorRequirement, at: &FieldPath, errors: &mut Errors) {
    let values = items(&requirement.values);
    match requirement.operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&at.child("values"), detail);
        }
        "In" | "NotIn" => {}
        operator => errors.invalid(&at.child("operator"), operator, "not a valid selector operator"),
    }
    if requirement.key != "metadata.name" {
        errors.invalid(&at.child("key"), requirement.key.as_str(), "not a valid field selector key");
        return;
    }
    for (index, value) in values.iter().enumerate() {
        errors.invalid_text(&at.child("values").index(index), value, names::dns_subdomain(value));
    }
}

fn validate_pod_affinity(
    required: &[PodAffinityTerm],
    preferred: &[WeightedPodAffinityTerm],
    at: &FieldPath,
    errors: &mut Errors,
) {
    for (index, term) in required.iter().enumerate() {
        validate_pod_term(term, &at.child(REQUIRED).index(index), errors);
    }
    for (index, term) in preferred.iter().enumerate() {
        let at = at.child(PREFERRED).index(index);
        if !(1..=100).contains(&term.weight) {
            errors.invalid(&at.child("weight"), term.weight, WEIGHT_DETAIL);
        }
        validate_pod_term(&term.pod_affinity_term, &at.child("podAffinityTerm"), errors);
    }
}

fn validate_pod_term(term: &PodAffinityTerm, at: &FieldPath, errors: &mut Errors) {
    validate_label_selector(term.label_selector.as_ref(), &at.child("labelSelector"), errors);
    validate_label_selector(term.namespace_selector.as_ref(), &at.child("namespaceSelector"), errors);
    for namespace in items(&term.namespaces) {
        errors.invalid_text(&at.child("namespace"), namespace, names::dns_label(namespace));
    }
    let (keys, mismatch_keys) = (items(&term.match_label_keys), items(&term.mismatch_label_keys));
    validate_match_label_keys(keys, mismatch_keys, term.label_selector.as_ref(), at, errors);
    if term.topology_key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    validate_label_name(&term.topology_key, &at.child("topologyKey"), errors);
}
