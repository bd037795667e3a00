//! The columns of small kinds about scheduling, running and disrupting pods, and of leases.

use jiff::Timestamp;
pub(super) use k8s_openapi::api::coordination::v1::Lease;
pub(super) use k8s_openapi::api::node::v1::RuntimeClass;
pub(super) use k8s_openapi::api::policy::v1::PodDisruptionBudget;
pub(super) use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use super::table::{Column, Tabular, age, name};
use crate::absent::text;

impl Tabular for Lease {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Holder"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let holder = self.spec.as_ref().map(|spec| text(&spec.holder_identity)).unwrap_or_default();
        vec![name(&self.metadata), holder.into(), age(&self.metadata, now)]
    }
}

impl Tabular for RuntimeClass {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Handler"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![name(&self.metadata), self.handler.clone().into(), age(&self.metadata, now)]
    }
}

impl Tabular for PriorityClass {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::integer("Value"),
        Column::boolean("Global-Default"),
        Column::AGE,
        Column::text("PreemptionPolicy"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![
            name(&self.metadata),
            self.value.into(),
            self.global_default.unwrap_or(false).into(),
            age(&self.metadata, now),
            text(&self.preemption_policy).into(),
        ]
    }
}

impl Tabular for PodDisruptionBudget {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Min Available"),
        Column::text("Max Unavailable"),
        Column::integer("Allowed Disruptions"),
        Column::AGE,
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let bound = |bound: Option<&IntOrString>| match bound {
            Some(IntOrString::Int(number)) => number.to_string(),
            Some(IntOrString::String(text)) => text.clone(),
            None => "N/A".to_owned(),
        };
        let spec = self.spec.as_ref();
        vec![
            name(&self.metadata),
            bound(spec.and_then(|spec| spec.min_available.as_ref())).into(),
            bound(spec.and_then(|spec| spec.max_unavailable.as_ref())).into(),
            self.status.as_ref().and_then(|status| status.disruptions_allowed).unwrap_or(0).into(),
            age(&self.metadata, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check_group;

    #[test]
    fn a_67_small_kinds_outside_of_the_core_group() {
        let metadata = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let lease = json!({"metadata": metadata, "spec": {"holderIdentity": "n"}});
        check_group("coordination.k8s.io", "Lease", lease, json!(["x", "n", "5m"]));
        let class = json!({"metadata": metadata, "handler": "runc"});
        check_group("node.k8s.io", "RuntimeClass", class, json!(["x", "runc", "5m"]));
        let class = json!({"metadata": metadata, "value": 1000, "preemptionPolicy": "Never"});
        check_group("scheduling.k8s.io", "PriorityClass", class, json!(["x", 1000, false, "5m", "Never"]));
        let budget = json!({"metadata": metadata, "spec": {"minAvailable": "50%"}, "status": {
            "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 2,
        }});
        check_group("policy", "PodDisruptionBudget", budget, json!(["x", "50%", "N/A", 1, "5m"]));
    }
}
