//! The columns of Pods, as cells, and of the small kinds of the core group.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
pub(super) use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, PodTemplate, Secret, ServiceAccount};
use serde_json::Value;

use super::pod::pod_row;
use super::table::{Column, Completion, Tabular, age, name};
use super::words::{container_images, container_names, format_labels};
use crate::absent::text;

impl Tabular for Pod {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Status"),
        Column::text("Restarts"),
        Column::AGE,
        Column::wide("IP"),
        Column::wide("Node"),
        Column::wide("Nominated Node"),
        Column::wide("Readiness Gates"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let row = pod_row(self, now);
        let wide = [row.ip, row.node, row.nominated_node, row.readiness_gates];
        [row.name, row.ready, row.status, row.restarts, row.age].into_iter().chain(wide).map(Value::from).collect()
    }

    fn completion(&self) -> Option<Completion> {
        match self.status.as_ref().map(|status| text(&status.phase)) {
            Some("Succeeded") => Some(Completion::Succeeded),
            Some("Failed") => Some(Completion::Failed),
            _ => None,
        }
    }
}

impl Tabular for ConfigMap {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Data"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let entries = self.data.iter().flatten().count() + self.binary_data.iter().flatten().count();
        vec![name(&self.metadata), entries.into(), age(&self.metadata, now)]
    }
}

impl Tabular for Secret {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Type"), Column::text("Data"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let entries = self.data.iter().flatten().count();
        vec![name(&self.metadata), text(&self.type_).into(), entries.into(), age(&self.metadata, now)]
    }
}

impl Tabular for Namespace {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Status"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let phase = self.status.as_ref().map(|status| text(&status.phase)).unwrap_or_default();
        vec![name(&self.metadata), phase.into(), age(&self.metadata, now)]
    }
}

impl Tabular for ServiceAccount {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        vec![name(&self.metadata), age(&self.metadata, now)]
    }
}

impl Tabular for PodTemplate {
    const COLUMNS: &'static [Column] =
        &[Column::NAME, Column::text("Containers"), Column::text("Images"), Column::text("Pod Labels")];

    fn cells(&self, _now: Timestamp) -> Vec<Value> {
        let template = self.template.as_ref();
        let containers: &[Container] = template
            .and_then(|template| template.spec.as_ref())
            .map(|spec| spec.containers.as_slice())
            .unwrap_or_default();
        let labels =
            template.and_then(|template| template.metadata.as_ref()).and_then(|metadata| metadata.labels.as_ref());
        vec![
            name(&self.metadata),
            container_names(containers).into(),
            container_images(containers).into(),
            format_labels(labels).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check;

    #[test]
    fn a_67_small_kinds_show_what_they_hold() {
        let created = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
        check(
            "ConfigMap",
            json!({"metadata": created, "data": {"a": "1"}, "binaryData": {"b": "MQ=="}}),
            json!(["x", 2, "5m"]),
        );
        check(
            "Secret",
            json!({"metadata": created, "type": "Opaque", "data": {"a": "MQ=="}}),
            json!(["x", "Opaque", 1, "5m"]),
        );
        check("Namespace", json!({"metadata": created, "status": {"phase": "Active"}}), json!(["x", "Active", "5m"]));
        check("ServiceAccount", json!({"metadata": created}), json!(["x", "5m"]));
        let template = json!({"metadata": {"labels": {"b": "2", "a": "1"}}, "spec": {"containers": [
            {"name": "one", "image": "i1"}, {"name": "two", "image": "i2"},
        ]}});
        check(
            "PodTemplate",
            json!({"metadata": created, "template": template}),
            json!(["x", "one,two", "i1,i2", "a=1,b=2"]),
        );
    }
}
