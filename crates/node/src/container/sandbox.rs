//! From a pod's spec to what the runtime is asked for as its sandbox.
//!
//! Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use lifecycle::PodRef;

use super::hostname::{FqdnTooLong, pod_hostname};
use super::resources::{pod_cgroup, pod_resources};
use crate::runtime::config::{NamespaceMode, PidNamespaceMode, SandboxConfig, SandboxNamespaces};

/// What a sandbox is made from beside the pod.
#[derive(Clone, Copy, Debug)]
pub struct SandboxInputs<'a> {
    /// The pod, as effects name it.
    pub reference: &'a PodRef,
    /// Counts from 0.
    pub attempt: u32,
    /// The domain of the cluster.
    pub cluster_domain: &'a str,
    /// The kernel's name of this machine.
    pub node_hostname: &'a str,
    /// The addresses of a pod with a network of its own.
    pub pod_ips: &'a [IpAddr],
}

/// The sandbox of a pod.
pub fn sandbox_config(pod: &Pod, inputs: &SandboxInputs<'_>) -> Result<SandboxConfig, FqdnTooLong> {
    let name = pod_hostname(pod, inputs.cluster_domain, inputs.node_hostname)?;
    let spec = pod.spec.clone().unwrap_or_default();
    let of_node = |flag: Option<bool>| if flag == Some(true) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let network = of_node(spec.host_network);
    let context = spec.security_context.unwrap_or_default();
    Ok(SandboxConfig {
        pod: inputs.reference.clone(),
        attempt: inputs.attempt,
        hostname: name.kernel_hostname,
        ips: if network == NamespaceMode::Node { Vec::new() } else { inputs.pod_ips.to_vec() },
        namespaces: SandboxNamespaces {
            network,
            ipc: of_node(spec.host_ipc),
            pid: match (spec.host_pid, spec.share_process_namespace) {
                (Some(true), _) => PidNamespaceMode::Node,
                (_, Some(true)) => PidNamespaceMode::Pod,
                _ => PidNamespaceMode::Container,
            },
        },
        sysctls: context.sysctls.into_iter().flatten().map(|sysctl| (sysctl.name, sysctl.value)).collect(),
        cgroup_parent: pod_cgroup(pod),
        resources: pod_resources(pod),
        labels: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use lifecycle::PodUid;
    use serde_json::{Value, json};

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    fn config(spec: Value) -> Result<SandboxConfig> {
        let metadata = serde_json::from_value(json!({"name": "web", "namespace": "shop", "uid": "1-2"}))?;
        let pod = Pod { metadata, spec: Some(serde_json::from_value(spec)?), status: None };
        let reference = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("1-2".into()) };
        let inputs = SandboxInputs {
            reference: &reference,
            attempt: 2,
            cluster_domain: "cluster.local",
            node_hostname: "node",
            pod_ips: &["127.0.0.1".parse()?],
        };
        Ok(sandbox_config(&pod, &inputs)?)
    }

    #[test]
    fn a_plain_pod_has_namespaces_of_its_own() -> Result {
        let expected = SandboxConfig {
            pod: PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("1-2".into()) },
            attempt: 2,
            hostname: "web".into(),
            ips: vec!["127.0.0.1".parse()?],
            namespaces: SandboxNamespaces {
                network: NamespaceMode::Pod,
                ipc: NamespaceMode::Pod,
                pid: PidNamespaceMode::Container,
            },
            sysctls: [("net.ipv4.tcp_syncookies".to_owned(), "0".to_owned())].into(),
            cgroup_parent: "kubepods/besteffort/pod1-2".into(),
            resources: pod_resources(&Pod::default()),
            labels: BTreeMap::new(),
        };
        let context = json!({"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "0"}]});
        assert_eq!(config(json!({"securityContext": context}))?, expected);
        Ok(())
    }

    #[test]
    fn host_namespaces_are_the_nodes() -> Result {
        let made = config(json!({"hostNetwork": true, "hostIPC": true, "hostPID": true}))?;
        let expected =
            SandboxNamespaces { network: NamespaceMode::Node, ipc: NamespaceMode::Node, pid: PidNamespaceMode::Node };
        assert_eq!((made.namespaces, made.hostname, made.ips), (expected, "node".to_owned(), Vec::new()));
        Ok(())
    }

    #[test]
    fn a_shared_process_namespace_is_the_pods() -> Result {
        assert_eq!(config(json!({"shareProcessNamespace": true}))?.namespaces.pid, PidNamespaceMode::Pod);
        Ok(())
    }
}
