//! What an agent is told of its machine and its place.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use lifecycle::NodeConfig;
use sha2::{Digest, Sha256};

use crate::container::resolv_conf::ClusterDns;
use crate::images::{Progress, Silent};
use crate::paths::DataPaths;
use crate::runtime::RuntimeConfig;

/// An agent's settings.
#[derive(Clone)]
pub struct AgentConfig {
    /// Where the agent keeps its pods.
    pub data_directory: PathBuf,
    /// The image store, which several agents may share.
    pub image_directory: PathBuf,
    /// The node's name in the API.
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// What pods can have of each resource; empty means no limit.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The machine's memory, for `oom_score_adj`.
    pub memory_bytes: u64,
    /// The DNS of the cluster.
    pub dns: ClusterDns,
    /// Registries that are asked by plain HTTP.
    pub insecure_registries: Vec<String>,
    /// Hears how far pulls have come.
    pub progress: Arc<dyn Progress>,
    /// Where shims are kept and what is started as one.
    pub runtime: RuntimeConfig,
}

impl AgentConfig {
    /// The usual settings for a data directory: this machine's address and memory, no limits, images beside the pods.
    pub fn new(data_directory: &Path, node_name: &str) -> Self {
        let paths = DataPaths::new(data_directory);
        AgentConfig {
            data_directory: data_directory.to_owned(),
            image_directory: paths.images(),
            node_name: node_name.to_owned(),
            host_ips: vec![primary_address()],
            allocatable: BTreeMap::new(),
            memory_bytes: memory_bytes(),
            dns: ClusterDns { servers: Vec::new(), domain: "cluster.local".to_owned() },
            insecure_registries: Vec::new(),
            progress: Arc::new(Silent),
            runtime: runtime_config(data_directory),
        }
    }

    pub(super) fn node_config(&self) -> NodeConfig {
        NodeConfig {
            host_ips: self.host_ips.clone(),
            allocatable: self.allocatable.clone(),
            ..NodeConfig::new(&self.node_name)
        }
    }
}

/// The runtime of a data directory: its own state and cgroups, so that two directories can be used side by side.
pub(super) fn runtime_config(data_directory: &Path) -> RuntimeConfig {
    // The same directory by another name is the same directory.
    let absolute = std::fs::canonicalize(data_directory).or_else(|_| std::path::absolute(data_directory));
    let directory = absolute.unwrap_or_else(|_| data_directory.to_owned());
    let digest = Sha256::digest(directory.as_os_str().as_encoded_bytes());
    let short: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    RuntimeConfig::new(&DataPaths::new(&directory).runtime(), &format!("monopod-{short}"))
}

/// The address from which this machine reaches others; localhost's if it reaches none.
fn primary_address() -> IpAddr {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let routed = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        // Chooses a route and sends nothing. The address is reserved for documentation (RFC 5737).
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    });
    routed.unwrap_or(localhost)
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_data_directories_share_neither_state_nor_cgroups() {
        let (one, two) = (runtime_config(Path::new("/data/one")), runtime_config(Path::new("/data/two")));
        assert_ne!(one.state_directory, two.state_directory);
        assert_ne!(one.cgroup_prefix, two.cgroup_prefix);
        assert_eq!(one.cgroup_prefix, runtime_config(Path::new("/data/one")).cgroup_prefix);
    }
}
