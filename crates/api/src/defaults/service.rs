//! Defaults of Services. Cluster addresses and node ports are allocated elsewhere.

use k8s_openapi::api::core::v1::{ClientIPConfig, Service, ServiceSpec, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::absent::{default_text, items, items_mut, text};

const CLIENT_IP_TIMEOUT_SECONDS: i32 = 10800;

/// Fills in a Service.
pub fn service(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    session_affinity(spec);
    default_text(&mut spec.type_, "ClusterIP");
    for port in items_mut(&mut spec.ports) {
        default_text(&mut port.protocol, "TCP");
        let is_unset = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::Int(_)) => false,
            Some(IntOrString::String(name)) => name.is_empty(),
        };
        if is_unset {
            port.target_port = Some(IntOrString::Int(port.port));
        }
    }
    if is_externally_accessible(spec) {
        default_text(&mut spec.external_traffic_policy, "Cluster");
    }
    let kind = text(&spec.type_);
    let (is_load_balancer, has_cluster_ip) =
        (kind == "LoadBalancer", matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP"));
    if has_cluster_ip {
        spec.internal_traffic_policy.get_or_insert_with(|| "Cluster".to_owned());
    }
    if is_load_balancer {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    // Kubernetes always writes the status and its load balancer, be they empty.
    let load_balancer = service.status.get_or_insert_default().load_balancer.get_or_insert_default();
    if is_load_balancer {
        for ingress in items_mut(&mut load_balancer.ingress).iter_mut().filter(|it| !text(&it.ip).is_empty()) {
            ingress.ip_mode.get_or_insert_with(|| "VIP".to_owned());
        }
    }
}

/// Whether clients outside the cluster can reach it by an address of its own.
pub(crate) fn is_externally_accessible(spec: &ServiceSpec) -> bool {
    match text(&spec.type_) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(&spec.external_ips).is_empty(),
        _ => false,
    }
}

fn session_affinity(spec: &mut ServiceSpec) {
    default_text(&mut spec.session_affinity, "None");
    match text(&spec.session_affinity) {
        "None" => spec.session_affinity_config = None,
        "ClientIP" => {
            let timeout = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref()?.timeout_seconds);
            if timeout.is_none() {
                spec.session_affinity_config = Some(SessionAffinityConfig {
                    client_ip: Some(ClientIPConfig { timeout_seconds: Some(CLIENT_IP_TIMEOUT_SECONDS) }),
                });
            }
        }
        _ => {}
    }
}
