//! What the engine must know of its node.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The node's settings, constant for an engine's life.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's name.
    pub node_name: String,
    /// The node's addresses, the primary one first (`status.hostIP`, `status.hostIPs`).
    pub host_ips: Vec<IpAddr>,
    /// What stands before `://` in a container id.
    pub runtime_name: String,
    /// What pods can have of each resource; admission refuses what does not fit. Empty means no limit.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The first wait of the crash-loop back-off (L-306).
    pub back_off_initial: Duration,
    /// The longest wait of the crash-loop back-off (L-306).
    pub back_off_max: Duration,
    /// Whether `lifecycle.stopSignal` is honoured (gate ContainerStopSignals, L-507).
    pub stop_signals: bool,
}

impl NodeConfig {
    /// A node of the given name with Kubernetes' defaults, without addresses or limits.
    pub fn new(node_name: &str) -> Self {
        NodeConfig {
            node_name: node_name.to_owned(),
            host_ips: Vec::new(),
            runtime_name: "monopod".to_owned(),
            allocatable: BTreeMap::new(),
            back_off_initial: Duration::from_secs(10),
            back_off_max: Duration::from_secs(300),
            stop_signals: false,
        }
    }
}
