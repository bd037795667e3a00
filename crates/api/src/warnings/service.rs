//! Warnings of Services.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::warn_of_addresses;
use crate::absent::{entry, items, text};
use crate::field::FieldPath;
use crate::validation::addresses::{cidr_warnings, ip_warning};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// Warnings for a Service that is created or replaced.
pub fn service(service: &Service) -> Vec<String> {
    let mut warnings = Vec::new();
    if entry(&service.metadata.annotations, TOPOLOGY_HINTS).is_some() {
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let empty = ServiceSpec::default();
    warn_of_spec(service.spec.as_ref().unwrap_or(&empty), &mut warnings);
    warnings
}

fn warn_of_spec(spec: &ServiceSpec, warnings: &mut Vec<String>) {
    let at = FieldPath::root("spec");
    let is_external_name = text(&spec.type_) == "ExternalName";
    let is_headless = text(&spec.type_) == "ClusterIP" && text(&spec.cluster_ip) == "None";
    let external_ips = items(&spec.external_ips);
    if !matches!(text(&spec.cluster_ip), "" | "None") {
        let cluster_ips = items(&spec.cluster_ips).iter().map(String::as_str);
        warn_of_addresses(cluster_ips, &at.child("clusterIPs"), "", warnings);
    }
    if is_headless {
        warn_of_headless(spec, warnings);
    }
    warn_of_addresses(external_ips.iter().map(String::as_str), &at.child("externalIPs"), "", warnings);
    if !external_ips.is_empty() && !is_headless && !is_external_name {
        let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    warnings.extend(ip_warning(text(&spec.load_balancer_ip)).map(|text| format!("spec.loadBalancerIP: {text}")));
    for (index, range) in items(&spec.load_balancer_source_ranges).iter().enumerate() {
        let at = at.child("loadBalancerSourceRanges").index(index);
        warnings.extend(cidr_warnings(range).iter().map(|text| format!("{at}: {text}")));
    }
    if is_external_name && !external_ips.is_empty() {
        warnings.push(r#"spec.externalIPs is ignored when spec.type is "ExternalName""#.to_owned());
    }
    if !is_external_name && !text(&spec.external_name).is_empty() {
        warnings.push(r#"spec.externalName is ignored when spec.type is not "ExternalName""#.to_owned());
    }
    if text(&spec.traffic_distribution) == "PreferClose" {
        let text = r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#;
        warnings.push(text.to_owned());
    }
}

fn warn_of_headless(spec: &ServiceSpec, warnings: &mut Vec<String>) {
    let ignored = [
        (!text(&spec.load_balancer_ip).is_empty(), "loadBalancerIP"),
        (!items(&spec.external_ips).is_empty(), "externalIPs"),
        (text(&spec.session_affinity) != "None", "SessionAffinity"),
    ];
    for (_, field) in ignored.into_iter().filter(|(is_set, _)| *is_set) {
        warnings.push(format!("spec.{field} is ignored for headless services"));
    }
}
