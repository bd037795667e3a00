//! Warnings of node labels that have a newer name.

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use crate::absent::items;
use crate::field::FieldPath;
use crate::validation::names;

const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    ("failure-domain.beta.kubernetes.io/zone", r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#),
    ("beta.kubernetes.io/instance-type", r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// What to say about a label, if it is deprecated.
pub(super) fn deprecation(label: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(name, _)| *name == label).map(|(_, text)| *text)
}

/// A preferred term's values may be no labels' values: they select nothing.
pub(super) fn warn_of_term(term: &NodeSelectorTerm, is_preferred: bool, at: &FieldPath, warnings: &mut Vec<String>) {
    for (index, expression) in items(&term.match_expressions).iter().enumerate() {
        let at = at.child("matchExpressions").index(index);
        if let Some(text) = deprecation(&expression.key) {
            warnings.push(format!("{}: {} is {text}", at.child("key"), expression.key));
        }
        for (index, value) in items(&expression.values).iter().enumerate().filter(|_| is_preferred) {
            let at = at.child("values").index(index);
            warnings.extend(names::label_value(value).iter().map(|wrong| format!("{at}: {value} is invalid, {wrong}")));
        }
    }
}
