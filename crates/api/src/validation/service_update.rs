//! Updates of a Service and of its status.

use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service, ServiceSpec};

use super::addresses;
use super::errors::Errors;
use super::meta::validate_object_meta_update;
use super::names;
use super::service::{is_headless, needs_health_check, validate_load_balancer_class, validate_whole};
use crate::absent::{items, text};
use crate::field::{FieldError, FieldPath};

const MAY_NOT_CHANGE: &str = "may not change once set";

/// Checks a Service that is to replace another.
pub fn validate_service_update(new: &Service, old: &Service) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let empty = ServiceSpec::default();
    let spec = new.spec.as_ref().unwrap_or(&empty);
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    let at = FieldPath::root("spec");
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    let is_external = |spec: &ServiceSpec| text(&spec.type_) == "ExternalName";
    if !is_external(spec) && !is_external(old_spec) {
        validate_cluster_ips_kept(spec, old_spec, &at, &mut errors);
        validate_ip_families_kept(spec, old_spec, &at, &mut errors);
    }
    let is_load_balancer = |spec: &ServiceSpec| text(&spec.type_) == "LoadBalancer";
    let is_class_changed = spec.load_balancer_class != old_spec.load_balancer_class;
    if is_load_balancer(spec) && is_load_balancer(old_spec) && is_class_changed {
        let class = serde_json::to_value(&spec.load_balancer_class).unwrap_or_default();
        errors.invalid(&at.child("loadBalancerClass"), class, MAY_NOT_CHANGE);
    }
    validate_load_balancer_class(spec, &at, &mut errors);
    let is_checked = needs_health_check(spec) && needs_health_check(old_spec);
    if is_checked && spec.health_check_node_port != old_spec.health_check_node_port {
        errors.forbidden(&at.child("healthCheckNodePort"), "field is immutable");
    }
    validate_whole(new, &mut errors);
    errors.into_list()
}

/// Checks a Service whose status is to change.
pub fn validate_service_status_update(new: &Service, old: &Service) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    let at = FieldPath::root("status").child("loadBalancer").child("ingress");
    let status = new.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = status.map_or(&[][..], |status| items(&status.ingress));
    let is_load_balancer = new.spec.as_ref().is_some_and(|spec| text(&spec.type_) == "LoadBalancer");
    if !is_load_balancer && !ingress.is_empty() {
        errors.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
        return errors.into_list();
    }
    for (index, point) in ingress.iter().enumerate() {
        validate_ingress(point, &at.index(index), &mut errors);
    }
    errors.into_list()
}

/// An address stays; a second one of the other family may come and go.
fn validate_cluster_ips_kept(spec: &ServiceSpec, old: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    if is_headless(spec) && is_headless(old) {
        return;
    }
    let (new_ips, old_ips) = (items(&spec.cluster_ips), items(&old.cluster_ips));
    let first_at = at.child("clusterIPs").index(0);
    if new_ips.len() == old_ips.len() {
        for (index, _) in new_ips.iter().zip(old_ips).enumerate().filter(|(_, (new, old))| new != old) {
            errors.invalid_object(&at.child("clusterIPs").index(index), &new_ips, MAY_NOT_CHANGE);
        }
        return;
    }
    let is_released = old_ips.len() > new_ips.len();
    if is_released && new_ips.is_empty() {
        errors.invalid_object(&first_at, &new_ips, "primary clusterIP can not be unset");
    }
    if let (Some(new), Some(old)) = (new_ips.first(), old_ips.first())
        && new != old
    {
        errors.invalid_object(&first_at, &new_ips, MAY_NOT_CHANGE);
    }
    if is_released && new_ips.len() == 1 {
        validate_single_stack(spec, "clusterIP", at, errors);
    }
}

fn validate_ip_families_kept(spec: &ServiceSpec, old: &ServiceSpec, at: &FieldPath, errors: &mut Errors) {
    if is_headless(spec) || is_headless(old) {
        return;
    }
    let (new_families, old_families) = (items(&spec.ip_families), items(&old.ip_families));
    let first_at = at.child("ipFamilies").index(0);
    if new_families.len() == old_families.len() {
        for _ in new_families.iter().zip(old_families).filter(|(new, old)| new != old) {
            errors.invalid_object(&first_at, &new_families, MAY_NOT_CHANGE);
        }
        return;
    }
    let is_released = old_families.len() > new_families.len();
    if is_released && items(&spec.cluster_ips).is_empty() {
        errors.invalid_object(&first_at, &new_families, "primary ipFamily can not be unset");
    }
    if let (Some(new), Some(old)) = (new_families.first(), old_families.first())
        && new != old
    {
        errors.invalid_object(&first_at, &items(&spec.cluster_ips), MAY_NOT_CHANGE);
    }
    if is_released && new_families.len() == 1 {
        validate_single_stack(spec, "ipFamily", at, errors);
    }
}

fn validate_single_stack(spec: &ServiceSpec, what: &str, at: &FieldPath, errors: &mut Errors) {
    if text(&spec.ip_family_policy) != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        let policy = serde_json::to_value(&spec.ip_family_policy).unwrap_or_default();
        errors.invalid(&at.child("ipFamilyPolicy"), policy, detail);
    }
}

fn validate_ingress(ingress: &LoadBalancerIngress, at: &FieldPath, errors: &mut Errors) {
    let (ip, hostname) = (text(&ingress.ip), text(&ingress.hostname));
    if !ip.is_empty() {
        errors.invalid_text(&at.child("ip"), ip, addresses::ip(ip));
    }
    let mode_at = at.child("ipMode");
    match ingress.ip_mode.as_deref() {
        None if !ip.is_empty() => errors.required(&mode_at, "must be specified when `ip` is set"),
        Some(_) if ip.is_empty() => errors.forbidden(&mode_at, "may not be specified when `ip` is not set"),
        Some(mode) => errors.one_of(&mode_at, mode, &["Proxy", "VIP"]),
        None => {}
    }
    if !hostname.is_empty() {
        errors.invalid_text(&at.child("hostname"), hostname, names::dns_subdomain(hostname));
        if addresses::parse_sloppy(hostname).is_some() {
            errors.invalid(&at.child("hostname"), hostname, "must be a DNS name, not an IP address");
        }
    }
}
