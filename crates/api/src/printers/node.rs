//! The columns of a Node.

use std::collections::BTreeSet;

use jiff::Timestamp;
pub(super) use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::{NodeStatus, NodeSystemInfo};
use serde_json::Value;

use super::table::{Column, Tabular, age, name};
use super::words::or_none;
use crate::absent::{entries, items};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

impl Tabular for Node {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Roles"),
        Column::AGE,
        Column::text("Version"),
        Column::wide("Internal-IP"),
        Column::wide("External-IP"),
        Column::wide("OS-Image"),
        Column::wide("Kernel-Version"),
        Column::wide("Container-Runtime"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let (no_status, no_info) = (NodeStatus::default(), NodeSystemInfo::default());
        let status = self.status.as_ref().unwrap_or(&no_status);
        let info = status.node_info.as_ref().unwrap_or(&no_info);
        let mut kernel = or_unknown(&info.kernel_version);
        if !info.architecture.is_empty() {
            kernel = format!("{kernel} ({})", info.architecture);
        }
        vec![
            name(&self.metadata),
            status_words(self, status).into(),
            or_none(&roles(self)).into(),
            age(&self.metadata, now),
            info.kubelet_version.clone().into(),
            or_none(address(status, "InternalIP")).into(),
            or_none(address(status, "ExternalIP")).into(),
            or_unknown(&info.os_image).into(),
            kernel.into(),
            or_unknown(&info.container_runtime_version).into(),
        ]
    }
}

fn status_words(node: &Node, status: &NodeStatus) -> String {
    let ready = items(&status.conditions).iter().rfind(|condition| condition.type_ == "Ready");
    let word = match ready {
        Some(condition) if condition.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    if unschedulable { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(node: &Node) -> String {
    let role = |(key, value)| match (str::strip_prefix(key, ROLE_PREFIX), key, value) {
        (Some(role), ..) => role.to_owned(),
        (None, ROLE, value) => String::clone(value),
        _ => String::new(),
    };
    let roles: BTreeSet<String> = entries(&node.metadata.labels).map(role).filter(|role| !role.is_empty()).collect();
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(status: &'a NodeStatus, kind: &str) -> &'a str {
    let found = items(&status.addresses).iter().find(|address| address.type_ == kind);
    found.map(|address| address.address.as_str()).unwrap_or_default()
}

fn or_unknown(text: &str) -> String {
    if text.is_empty() { "<unknown>".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check;

    #[test]
    fn a_70_the_cells_of_a_node() {
        let info = json!({
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "monopod://0.1.0", "kernelVersion": "6.1.0",
            "kubeProxyVersion": "", "kubeletVersion": "v1.36.2", "machineID": "", "operatingSystem": "linux",
            "osImage": "Debian 12", "systemUUID": "",
        });
        let labels = json!({"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "control", "node-role.kubernetes.io/": "x"});
        let node = json!({
            "metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels},
            "spec": {"unschedulable": true},
            "status": {
                "nodeInfo": info,
                "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let wanted = json!([
            "n",
            "Ready,SchedulingDisabled",
            "control,worker",
            "5m",
            "v1.36.2",
            "10.0.0.1",
            "<none>",
            "Debian 12",
            "6.1.0 (amd64)",
            "monopod://0.1.0"
        ]);
        check("Node", node, wanted);
        let bare = json!({"metadata": {"name": "n"}});
        let wanted = json!([
            "n",
            "Unknown",
            "<none>",
            "<unknown>",
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ]);
        check("Node", bare, wanted);
    }
}
