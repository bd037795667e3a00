//! Host ports, DNS settings and entries of the hosts file (L-1212, L-1222).

use k8s_openapi::api::core::v1::{HostAlias, PodDNSConfig, PodSpec};

use super::Owner;
use crate::absent::{flag, items, text};
use crate::field::FieldPath;
use crate::validation::addresses;
use crate::validation::errors::Errors;
use crate::validation::names::{dns_subdomain, dns_subdomain_with_underscore};

const NAME_SERVERS_MAX: usize = 3;
const SEARCH_PATHS_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;

/// On the host's network a container's port is the host's; a template may leave the host's out.
pub(super) fn validate_host_ports_match(spec: &PodSpec, owner: Owner<'_>, at: &FieldPath, errors: &mut Errors) {
    if !flag(spec.host_network) {
        return;
    }
    for (index, container) in spec.containers.iter().enumerate() {
        for (port_index, port) in items(&container.ports).iter().enumerate() {
            let host_port = port.host_port.unwrap_or(0);
            if (owner.is_pod() || host_port != 0) && host_port != port.container_port {
                let at = at.child("containers").index(index).child("ports").index(port_index).child("hostPort");
                errors.invalid(&at, host_port, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

pub(super) fn validate_dns_config(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let config = spec.dns_config.as_ref();
    if text(&spec.dns_policy) == "None" {
        match config {
            None => {
                errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
                return;
            }
            Some(config) if items(&config.nameservers).is_empty() => {
                let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                errors.required(&at.child("nameservers"), detail);
                return;
            }
            Some(_) => {}
        }
    }
    if let Some(config) = config {
        validate_name_servers(config, &at.child("nameservers"), errors);
        validate_searches(config, &at.child("searches"), errors);
        for (index, option) in items(&config.options).iter().enumerate() {
            if text(&option.name).is_empty() {
                errors.required(&at.child("options").index(index), "must not be empty");
            }
        }
    }
}

pub(super) fn validate_host_aliases(aliases: &[HostAlias], at: &FieldPath, errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let at = at.index(index);
        errors.invalid_text(&at.child("ip"), &alias.ip, addresses::ip(&alias.ip));
        for (name_index, name) in items(&alias.hostnames).iter().enumerate() {
            errors.invalid_text(&at.child("hostnames").index(name_index), name, dns_subdomain(name));
        }
    }
}

fn validate_name_servers(config: &PodDNSConfig, at: &FieldPath, errors: &mut Errors) {
    let servers = items(&config.nameservers);
    if servers.len() > NAME_SERVERS_MAX {
        let detail = format!("must not have more than {NAME_SERVERS_MAX} nameservers");
        errors.invalid_object(at, &servers, detail);
    }
    for (index, server) in servers.iter().enumerate() {
        errors.invalid_text(&at.index(index), server, addresses::ip(server));
    }
}

fn validate_searches(config: &PodDNSConfig, at: &FieldPath, errors: &mut Errors) {
    let searches = items(&config.searches);
    if searches.len() > SEARCH_PATHS_MAX {
        let detail = format!("must not have more than {SEARCH_PATHS_MAX} search paths");
        errors.invalid_object(at, &searches, detail);
    }
    if searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        let detail =
            format!("must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list");
        errors.invalid_object(at, &searches, detail);
    }
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.invalid_text(&at.index(index), search, dns_subdomain_with_underscore(search));
    }
}
