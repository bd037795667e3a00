//! What the API server warns of and takes nevertheless (L-1232): texts for the HTTP `Warning` headers.
//!
//! One function per kind and operation, for objects that were prepared as for [`crate::validation`]; a status or a pod that
//! is updated has none but those here.
//! Whether a TLS Secret's key fits its certificate is not looked at: that takes a cryptographic library.
//!
//! Kubernetes: pkg/api/*/warnings.go, and `WarningsOnCreate` and `WarningsOnUpdate` in pkg/registry. Start reading at `pod`.

mod containers;
mod node_labels;
mod paths;
mod pod;
mod ports;
mod service;
mod workload;

use k8s_openapi::api::core::v1::{Endpoints, PersistentVolumeClaim, PersistentVolumeClaimSpec, ServiceAccount};

use self::containers::{STORAGE, warn_of_fractions};
use crate::absent::{entry, items};
use crate::field::FieldPath;
use crate::validation::addresses::ip_warning;
use crate::validation::names;

pub use self::pod::{pod, pod_status_update};
pub use self::service::service;
pub use self::workload::{
    cron_job, cron_job_update, daemon_set, deployment, job, job_update, pod_template, replica_set,
    replication_controller, stateful_set,
};

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const ENDPOINTS_CONTROLLER: &str = "endpoint-controller";

/// Warnings for a ServiceAccount that is created, or replaces an old one.
pub fn service_account(account: &ServiceAccount, old: Option<&ServiceAccount>) -> Vec<String> {
    let has = |account: &ServiceAccount| entry(&account.metadata.annotations, MOUNTABLE_SECRETS).is_some();
    if !has(account) || old.is_some_and(has) {
        return Vec::new();
    }
    let text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    vec![format!("metadata.annotations[{MOUNTABLE_SECRETS}]: {text}")]
}

/// Warnings for Endpoints that are created or replaced.
/// Those of Kubernetes' own controller have proper addresses.
pub fn endpoints(endpoints: &Endpoints) -> Vec<String> {
    let mut warnings = Vec::new();
    if entry(&endpoints.metadata.labels, MANAGED_BY).is_some_and(|manager| manager == ENDPOINTS_CONTROLLER) {
        return warnings;
    }
    for (index, subset) in items(&endpoints.subsets).iter().enumerate() {
        let at = FieldPath::root("subsets").index(index);
        let lists = [("addresses", &subset.addresses), ("notReadyAddresses", &subset.not_ready_addresses)];
        for (list, addresses) in lists {
            let ips = items(addresses).iter().map(|address| address.ip.as_str());
            warn_of_addresses(ips, &at.child(list), "ip", &mut warnings);
        }
    }
    warnings
}

/// Warnings for a PersistentVolumeClaim that is created or replaced.
pub fn persistent_volume_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let mut warnings = Vec::new();
    if entry(&claim.metadata.annotations, STORAGE_CLASS).is_some() {
        let text = r#"deprecated since v1.8; use "storageClassName" attribute instead"#;
        warnings.push(format!("metadata.annotations[{STORAGE_CLASS}]: {text}"));
    }
    if let Some(spec) = &claim.spec {
        warn_of_claim(spec, &FieldPath::root("spec"), &mut warnings);
    }
    warnings
}

fn warn_of_claim(spec: &PersistentVolumeClaimSpec, at: &FieldPath, warnings: &mut Vec<String>) {
    let Some(resources) = &spec.resources else { return };
    let at = at.child("resources");
    warn_of_fractions(&resources.requests, &[STORAGE], &at.child("requests"), warnings);
    warn_of_fractions(&resources.limits, &[STORAGE], &at.child("limits"), warnings);
}

/// Addresses that are items of a list, or fields of its items.
fn warn_of_addresses<'a>(
    addresses: impl Iterator<Item = &'a str>,
    at: &FieldPath,
    field: &str,
    warnings: &mut Vec<String>,
) {
    for (index, address) in addresses.enumerate() {
        let item = at.index(index);
        let at = if field.is_empty() { item } else { item.child(field) };
        warnings.extend(ip_warning(address).map(|text| format!("{at}: {text}")));
    }
}

/// A name that can't be a hostname as it is; `user` says who makes one of it.
fn warn_of_name(name: &str, user: &str, warnings: &mut Vec<String>) {
    let wrong = names::dns_label(name);
    if !wrong.is_empty() {
        let all = wrong.join(" ");
        let text = "which can result in surprising behavior; a DNS label is recommended";
        warnings.push(format!("metadata.name: this is used in {user}, {text}: [{all}]"));
    }
}
