//! Where the probes and hooks of a pod go.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use lifecycle::{NodeConfig, SandboxRecord};

use super::network::Network;
use crate::runtime::{RuntimeError, RuntimeService};

/// A pod as it is reached when a probe or hook names no host of its own.
#[derive(Clone, Debug)]
pub struct PodTarget {
    /// The address, as messages show it.
    pub host: String,
    /// The network in which it is reached.
    pub network: Network,
}

impl PodTarget {
    /// The target of a sandbox's pod.
    ///
    /// A pod on the node's network has the node's address.
    /// Any other is reached inside its own network namespace: by its address, or by `localhost`'s if it has none.
    pub async fn of(
        sandbox: &SandboxRecord,
        node: &NodeConfig,
        runtime: &RuntimeService,
    ) -> Result<PodTarget, RuntimeError> {
        if sandbox.host_network {
            return Ok(PodTarget { host: first_or_localhost(&node.host_ips), network: Network::Node });
        }
        let namespace = Arc::new(runtime.network_namespace(&sandbox.id).await?);
        Ok(PodTarget { host: first_or_localhost(&sandbox.ips), network: Network::Namespace(namespace) })
    }

    /// Host and network for a handler that may name a host: a host of its own is reached from the node, as from a kubelet.
    pub(crate) fn resolve(&self, host: Option<&str>) -> (String, Network) {
        match host.filter(|host| !host.is_empty()) {
            Some(host) => (host.to_owned(), Network::Node),
            None => (self.host.clone(), self.network.clone()),
        }
    }
}

fn first_or_localhost(addresses: &[IpAddr]) -> String {
    addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_string()
}
