//! Services: the status, fields that go when the type changes, and allocated values that stay.
//! Addresses and node ports are allocated elsewhere.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec, ServiceStatus};

use crate::absent::{items, items_mut, text};
use crate::defaults::is_externally_accessible;

/// Makes a new Service of what was sent: no status.
pub fn prepare_for_create(service: &mut Service) {
    service.status = Some(ServiceStatus { load_balancer: Some(Default::default()), ..Default::default() });
    mirror_cluster_ip(service.spec.get_or_insert_default(), None);
}

/// Keeps the status, and drops what the old type had and the new one can't have, unless the user changed it too.
pub fn prepare_for_update(new: &mut Service, old: &Service) {
    new.status.clone_from(&old.status);
    let empty = ServiceSpec::default();
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    let spec = new.spec.get_or_insert_default();
    keep_allocated(spec, old_spec);
    mirror_cluster_ip(spec, Some(old_spec));
    drop_type_dependent_fields(spec, old_spec);
    if text(&spec.type_) != "LoadBalancer" {
        new.status.get_or_insert_default().load_balancer = Some(Default::default());
    }
}

/// Keeps the spec.
pub fn prepare_for_status_update(new: &mut Service, old: &Service) {
    new.spec.clone_from(&old.spec);
}

/// An old client knows only `clusterIP`; where it sends or changes that alone, the list follows.
fn mirror_cluster_ip(new: &mut ServiceSpec, old: Option<&ServiceSpec>) {
    let single = text(&new.cluster_ip).to_owned();
    let Some(old) = old else {
        if !single.is_empty() && items(&new.cluster_ips).is_empty() {
            new.cluster_ips = Some(vec![single]);
        }
        return;
    };
    let is_same_single = single == text(&old.cluster_ip);
    if is_same_single && items(&new.cluster_ips).is_empty() {
        new.cluster_ips.clone_from(&old.cluster_ips);
    }
    if is_same_single || items(&new.cluster_ips) != items(&old.cluster_ips) {
        return;
    }
    let is_cleared = single.is_empty() && !text(&old.cluster_ip).is_empty();
    new.cluster_ips = if is_cleared { None } else { Some(vec![single]) };
}

/// Who sends the same manifest again keeps what the server allocated.
fn keep_allocated(new: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if text(&new.cluster_ip).is_empty() {
            new.cluster_ip.clone_from(&old.cluster_ip);
        }
        if items(&new.cluster_ips).is_empty() {
            new.cluster_ips.clone_from(&old.cluster_ips);
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(new) {
        keep_node_ports(new, old);
    }
    if needs_health_check(old) && needs_health_check(new) && new.health_check_node_port.unwrap_or(0) == 0 {
        new.health_check_node_port = old.health_check_node_port;
    }
}

/// A port without a number gets that of its namesake, unless another port took it.
fn keep_node_ports(new: &mut ServiceSpec, old: &ServiceSpec) {
    let taken: Vec<i32> = items(&new.ports).iter().filter_map(node_port).collect();
    for port in items_mut(&mut new.ports).iter_mut().filter(|port| node_port(port).is_none()) {
        let namesake = items(&old.ports).iter().rfind(|old| text(&old.name) == text(&port.name));
        port.node_port = namesake.and_then(node_port).filter(|number| !taken.contains(number));
    }
}

fn node_port(port: &ServicePort) -> Option<i32> {
    port.node_port.filter(|number| *number != 0)
}

fn needs_cluster_ip(spec: &ServiceSpec) -> bool {
    text(&spec.type_) != "ExternalName"
}

fn needs_node_port(spec: &ServiceSpec) -> bool {
    matches!(text(&spec.type_), "NodePort" | "LoadBalancer")
}

fn allocates_node_ports(spec: &ServiceSpec) -> bool {
    match text(&spec.type_) {
        "NodePort" => true,
        "LoadBalancer" => spec.allocate_load_balancer_node_ports != Some(false),
        _ => false,
    }
}

fn needs_health_check(spec: &ServiceSpec) -> bool {
    text(&spec.type_) == "LoadBalancer" && text(&spec.external_traffic_policy) == "Local"
}

fn drop_type_dependent_fields(new: &mut ServiceSpec, old: &ServiceSpec) {
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        let is_same = text(&new.cluster_ip) == text(&old.cluster_ip) && new.cluster_ips == old.cluster_ips;
        if is_same {
            new.cluster_ip = None;
            new.cluster_ips = None;
        }
        new.ip_families.take_if(|families| old.ip_families.as_ref() == Some(families));
        new.ip_family_policy.take_if(|policy| old.ip_family_policy.as_ref() == Some(policy));
    }
    if needs_node_port(old) && !needs_node_port(new) && has_no_new_node_port(new, old) {
        items_mut(&mut new.ports).iter_mut().for_each(|port| port.node_port = None);
    }
    if needs_health_check(old) && !needs_health_check(new) {
        new.health_check_node_port.take_if(|port| old.health_check_node_port == Some(*port));
    }
    if text(&old.type_) == "LoadBalancer" && text(&new.type_) != "LoadBalancer" {
        let allocates = old.allocate_load_balancer_node_ports;
        new.allocate_load_balancer_node_ports.take_if(|value| allocates == Some(*value));
        new.load_balancer_class.take_if(|class| old.load_balancer_class.as_ref() == Some(class));
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) {
        new.external_traffic_policy.take_if(|policy| old.external_traffic_policy.as_ref() == Some(policy));
    }
}

fn has_no_new_node_port(new: &ServiceSpec, old: &ServiceSpec) -> bool {
    let known: Vec<i32> = items(&old.ports).iter().filter_map(node_port).collect();
    items(&new.ports).iter().filter_map(node_port).all(|number| known.contains(&number))
}
