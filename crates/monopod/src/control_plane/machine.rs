//! This machine as the cluster's one node: its name, its capacity, its object.

use std::collections::BTreeMap;

use anyhow::Context as _;
use api::quantity::Amount;
use apiserver::{ApiError, Registry};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// Pods that one node takes, Kubernetes' own limit.
const PODS_MAX: i64 = 110;

/// What is known of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The host's name, lower case.
    pub(crate) name: String,
    /// What it has of each resource.
    pub(crate) capacity: BTreeMap<String, Quantity>,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
    kernel_version: String,
    machine_id: String,
}

impl Machine {
    /// Reads what the kernel says.
    pub(crate) fn read() -> anyhow::Result<Machine> {
        let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").context("cannot read the host's name")?;
        let kernel_version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let machine_id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let memory = std::fs::read_to_string("/proc/meminfo").context("cannot read the size of the memory")?;
        let memory_bytes = memory_total(&memory).context("/proc/meminfo does not name the size of the memory")?;
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let capacity = [
            ("cpu", Amount::whole(i64::try_from(cpus).unwrap_or(1))),
            ("memory", Amount::bytes(i64::try_from(memory_bytes).unwrap_or(i64::MAX))),
            ("pods", Amount::whole(PODS_MAX)),
        ];
        Ok(Machine {
            name: node_name(&host_name),
            capacity: capacity.into_iter().map(|(name, amount)| (name.to_owned(), amount.to_quantity())).collect(),
            memory_bytes,
            kernel_version: kernel_version.trim().to_owned(),
            machine_id: machine_id.trim().to_owned(),
        })
    }

    /// Makes the Node object, or renews its status.
    pub(crate) async fn register(&self, registry: &Registry) -> Result<(), ApiError> {
        let node = self.node(registry);
        match registry.create_typed(&node).await {
            Err(error) if error.is_already_exists() => {}
            answer => {
                answer?;
            }
        }
        registry.update_status_typed(&node).await.map(drop)
    }

    fn node(&self, registry: &Registry) -> Node {
        let labels = [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", architecture()),
        ];
        let now = Time(registry.now());
        let ready = NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: Some("KubeletReady".to_owned()),
            message: Some("kubelet is posting ready status".to_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(now),
        };
        let host_name = NodeAddress { type_: "Hostname".to_owned(), address: self.name.clone() };
        Node {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec::default()),
            status: Some(NodeStatus {
                addresses: Some(vec![host_name]),
                allocatable: Some(self.capacity.clone()),
                capacity: Some(self.capacity.clone()),
                conditions: Some(vec![ready]),
                node_info: Some(self.system_info()),
                ..NodeStatus::default()
            }),
        }
    }

    fn system_info(&self) -> NodeSystemInfo {
        NodeSystemInfo {
            architecture: architecture().to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "Linux".to_owned(),
            kernel_version: self.kernel_version.clone(),
            machine_id: self.machine_id.clone(),
            kubelet_version: format!("v1.36.2-monopod.{}", env!("CARGO_PKG_VERSION")),
            container_runtime_version: format!("monopod://{}", env!("CARGO_PKG_VERSION")),
            ..NodeSystemInfo::default()
        }
    }
}

/// The machine's architecture in Go's words.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A host's name as a node may be called: lower case, and never empty.
fn node_name(host_name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name: String =
        host_name.trim().to_ascii_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_becomes_a_node_name() {
        assert_eq!(node_name("Build_Host.example.\n"), "build-host.example");
        assert_eq!(node_name("(none)"), "none");
        assert_eq!(node_name("..."), "localhost");
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_total("MemTotal:       24576 kB\nMemFree: 1 kB\n"), Some(24576 * 1024));
        assert_eq!(memory_total("MemFree: 1 kB\n"), None);
    }
}
