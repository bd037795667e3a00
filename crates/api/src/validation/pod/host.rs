//! Namespaces of the host and the host's name (L-1221).

use k8s_openapi::api::core::v1::PodSpec;

use crate::absent::{flag, items};
use crate::containers;
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names::dns_subdomain;

const HOSTNAME_BYTES_MAX: usize = 64;

/// A pod with users of its own shares no other namespace of the host.
pub(super) fn validate_host_users(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    if spec.host_users != Some(false) {
        return;
    }
    let detail = "when `hostUsers` is false";
    for (field, is_shared) in
        [("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)]
    {
        if flag(is_shared) {
            errors.forbidden(&at.child(field), detail);
        }
    }
    for (list, index, container) in containers::all(spec) {
        if !items(&container.volume_devices).is_empty() {
            errors.forbidden(&at.child(list.field()).index(index).child("volumeDevices"), detail);
        }
    }
}

pub(super) fn validate_hostname_override(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let Some(hostname) = &spec.hostname_override else { return };
    let at = at.child("hostnameOverride");
    if flag(spec.set_hostname_as_fqdn) {
        errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
    if flag(spec.host_network) {
        errors.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    if hostname.len() > HOSTNAME_BYTES_MAX {
        errors.too_long(&at, HOSTNAME_BYTES_MAX);
    }
    errors.invalid_text(&at, hostname, dns_subdomain(hostname));
}
