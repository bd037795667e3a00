//! Why a node is not for a pod: the filters of the default scheduler that look at the node itself, in its words.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    ContainerPort, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

use super::cluster::Candidate;
use crate::object::name_of;

/// Why a node is not for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) reasons: Vec<String>,
    /// The pod would fit if others left the node.
    pub(crate) may_be_resolved: bool,
}

impl Misfit {
    pub(crate) fn for_good(reason: &str) -> Option<Misfit> {
        Some(Misfit { reasons: vec![reason.to_owned()], may_be_resolved: false })
    }

    pub(crate) fn for_now(reason: &str) -> Option<Misfit> {
        Some(Misfit { reasons: vec![reason.to_owned()], may_be_resolved: true })
    }
}

pub(crate) fn unschedulable(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    let is_unschedulable = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if !is_unschedulable || tolerates(spec, &taint) {
        return None;
    }
    Misfit::for_good("node(s) were unschedulable")
}

pub(crate) fn taints(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    let taints = node.spec.iter().flat_map(|spec| &spec.taints).flatten();
    let mut forbidding = taints.filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    if forbidding.all(|taint| tolerates(spec, taint)) {
        return None;
    }
    Misfit::for_good("node(s) had untolerated taint(s)")
}

fn tolerates(spec: &PodSpec, taint: &Taint) -> bool {
    let mut tolerations = spec.tolerations.iter().flatten();
    tolerations.any(|toleration| does_tolerate(toleration, taint))
}

fn does_tolerate(toleration: &Toleration, taint: &Taint) -> bool {
    let is_set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if is_set(&toleration.effect) && toleration.effect.as_deref() != Some(&taint.effect) {
        return false;
    }
    if is_set(&toleration.key) && toleration.key.as_deref() != Some(&taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            let value = toleration.value.as_deref().unwrap_or_default();
            is_set(&toleration.key) && value == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

pub(crate) fn node_affinity(spec: &PodSpec, node: &Node) -> Option<Misfit> {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let mut selector = spec.node_selector.iter().flatten();
    let selected = selector.all(|(key, value)| labels.get(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    if selected && required.is_none_or(|required| matches_any(required, node, &labels)) {
        return None;
    }
    Misfit::for_good("node(s) didn't match Pod's node affinity/selector")
}

fn matches_any(selector: &NodeSelector, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| matches_term(term, node, labels))
}

/// All of a term must match; a term that asks for nothing matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &Node, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let name = name_of(&node.metadata);
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let label = |key: &str| labels.get(key).map(String::as_str);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|one| holds(one, label(&one.key)))
        && fields.iter().all(|one| holds(one, field(&one.key)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|one| one == value));
    let compare = |test: fn(i64, i64) -> bool| {
        let value = value.and_then(|value| value.parse().ok());
        let bound = values.first().and_then(|bound| bound.parse().ok());
        matches!((value, bound), (Some(value), Some(bound)) if test(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}

pub(crate) fn host_ports(spec: &PodSpec, candidate: &Candidate<'_>) -> Option<Misfit> {
    let wanted = ports(spec);
    let taken = candidate.pods.iter().filter_map(|pod| pod.spec.as_ref());
    let taken: Vec<_> = taken.flat_map(ports).collect();
    let clash = wanted.iter().any(|one| taken.iter().any(|other| clashes(one, other)));
    if !clash {
        return None;
    }
    Misfit::for_now("node(s) didn't have free ports for the requested pod ports")
}

/// Host ports of app containers and sidecars.
fn ports(spec: &PodSpec) -> Vec<&ContainerPort> {
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|one| &one.ports);
    ports.flatten().filter(|port| port.host_port.is_some_and(|port| port > 0)).collect()
}

fn clashes(one: &ContainerPort, other: &ContainerPort) -> bool {
    let protocol = |port: &ContainerPort| port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let ip = |port: &ContainerPort| port.host_ip.clone().unwrap_or_default();
    let is_any = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
    one.host_port == other.host_port
        && protocol(one) == protocol(other)
        && (ip(one) == ip(other) || is_any(&ip(one)) || is_any(&ip(other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taints: serde_json::Value) -> Node {
        let node = serde_json::json!({
            "metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "8"}},
            "spec": {"taints": taints},
        });
        serde_json::from_value(node).unwrap_or_default()
    }

    fn spec(mut spec: serde_json::Value) -> PodSpec {
        if let Some(fields) = spec.as_object_mut() {
            fields.insert("containers".to_owned(), serde_json::json!([]));
        }
        serde_json::from_value(spec).unwrap_or_default()
    }

    #[test]
    fn taints_that_forbid_must_be_tolerated() {
        let tainted = node(serde_json::json!([
            {"key": "a", "value": "1", "effect": "NoSchedule"},
            {"key": "b", "effect": "PreferNoSchedule"},
        ]));
        for (tolerations, fits) in [
            (serde_json::json!([]), false),
            (serde_json::json!([{"key": "a", "value": "1"}]), true),
            (serde_json::json!([{"key": "a", "value": "2"}]), false),
            (serde_json::json!([{"key": "a", "operator": "Exists"}]), true),
            (serde_json::json!([{"operator": "Exists"}]), true),
            (serde_json::json!([{"operator": "Exists", "effect": "NoExecute"}]), false),
        ] {
            let spec = spec(serde_json::json!({ "tolerations": tolerations }));
            assert_eq!(taints(&spec, &tainted).is_none(), fits, "{tolerations}");
        }
    }

    #[test]
    fn selectors_and_affinity_must_match_the_node() {
        let node = node(serde_json::json!([]));
        let affinity = |terms: serde_json::Value| serde_json::json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        for (pod, fits) in [
            (serde_json::json!({"nodeSelector": {"disk": "ssd"}}), true),
            (serde_json::json!({"nodeSelector": {"disk": "hdd"}}), false),
            (affinity(serde_json::json!([{}])), false),
            (
                affinity(
                    serde_json::json!([{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}]),
                ),
                true,
            ),
            (
                affinity(
                    serde_json::json!([{"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}]),
                ),
                false,
            ),
            (
                affinity(
                    serde_json::json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}]),
                ),
                true,
            ),
            (
                affinity(
                    serde_json::json!([{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]),
                ),
                true,
            ),
        ] {
            assert_eq!(node_affinity(&spec(pod.clone()), &node).is_none(), fits, "{pod}");
        }
    }

    #[test]
    fn host_ports_clash_by_port_protocol_and_address() {
        let port = |port: i32, protocol: Option<&str>, ip: Option<&str>| ContainerPort {
            host_port: Some(port),
            protocol: protocol.map(Into::into),
            host_ip: ip.map(Into::into),
            ..ContainerPort::default()
        };
        let any = port(80, None, None);
        assert!(clashes(&any, &port(80, Some("TCP"), Some("10.0.0.1"))));
        assert!(!clashes(&any, &port(80, Some("UDP"), None)));
        assert!(!clashes(&any, &port(81, None, None)));
        assert!(!clashes(&port(80, None, Some("10.0.0.1")), &port(80, None, Some("10.0.0.2"))));
    }
}
