//! `fieldRef` and `resourceFieldRef`: what a pod tells its containers of itself (L-906, L-907).
//!
//! Pure. Volumes and environment ask alike; which fields each may name is validated by the API.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use lifecycle::NodeConfig;

use super::find::find_container;
use crate::wording::quoted;

/// Why a field has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A field that cannot be referred to.
    #[error("unsupported fieldPath: {path}")]
    Path {
        /// `fieldPath`.
        path: String,
    },
    /// A resource that cannot be referred to.
    #[error("unsupported container resource : {resource}")]
    Resource {
        /// `resource`.
        resource: String,
    },
    /// `containerName` names no container of the pod.
    #[error("container {name} not found")]
    Container {
        /// `containerName`.
        name: String,
    },
    /// A quantity that is none.
    #[error("{resource} is not a quantity: {text}")]
    Quantity {
        /// Which resource or divisor.
        resource: String,
        /// What stands there.
        text: String,
    },
}

/// The value of a `fieldPath`.
///
/// Lists of addresses are joined by commas, whole maps are lines of `key="value"`.
pub fn pod_field(pod: &Pod, path: &str, node: &NodeConfig, pod_ips: &[IpAddr]) -> Result<String, FieldError> {
    let metadata = &pod.metadata;
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network) == Some(true);
    let pod_ips = if host_network { node.host_ips.as_slice() } else { pod_ips };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let address = |list: &[IpAddr]| list.first().map(IpAddr::to_string).unwrap_or_default();
    if let Some((map, key)) = subscript(path) {
        let map = match map {
            "metadata.labels" => &metadata.labels,
            "metadata.annotations" => &metadata.annotations,
            _ => return Err(FieldError::Path { path: path.to_owned() }),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "metadata.labels" => format_map(metadata.labels.as_ref()),
        "metadata.annotations" => format_map(metadata.annotations.as_ref()),
        "spec.nodeName" => spec.map(|spec| text(&spec.node_name)).unwrap_or_default(),
        "spec.serviceAccountName" => spec.map(|spec| text(&spec.service_account_name)).unwrap_or_default(),
        "status.hostIP" => address(&node.host_ips),
        "status.hostIPs" => joined(&node.host_ips),
        "status.podIP" => address(pod_ips),
        "status.podIPs" => joined(pod_ips),
        _ => return Err(FieldError::Path { path: path.to_owned() }),
    })
}

/// The value of a `resourceFieldRef`, divided and rounded up; `own` is the container that asks.
///
/// A limit that is not set is the pod's, else what the node has (L-907), for a container named by any list.
pub fn resource_field(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    own: &Container,
    node: &NodeConfig,
) -> Result<String, FieldError> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let found =
        named.map(|name| find_container(pod, name).ok_or_else(|| FieldError::Container { name: name.to_owned() }));
    let container = found.transpose()?;
    let container = container.as_deref().unwrap_or(own);
    let unsupported = || FieldError::Resource { resource: selector.resource.clone() };
    let (list, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    if !matches!(resource, "cpu" | "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let resources = container.resources.clone().unwrap_or_default();
    let amount = match list {
        "requests" => amount_of(resources.requests.as_ref(), resource)?,
        "limits" => match amount_of(resources.limits.as_ref(), resource)? {
            amount if amount.is_zero() => default_limit(pod, node, resource)?,
            amount => amount,
        },
        _ => return Err(unsupported()),
    };
    let divisor = selector.divisor.as_ref().map(|divisor| parse("divisor", divisor)).transpose()?;
    // A divisor of zero is one that is not set.
    let divisor = divisor.filter(|divisor| !divisor.is_zero()).unwrap_or(Amount::whole(1));
    Ok(amount.divided_by(divisor).unwrap_or_default().to_string())
}

/// Huge pages are never overcommitted, so that a container without a limit has none.
fn default_limit(pod: &Pod, node: &NodeConfig, resource: &str) -> Result<Amount, FieldError> {
    if resource.starts_with("hugepages-") {
        return Ok(Amount::ZERO);
    }
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()).and_then(|it| it.limits.as_ref());
    match amount_of(of_pod, resource)? {
        amount if amount.is_zero() => amount_of(Some(&node.allocatable), resource),
        amount => Ok(amount),
    }
}

fn amount_of(list: Option<&BTreeMap<String, Quantity>>, resource: &str) -> Result<Amount, FieldError> {
    list.and_then(|list| list.get(resource)).map_or(Ok(Amount::ZERO), |quantity| parse(resource, quantity))
}

fn parse(what: &str, quantity: &Quantity) -> Result<Amount, FieldError> {
    let failed = |_| FieldError::Quantity { resource: what.to_owned(), text: quantity.0.clone() };
    Amount::try_from(quantity).map_err(failed)
}

/// `metadata.labels['key']` as map and key.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['")
}

