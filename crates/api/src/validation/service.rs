//! Services, on create and in what create and update share.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::addresses;
use super::errors::Errors;
use super::labels::validate_labels;
use super::meta::{Scope, validate_object_meta};
use super::names::{self, NameRule};
use super::pod::{PROTOCOLS, validate_port};
use crate::absent::{entry, items, text};
use crate::defaults::is_externally_accessible;
use crate::field::{FieldError, FieldPath};

const LOAD_BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const AFFINITY_SECONDS_MAX: i32 = 86_400;
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks a Service that is to be created.
pub fn validate_service(service: &Service) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&service.metadata, Scope::Namespaced, NameRule::Label, &metadata_at, &mut errors);
    validate_whole(service, &mut errors);
    errors.into_list()
}

/// Whether the Service has no address of its own.
pub(crate) fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(items(&spec.cluster_ips), [only] if only == "None")
}

pub(super) fn needs_health_check(spec: &ServiceSpec) -> bool {
    text(&spec.type_) == "LoadBalancer" && text(&spec.external_traffic_policy) == "Local"
}

pub(super) fn validate_whole(service: &Service, errors: &mut Errors) {
    let annotations = &service.metadata.annotations;
    let (mode, hints) = (entry(annotations, TOPOLOGY_MODE), entry(annotations, TOPOLOGY_HINTS));
    if let (Some(mode), Some(hints)) = (mode, hints)
        && mode != hints
    {
        let at = FieldPath::root("metadata").child("annotations").key(TOPOLOGY_MODE);
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&at, mode.as_str(), detail);
    }
    let empty = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&empty);
    let at = FieldPath::root("spec");
    validate_type_fields(spec, &at, errors);
    let mut names = BTreeSet::new();
    let ports = items(&spec.ports);
    for (index, port) in ports.iter().enumerate() {
        validate_service_port(port, ports.len() > 1, &mut names, &at.child("ports").index(index), errors);
    }
    validate_labels(&spec.selector, &at.child("selector"), errors);
    validate_session_affinity(spec, &at, errors);
    validate_cluster_ips(spec, &at, errors);
    for (index, ip) in items(&spec.external_ips).iter().enumerate() {
        let at = at.child("externalIPs").index(index);
        let wrong = addresses::ip(ip);
        if wrong.is_empty() {
            errors.invalid_text(&at, ip, addresses::endpoint_ip(ip));
        }
        errors.invalid_text(&at, ip, wrong);
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.required_one_of(&at.child("type"), text(&spec.type_), &types);
    validate_ports_unique(spec, &at.child("ports"), errors);
    validate_load_balancer(service, spec, &at, errors);
    validate_traffic(spec, &at, errors);
}

fn validate_type_fields(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let kind = text(&spec.type_);
    if items(&spec.ports).is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required(&at.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&at.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => {
            let fields = [
                ("clusterIPs", !items(&spec.cluster_ips).is_empty()),
                ("ipFamilies", !items(&spec.ip_families).is_empty()),
                ("ipFamilyPolicy", spec.ip_family_policy.is_some()),
            ];
            for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
                errors.forbidden(&at.child(field), "may not be set for ExternalName services");
            }
            let name = text(&spec.external_name);
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                errors.required(&at.child("externalName"), "");
            } else {
                errors.invalid_text(&at.child("externalName"), name, names::dns_subdomain(name));
            }
        }
        _ => {}
    }
}

fn validate_service_port<'a>(
    port: &'a ServicePort,
    needs_name: bool,
    names_seen: &mut BTreeSet<&'a str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let name = text(&port.name);
    if name.is_empty() {
        if needs_name {
            errors.required(&at.child("name"), "");
        }
    } else {
        errors.invalid_text(&at.child("name"), name, names::dns_label(name));
        if !names_seen.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
    }
    errors.port_number(&at.child("port"), port.port);
    errors.required_one_of(&at.child("protocol"), text(&port.protocol), &PROTOCOLS);
    let unset = IntOrString::Int(0);
    validate_port(port.target_port.as_ref().unwrap_or(&unset), &at.child("targetPort"), errors);
    if let Some(protocol) = &port.app_protocol {
        errors.invalid_text(&at.child("appProtocol"), protocol, names::qualified_name(protocol));
    }
}

