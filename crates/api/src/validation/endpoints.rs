//! Endpoints, the older list of a Service's addresses.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, Endpoints};

use super::addresses;
use super::errors::Errors;
use super::meta::{Scope, validate_object_meta, validate_object_meta_update};
use super::names::{self, NameRule};
use super::pod::PROTOCOLS;
use crate::absent::{items, text};
use crate::field::{FieldError, FieldPath};

/// Checks Endpoints that are to be created.
pub fn validate_endpoints(endpoints: &Endpoints) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole(endpoints, &mut errors);
    errors.into_list()
}

/// Checks Endpoints that are to replace others.
pub fn validate_endpoints_update(new: &Endpoints, old: &Endpoints) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_whole(new, &mut errors);
    errors.into_list()
}

fn validate_whole(endpoints: &Endpoints, errors: &mut Errors) {
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&endpoints.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, errors);
    for (index, subset) in items(&endpoints.subsets).iter().enumerate() {
        let at = FieldPath::root("subsets").index(index);
        let lists: BTreeMap<&str, &[EndpointAddress]> = BTreeMap::from([
            ("addresses", items(&subset.addresses)),
            ("notReadyAddresses", items(&subset.not_ready_addresses)),
        ]);
        if lists.values().all(|list| list.is_empty()) {
            errors.required(&at, "must specify `addresses` or `notReadyAddresses`");
        }
        for (field, addresses) in lists {
            for (index, address) in addresses.iter().enumerate() {
                validate_address(address, &at.child(field).index(index), errors);
            }
        }
        let ports = items(&subset.ports);
        for (index, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &at.child("ports").index(index), errors);
        }
    }
}

fn validate_address(address: &EndpointAddress, at: &FieldPath, errors: &mut Errors) {
    errors.invalid_text(&at.child("ip"), &address.ip, addresses::ip(&address.ip));
    let hostname = text(&address.hostname);
    if !hostname.is_empty() {
        errors.invalid_text(&at.child("hostname"), hostname, names::dns_label(hostname));
    }
    if let Some(node) = &address.node_name {
        errors.invalid_text(&at.child("nodeName"), node, names::dns_subdomain(node));
    }
    errors.invalid_text(&at.child("ip"), &address.ip, addresses::endpoint_ip(&address.ip));
}

fn validate_port(port: &EndpointPort, needs_name: bool, at: &FieldPath, errors: &mut Errors) {
    let name = text(&port.name);
    if !name.is_empty() {
        errors.invalid_text(&at.child("name"), name, names::dns_label(name));
    } else if needs_name {
        errors.required(&at.child("name"), "");
    }
    errors.port_number(&at.child("port"), port.port);
    errors.required_one_of(&at.child("protocol"), text(&port.protocol), &PROTOCOLS);
    if let Some(protocol) = &port.app_protocol {
        errors.invalid_text(&at.child("appProtocol"), protocol, names::qualified_name(protocol));
    }
}