fn joined(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    fn pod() -> serde_json::Result<Pod> {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1-2",
                         "labels": {"app": "web", "a/b": "x\"y\n\u{1}"}, "annotations": {"note": "n"}},
            "spec": {"nodeName": "node-1", "serviceAccountName": "robot",
                "resources": {"limits": {"memory": "1Gi"}},
                "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "100m"}}}],
                "containers": [{"name": "app", "resources": {
                    "requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1500m", "hugepages-2Mi": "4Mi"}}}]},
        }))
    }

    fn node() -> Result<NodeConfig> {
        let allocatable = [("cpu", "4"), ("memory", "8Gi"), ("ephemeral-storage", "10Gi")];
        Ok(NodeConfig {
            host_ips: vec!["192.168.0.5".parse()?, "fd00::5".parse()?],
            allocatable: allocatable.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into(),
            ..NodeConfig::new("node-1")
        })
    }

    #[test]
    fn every_field_of_the_downward_api_has_its_value() -> Result {
        let addresses = ["10.0.0.9".parse()?, "fd00::9".parse()?];
        let cases = [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "1-2"),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['a/b']", "x\"y\n\u{1}"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['note']", "n"),
            ("metadata.labels", "a/b=\"x\\\"y\\n\\x01\"\napp=\"web\""),
            ("metadata.annotations", "note=\"n\""),
            ("spec.nodeName", "node-1"),
            ("spec.serviceAccountName", "robot"),
            ("status.hostIP", "192.168.0.5"),
            ("status.hostIPs", "192.168.0.5,fd00::5"),
            ("status.podIP", "10.0.0.9"),
            ("status.podIPs", "10.0.0.9,fd00::9"),
        ];
        for (path, expected) in cases {
            assert_eq!(pod_field(&pod()?, path, &node()?, &addresses)?, expected, "{path}");
        }
        Ok(())
    }

    #[test]
    fn a_pod_on_the_nodes_network_has_the_nodes_addresses() -> Result {
        let mut pod = pod()?;
        pod.spec.get_or_insert_default().host_network = Some(true);
        assert_eq!(pod_field(&pod, "status.podIPs", &node()?, &[])?, "192.168.0.5,fd00::5");
        Ok(())
    }

    #[test]
    fn other_fields_are_refused() -> Result {
        for path in ["spec.priority", "spec['a']", "metadata.labels['", ""] {
            let refused = pod_field(&pod()?, path, &node()?, &[]).map_err(|error| error.to_string());
            assert_eq!(refused, Err(format!("unsupported fieldPath: {path}")));
        }
        Ok(())
    }

    fn check(
        resource: &str,
        container: Option<&str>,
        divisor: Option<&str>,
        expected: std::result::Result<&str, &str>,
    ) -> Result {
        let pod = pod()?;
        let own = find_container(&pod, "app").ok_or("no container")?;
        let selector = ResourceFieldSelector {
            resource: resource.to_owned(),
            container_name: container.map(str::to_owned),
            divisor: divisor.map(|text| Quantity(text.to_owned())),
        };
        let value = resource_field(&selector, &pod, &own, &node()?).map_err(|error| error.to_string());
        assert_eq!(value, expected.map(str::to_owned).map_err(str::to_owned), "{resource}");
        Ok(())
    }

    #[test]
    fn resources_are_divided_and_rounded_up() -> Result {
        check("requests.cpu", None, None, Ok("1"))?;
        check("requests.cpu", None, Some("0"), Ok("1"))?;
        check("requests.cpu", None, Some("1m"), Ok("250"))?;
        check("limits.cpu", None, None, Ok("2"))?;
        check("requests.memory", None, None, Ok("67108864"))?;
        check("requests.memory", None, Some("1Mi"), Ok("64"))?;
        check("limits.hugepages-2Mi", None, Some("1Mi"), Ok("4"))?;
        check("requests.ephemeral-storage", None, None, Ok("0"))
    }

    #[test]
    fn a_limit_that_is_not_set_is_the_pods_or_the_nodes_for_init_containers_too() -> Result {
        check("limits.memory", None, Some("1Mi"), Ok("1024"))?;
        check("limits.ephemeral-storage", None, Some("1Gi"), Ok("10"))?;
        check("limits.cpu", Some("init"), None, Ok("4"))?;
        check("requests.cpu", Some("init"), Some("1m"), Ok("100"))?;
        check("limits.hugepages-1Gi", None, None, Ok("0"))
    }

    #[test]
    fn what_cannot_be_resolved_is_refused() -> Result {
        check("limits.gpu", None, None, Err("unsupported container resource : limits.gpu"))?;
        check("cpu", None, None, Err("unsupported container resource : cpu"))?;
        check("limits.cpu", Some("ghost"), None, Err("container ghost not found"))?;
        check("limits.cpu", None, Some("x"), Err("divisor is not a quantity: x"))
    }
}