fn validate_session_affinity(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let affinity = text(&spec.session_affinity);
    errors.required_one_of(&at.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let at = at.child("sessionAffinityConfig");
    let config = spec.session_affinity_config.as_ref();
    match affinity {
        "None" if config.is_some() => errors.forbidden(&at, "must not be set when session affinity is None"),
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let client_ip = config.and_then(|config| config.client_ip.as_ref());
            match (config, client_ip, client_ip.and_then(|client_ip| client_ip.timeout_seconds)) {
                (None, ..) => errors.required(&at, detail),
                (_, None, _) => errors.required(&at.child("clientIP"), detail),
                (.., None) => errors.required(&at.child("clientIP").child("timeoutSeconds"), detail),
                (.., Some(seconds)) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
                    let at = at.child("clientIP").child("timeoutSeconds");
                    errors.invalid(
                        &at,
                        seconds,
                        format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}"),
                    );
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn validate_cluster_ips(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    if text(&spec.type_) == "ExternalName" {
        return;
    }
    let (ips, first) = (items(&spec.cluster_ips), text(&spec.cluster_ip));
    let ips_at = at.child("clusterIPs");
    match (first.is_empty(), ips.first()) {
        (false, None) => errors.required(&ips_at, ""),
        (false, Some(listed)) if listed != first => {
            errors.invalid_object(&ips_at, &ips, "first value must match `clusterIP`");
        }
        (true, Some(_)) => errors.invalid_object(&ips_at, &ips, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    validate_ip_families(spec, at, errors);
    let mut is_any_invalid = false;
    for (index, ip) in ips.iter().enumerate() {
        if index == 0 && ip == "None" {
            if ips.len() > 1 {
                is_any_invalid = true;
                errors.invalid_object(&ips_at, &ips, "'None' must be the first and only value");
            }
            continue;
        }
        let wrong = addresses::ip(ip);
        is_any_invalid |= !wrong.is_empty();
        errors.invalid_text(&ips_at.index(index), ip, wrong);
    }
    if ips.len() > 2 {
        errors.invalid_object(&ips_at, &ips, "may only hold up to 2 values");
    }
    if is_any_invalid {
        return;
    }
    if ips.len() > 1 && !addresses::is_dual_stack(ips.iter().map(String::as_str)) {
        errors.invalid_object(&ips_at, &ips, "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (index, (ip, family)) in ips.iter().zip(items(&spec.ip_families)).enumerate() {
        let is_v6 = addresses::is_ipv6(ip);
        if (family == "IPv4" && is_v6) || (family == "IPv6" && !is_v6) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&ips_at.index(index), ip.as_str(), detail);
        }
    }
}

fn validate_ip_families(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, family) in items(&spec.ip_families).iter().enumerate() {
        let at = at.child("ipFamilies").index(index);
        errors.one_of(&at, family, &["IPv4", "IPv6"]);
        if !seen.insert(family) {
            errors.duplicate(&at, family.as_str());
        }
    }
    if let Some(policy) = &spec.ip_family_policy {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        errors.one_of(&at.child("ipFamilyPolicy"), policy, &policies);
    }
}

/// No two ports take the same port of the node, nor the same port of the Service, by one protocol.
fn validate_ports_unique(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let ports = || items(&spec.ports).iter().enumerate();
    let node_port = |port: &ServicePort| port.node_port.filter(|number| *number != 0);
    if text(&spec.type_) == "ClusterIP" {
        for (index, _) in ports().filter(|(_, port)| node_port(port).is_some()) {
            errors.forbidden(&at.index(index).child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports() {
        let Some(number) = node_port(port) else { continue };
        if !seen.insert((text(&port.protocol), number)) {
            errors.duplicate(&at.index(index).child("nodePort"), number);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports() {
        if !seen.insert((text(&port.protocol), port.port)) {
            let key = serde_json::json!({ "port": port.port, "protocol": text(&port.protocol) });
            errors.duplicate(&at.index(index), key);
        }
    }
}

fn validate_load_balancer(service: &Service, spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let is_load_balancer = text(&spec.type_) == "LoadBalancer";
    let ranges = items(&spec.load_balancer_source_ranges);
    if !ranges.is_empty() {
        let at = at.child("LoadBalancerSourceRanges");
        if !is_load_balancer {
            errors.forbidden(&at, LOAD_BALANCER_ONLY);
        }
        for (index, range) in ranges.iter().enumerate() {
            errors.invalid_text(&at.index(index), range.trim(), addresses::cidr(range.trim()));
        }
    } else if let Some(value) = entry(&service.metadata.annotations, SOURCE_RANGES) {
        let at = FieldPath::root("metadata").child("annotations").key(SOURCE_RANGES);
        if !is_load_balancer {
            errors.forbidden(&at, LOAD_BALANCER_ONLY);
        }
        for range in value.split(',').map(str::trim).filter(|_| !value.trim().is_empty()) {
            errors.invalid_text(&at, range, addresses::cidr(range));
        }
    }
    if spec.allocate_load_balancer_node_ports.is_some() && !is_load_balancer {
        errors.forbidden(&at.child("allocateLoadBalancerNodePorts"), LOAD_BALANCER_ONLY);
    }
    if spec.allocate_load_balancer_node_ports.is_none() && is_load_balancer {
        errors.required(&FieldPath::root("allocateLoadBalancerNodePorts"), "");
    }
    validate_load_balancer_class(spec, at, errors);
}

pub(super) fn validate_load_balancer_class(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let Some(class) = &spec.load_balancer_class else { return };
    if text(&spec.type_) == "LoadBalancer" {
        errors.invalid_text(&at.child("loadBalancerClass"), class, names::qualified_name(class));
    } else {
        errors.forbidden(&at.child("loadBalancerClass"), LOAD_BALANCER_ONLY);
    }
}

fn validate_traffic(spec: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    let policy = text(&spec.external_traffic_policy);
    let policy_at = at.child("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        errors.required_one_of(&policy_at, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(&policy_at, policy, "may only be set for externally-accessible services");
    }
    let port = spec.health_check_node_port.unwrap_or(0);
    let port_at = at.child("healthCheckNodePort");
    match (needs_health_check(spec), port) {
        (true, 0) => errors.required(&port_at, ""),
        (true, port) => errors.port_number(&port_at, port),
        (false, 0) => {}
        (false, port) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&port_at, port, detail);
        }
    }
    let internal_at = at.child("internalTrafficPolicy");
    match spec.internal_traffic_policy.as_deref() {
        Some(policy) => errors.one_of(&internal_at, policy, &["Cluster", "Local"]),
        None if matches!(text(&spec.type_), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.required(&internal_at, "");
        }
        None => {}
    }
    if let Some(distribution) = &spec.traffic_distribution {
        let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        errors.one_of(&at.child("trafficDistribution"), distribution, &supported);
    }
}
