//! A pod's host name and domain (L-910).
//!
//! Pure.

use k8s_openapi::api::core::v1::Pod;

/// The kernel's limit, the final zero left out.
const FQDN_MAX: usize = 64;
const HOSTNAME_MAX: usize = 63;

/// What a pod is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodHostname {
    /// The short name.
    pub hostname: String,
    /// The domain, if the pod has one.
    pub domain: Option<String>,
    /// What the kernel is told.
    pub kernel_hostname: String,
}

/// Why a pod cannot be named; the text of `FailedCreatePodSandBox`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, {length} characters requested)"
)]
pub struct FqdnTooLong {
    /// The name.
    pub fqdn: String,
    /// Its length.
    pub length: usize,
}

/// The name of a pod; `node_hostname` is the kernel's for pods on the node's network.
pub fn pod_hostname(pod: &Pod, cluster_domain: &str, node_hostname: &str) -> Result<PodHostname, FqdnTooLong> {
    let spec = pod.spec.clone().unwrap_or_default();
    let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
    if let Some(hostname) = non_empty(spec.hostname_override) {
        let hostname = cut(&hostname);
        return Ok(PodHostname { kernel_hostname: hostname.clone(), hostname, domain: None });
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let hostname = cut(&non_empty(spec.hostname).unwrap_or_else(|| name.to_owned()));
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let domain = non_empty(spec.subdomain).map(|subdomain| format!("{subdomain}.{namespace}.svc.{cluster_domain}"));
    let kernel_hostname = match &domain {
        _ if spec.host_network == Some(true) => node_hostname.to_owned(),
        Some(domain) if spec.set_hostname_as_fqdn == Some(true) => {
            let fqdn = format!("{hostname}.{domain}");
            if fqdn.len() > FQDN_MAX {
                return Err(FqdnTooLong { length: fqdn.len(), fqdn });
            }
            fqdn
        }
        _ => hostname.clone(),
    };
    Ok(PodHostname { hostname, domain, kernel_hostname })
}

fn cut(hostname: &str) -> String {
    match hostname.get(..HOSTNAME_MAX) {
        Some(cut) if hostname.len() > HOSTNAME_MAX => cut.trim_end_matches(['-', '.']).to_owned(),
        _ => hostname.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn name(spec: Value, pod: &str) -> serde_json::Result<std::result::Result<PodHostname, String>> {
        let metadata = serde_json::from_value(json!({"name": pod, "namespace": "ns"}))?;
        let pod = Pod { metadata, spec: Some(serde_json::from_value(spec)?), status: None };
        Ok(pod_hostname(&pod, "cluster.local", "node").map_err(|error| error.to_string()))
    }

    fn check(spec: Value, hostname: &str, domain: Option<&str>, kernel: &str) -> Result {
        let expected = PodHostname {
            hostname: hostname.into(),
            domain: domain.map(str::to_owned),
            kernel_hostname: kernel.into(),
        };
        assert_eq!(name(spec, "web")?, Ok(expected));
        Ok(())
    }

    #[test]
    fn the_override_goes_before_the_hostname_and_that_before_the_name() -> Result {
        check(json!({}), "web", None, "web")?;
        check(json!({"hostname": "host"}), "host", None, "host")?;
        check(json!({"hostname": "host", "hostnameOverride": "a.b", "subdomain": "sub"}), "a.b", None, "a.b")
    }

    #[test]
    fn a_subdomain_makes_a_domain() -> Result {
        let domain = Some("sub.ns.svc.cluster.local");
        check(json!({"subdomain": "sub"}), "web", domain, "web")?;
        let fqdn = "web.sub.ns.svc.cluster.local";
        check(json!({"subdomain": "sub", "setHostnameAsFQDN": true}), "web", domain, fqdn)?;
        check(json!({"setHostnameAsFQDN": true}), "web", None, "web")
    }

    #[test]
    fn a_pod_on_the_nodes_network_has_the_nodes_kernel_name() -> Result {
        check(json!({"hostNetwork": true, "hostname": "host"}), "host", None, "node")
    }

    #[test]
    fn a_long_name_is_cut_and_a_long_fqdn_refused() -> Result {
        let long = format!("{}-.{}", "a".repeat(61), "b".repeat(9));
        assert_eq!(name(json!({}), &long)?.map(|name| name.hostname), Ok("a".repeat(61)));
        let spec = json!({"hostname": "h".repeat(40), "subdomain": "sub", "setHostnameAsFQDN": true});
        let fqdn = format!("{}.sub.ns.svc.cluster.local", "h".repeat(40));
        let text = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, 65 characters requested)"
        );
        assert_eq!(name(spec, "web")?, Err(text));
        Ok(())
    }
}
