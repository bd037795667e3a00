//! What scheduling goes by: tolerations, spreading, gates, preemption.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSchedulingGroup, PodSpec, Toleration, TopologySpreadConstraint};

use super::affinity::validate_match_label_keys;
use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::labels::{validate_label_name, validate_label_selector};
use crate::validation::names;

const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(crate) fn validate_tolerations(tolerations: &[Toleration], at: &FieldPath, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &at.index(index), errors);
    }
}

fn validate_toleration(toleration: &Toleration, at: &FieldPath, errors: &mut Errors) {
    let (key, operator) = (text(&toleration.key), text(&toleration.operator));
    let (value, effect) = (text(&toleration.value), text(&toleration.effect));
    if !key.is_empty() {
        validate_label_name(key, &at.child("key"), errors);
    } else if operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&at.child("operator"), operator, detail);
    }
    if toleration.toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&at.child("effect"), effect, detail);
    }
    match operator {
        "Equal" | "" => {
            let wrong = names::label_value(value);
            if !wrong.is_empty() {
                errors.invalid(&at.child("operator"), value, wrong.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.invalid(&at.child("operator"), value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        // The gate TaintTolerationComparisonOperators is off, yet its operators are named.
        "Lt" | "Gt" => errors.not_supported(&at.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => errors.not_supported(&at.child("operator"), operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        errors.one_of(&at.child("effect"), effect, &TAINT_EFFECTS);
    }
}

pub(crate) fn validate_preemption_policy(policy: &str, at: &FieldPath, errors: &mut Errors) {
    errors.required_one_of(at, policy, &["PreemptLowerPriority", "Never"]);
}

pub(super) fn validate_readiness_gates(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    for (index, gate) in items(&spec.readiness_gates).iter().enumerate() {
        let at = at.index(index).child("conditionType");
        errors.invalid_text(&at, &gate.condition_type, names::qualified_name(&gate.condition_type));
    }
}

pub(super) fn validate_scheduling_gates(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, gate) in items(&spec.scheduling_gates).iter().enumerate() {
        let at = at.index(index);
        errors.invalid_text(&at, &gate.name, names::qualified_name(&gate.name));
        if !seen.insert(gate.name.as_str()) {
            errors.duplicate(&at, gate.name.as_str());
        }
    }
}

pub(super) fn validate_scheduling_group(group: &PodSchedulingGroup, at: &FieldPath, errors: &mut Errors) {
    let at = at.child("podGroupName");
    match &group.pod_group_name {
        None => errors.invalid(&at, serde_json::Value::Null, "must specify one of: `podGroupName`"),
        Some(name) => errors.invalid_text(&at, name, names::dns_subdomain(name)),
    }
}

pub(super) fn validate_topology_spread(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let constraints = items(&spec.topology_spread_constraints);
    for (index, constraint) in constraints.iter().enumerate() {
        let following = constraints.get(index + 1..).unwrap_or(&[]);
        validate_spread_constraint(constraint, following, &at.index(index), errors);
    }
}

fn validate_spread_constraint(
    constraint: &TopologySpreadConstraint,
    following: &[TopologySpreadConstraint],
    at: &FieldPath,
    errors: &mut Errors,
) {
    let (key, action) = (constraint.topology_key.as_str(), constraint.when_unsatisfiable.as_str());
    errors.positive(&at.child("maxSkew"), constraint.max_skew);
    if key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    errors.one_of(&at.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
    if following.iter().any(|other| other.topology_key == key && other.when_unsatisfiable == action) {
        errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}"));
    }
    if let Some(domains) = constraint.min_domains {
        let at = at.child("minDomains");
        errors.positive(&at, domains);
        if action != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            errors.invalid(&at, domains, detail);
        }
    }
    let policies = [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ];
    for (field, policy) in policies {
        if let Some(policy) = policy {
            errors.one_of(&at.child(field), policy, &["Honor", "Ignore"]);
        }
    }
    let selector = constraint.label_selector.as_ref();
    validate_match_label_keys(items(&constraint.match_label_keys), &[], selector, at, errors);
    validate_label_selector(selector, &at.child("labelSelector"), errors);
}
