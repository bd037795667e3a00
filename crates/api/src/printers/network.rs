//! The columns of Services and of the endpoints behind them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EndpointSubset, ServicePort, ServiceSpec};
pub(super) use k8s_openapi::api::core::v1::{Endpoints, Service};
pub(super) use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::Value;

use super::table::{Column, Tabular, age, name};
use super::words::{format_labels, or_none};
use crate::absent::{items, text};

/// Addresses and ports that a cell names before it only counts.
const NAMED_MAX: usize = 3;

impl Tabular for Service {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Type"),
        Column::text("Cluster-IP"),
        Column::text("External-IP"),
        Column::text("Port(s)"),
        Column::AGE,
        Column::wide("Selector"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let no_spec = ServiceSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&no_spec);
        let cluster_ip = items(&spec.cluster_ips).first().map(String::as_str).unwrap_or_default();
        let ports: Vec<String> = items(&spec.ports).iter().map(port).collect();
        vec![
            name(&self.metadata),
            text(&spec.type_).into(),
            or_none(cluster_ip).into(),
            external_ip(self, spec).into(),
            or_none(&ports.join(",")).into(),
            age(&self.metadata, now),
            format_labels(spec.selector.as_ref()).into(),
        ]
    }
}

/// `80/TCP`, or `80:30080/TCP` with a port on the node.
fn port(port: &ServicePort) -> String {
    let protocol = text(&port.protocol);
    match port.node_port {
        Some(node_port) if node_port > 0 => format!("{}:{node_port}/{protocol}", port.port),
        _ => format!("{}/{protocol}", port.port),
    }
}

fn external_ip(service: &Service, spec: &ServiceSpec) -> String {
    let own = items(&spec.external_ips);
    match text(&spec.type_) {
        "ClusterIP" | "NodePort" => or_none(&own.join(",")),
        "LoadBalancer" => {
            let addresses: Vec<String> =
                load_balancer_addresses(service).into_iter().chain(own.iter().cloned()).collect();
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        "ExternalName" => text(&spec.external_name).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn load_balancer_addresses(service: &Service) -> BTreeSet<String> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.map(|balancer| items(&balancer.ingress)).unwrap_or_default();
    let address = ingress.iter().map(|ingress| match text(&ingress.ip) {
        "" => text(&ingress.hostname),
        ip => ip,
    });
    address.filter(|address| !address.is_empty()).map(str::to_owned).collect()
}

impl Tabular for Endpoints {
    const COLUMNS: &'static [Column] = &[Column::NAME, Column::text("Endpoints"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let subsets = items(&self.subsets);
        let all: Vec<String> = subsets.iter().flat_map(subset_addresses).collect();
        let shown = if subsets.is_empty() { or_none("") } else { first_few(&all) };
        vec![name(&self.metadata), shown.into(), age(&self.metadata, now)]
    }
}

/// Every address with every port, or alone if there are no ports, as with a headless Service.
fn subset_addresses(subset: &EndpointSubset) -> Vec<String> {
    let addresses = items(&subset.addresses);
    let ports = items(&subset.ports);
    if ports.is_empty() {
        return addresses.iter().map(|address| address.ip.clone()).collect();
    }
    let with_port =
        |ip: &str, port: i32| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
    ports.iter().flat_map(|port| addresses.iter().map(move |address| with_port(&address.ip, port.port))).collect()
}

impl Tabular for EndpointSlice {
    const COLUMNS: &'static [Column] =
        &[Column::NAME, Column::text("AddressType"), Column::text("Ports"), Column::text("Endpoints"), Column::AGE];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let ports = items(&self.ports).iter().map(|port| match (port.port, &port.name) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.clone(),
            (None, None) => "*".to_owned(),
        });
        let addresses = self.endpoints.iter().flatten().flat_map(|endpoint| endpoint.addresses.iter().cloned());
        let or_unset = |text: String| if text.is_empty() { "<unset>".to_owned() } else { text };
        vec![
            name(&self.metadata),
            self.address_type.clone().into(),
            or_unset(first_few(&ports.collect::<Vec<_>>())).into(),
            or_unset(first_few(&addresses.collect::<Vec<_>>())).into(),
            age(&self.metadata, now),
        ]
    }
}

/// `a,b,c + 2 more...`.
fn first_few(words: &[String]) -> String {
    match words.split_at_checked(NAMED_MAX) {
        Some((named, rest)) if !rest.is_empty() => format!("{} + {} more...", named.join(","), rest.len()),
        _ => words.join(","),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::printers::tests::{check, check_group};

    fn metadata() -> Value {
        json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_70_the_cells_of_a_service() {
        let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
        let rows = [
            (
                json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.7"], "ports": ports, "selector": {"a": "1"}}),
                json!(["x", "ClusterIP", "10.0.0.7", "<none>", "80/TCP,53:30053/UDP", "5m", "a=1"]),
            ),
            (
                json!({"type": "ClusterIP", "clusterIPs": ["None"], "externalIPs": ["1.1.1.1", "2.2.2.2"]}),
                json!(["x", "ClusterIP", "None", "1.1.1.1,2.2.2.2", "<none>", "5m", "<none>"]),
            ),
            (
                json!({"type": "LoadBalancer"}),
                json!(["x", "LoadBalancer", "<none>", "<pending>", "<none>", "5m", "<none>"]),
            ),
            (
                json!({"type": "ExternalName", "externalName": "db.example.com"}),
                json!(["x", "ExternalName", "<none>", "db.example.com", "<none>", "5m", "<none>"]),
            ),
        ];
        for (spec, wanted) in rows {
            check("Service", json!({"metadata": metadata(), "spec": spec}), wanted);
        }
        let balanced = json!({"metadata": metadata(), "spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a.example.com"}, {"ip": "1.1.1.1"}]}}});
        let wanted =
            json!(["x", "LoadBalancer", "<none>", "1.1.1.1,2.2.2.2,a.example.com,9.9.9.9", "<none>", "5m", "<none>"]);
        check("Service", balanced, wanted);
    }

    #[test]
    fn a_67_endpoints_name_three_addresses_and_count_the_others() {
        let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]);
        let subsets = json!([{"addresses": addresses, "ports": [{"port": 80}, {"port": 81}]}]);
        let wanted = json!(["x", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more...", "5m"]);
        check("Endpoints", json!({"metadata": metadata(), "subsets": subsets}), wanted);
        let headless =
            json!([{"addresses": [{"ip": "fd00::1"}]}, {"addresses": [{"ip": "fd00::2"}], "ports": [{"port": 1}]}]);
        check(
            "Endpoints",
            json!({"metadata": metadata(), "subsets": headless}),
            json!(["x", "fd00::1,[fd00::2]:1", "5m"]),
        );
        check("Endpoints", json!({"metadata": metadata()}), json!(["x", "<none>", "5m"]));
    }

    #[test]
    fn a_67_the_cells_of_an_endpoint_slice() {
        let endpoints = json!([{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]);
        let ports = json!([{"port": 80, "name": "http"}, {"name": "any"}, {}]);
        let slice = json!({"metadata": metadata(), "addressType": "IPv4", "endpoints": endpoints, "ports": ports});
        check_group(
            "discovery.k8s.io",
            "EndpointSlice",
            slice,
            json!(["x", "IPv4", "80,any,*", "10.0.0.1,10.0.0.2", "5m"]),
        );
        let empty = json!({"metadata": metadata(), "addressType": "IPv6", "endpoints": []});
        check_group("discovery.k8s.io", "EndpointSlice", empty, json!(["x", "IPv6", "<unset>", "<unset>", "5m"]));
    }
}
