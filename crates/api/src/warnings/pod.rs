//! Warnings of pods and pod templates.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Affinity, Pod, PodAffinityTerm, PodSpec, PodTemplateSpec, TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::containers::{BYTES, Surroundings, warn_of_container, warn_of_fractions};
use super::node_labels::{deprecation, warn_of_term};
use super::paths::warn_of_overlaps;
use super::ports::warn_of_ports;
use super::{warn_of_addresses, warn_of_claim, warn_of_name};
use crate::absent::{entries, items, text};
use crate::containers;
use crate::field::{FieldPath, quote};

const NULL_SELECTOR: &str = "a null labelSelector results in matching no pod";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const SYSCTLS_TEXT: &str = r#"non-functional in v1.11+; use the "sysctls" field instead"#;
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", SYSCTLS_TEXT),
    ("security.alpha.kubernetes.io/unsafe-sysctls", SYSCTLS_TEXT),
];

/// Warnings for a pod that is created; one that is updated has none.
pub fn pod(pod: &Pod) -> Vec<String> {
    let mut warnings = Vec::new();
    warn_of_name(text(&pod.metadata.name), "the Pod's hostname", &mut warnings);
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    warn_of_spec(spec, &pod.metadata, &FieldPath::default(), &mut warnings);
    warnings
}

/// Warnings for a pod whose status is updated.
pub fn pod_status_update(pod: &Pod) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(status) = &pod.status else { return warnings };
    let at = FieldPath::root("status");
    let pod_ips = items(&status.pod_ips).iter().map(|item| item.ip.as_str());
    warn_of_addresses(pod_ips, &at.child("podIPs"), "ip", &mut warnings);
    let host_ips = items(&status.host_ips).iter().map(|item| item.ip.as_str());
    warn_of_addresses(host_ips, &at.child("hostIPs"), "ip", &mut warnings);
    warnings
}

/// Warns of the template at a path.
pub(super) fn warn_of_template(template: &PodTemplateSpec, at: &FieldPath, warnings: &mut Vec<String>) {
    let (empty, nothing) = (PodSpec::default(), ObjectMeta::default());
    let spec = template.spec.as_ref().unwrap_or(&empty);
    warn_of_spec(spec, template.metadata.as_ref().unwrap_or(&nothing), at, warnings);
}

/// The path is that of the template, empty for a pod.
fn warn_of_spec(spec: &PodSpec, metadata: &ObjectMeta, owner_at: &FieldPath, warnings: &mut Vec<String>) {
    let at = owner_at.child("spec");
    let around = Surroundings {
        annotations: &metadata.annotations,
        annotations_at: owner_at.child("metadata").child("annotations"),
        is_template: *owner_at != FieldPath::default(),
        app_armor: spec.security_context.as_ref().and_then(|context| context.app_armor_profile.clone()),
    };
    warn_of_node_labels(spec, &at, warnings);
    for (index, constraint) in items(&spec.topology_spread_constraints).iter().enumerate() {
        warn_of_spread(constraint, &at.child("topologySpreadConstraints").index(index), warnings);
    }
    for (key, text) in DEPRECATED_ANNOTATIONS {
        around.warn_of_annotation(key, text, warnings);
    }
    for (index, volume) in items(&spec.volumes).iter().enumerate() {
        warn_of_volume(volume, &at.child("volumes").index(index), warnings);
    }
    warn_of_overlaps(items(&spec.volumes), warnings);
    warn_of_lists(spec, &at, warnings);
    warn_of_fractions(&spec.overhead, &BYTES, &at.child("overhead"), warnings);
    if spec.security_context.as_ref().is_none_or(|context| context.seccomp_profile.is_none()) {
        around.warn_of_seccomp(None, warnings);
    }
    for (list, index, container) in containers::all(spec) {
        warn_of_container(&container, &around, &at.child(list.field()).index(index), warnings);
    }
    warn_of_ports(spec, &at, warnings);
    if spec.termination_grace_period_seconds.is_some_and(|seconds| seconds < 0) {
        let text = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.push(format!("{}: {text}", at.child("terminationGracePeriodSeconds")));
    }
    if let Some(affinity) = &spec.affinity {
        warn_of_affinity(affinity, &at.child("affinity"), warnings);
    }
    let servers = spec.dns_config.iter().flat_map(|config| items(&config.nameservers)).map(String::as_str);
    warn_of_addresses(servers, &at.child("dnsConfig").child("nameservers"), "", warnings);
    let aliases = items(&spec.host_aliases).iter().map(|alias| alias.ip.as_str());
    warn_of_addresses(aliases, &at.child("hostAliases"), "ip", warnings);
}

fn warn_of_node_labels(spec: &PodSpec, at: &FieldPath, warnings: &mut Vec<String>) {
    for (key, _) in entries(&spec.node_selector) {
        let text = deprecation(key).map(|text| format!("{}: {text}", at.child("nodeSelector").key(key)));
        warnings.extend(text);
    }
    let Some(affinity) = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()) else { return };
    let at = at.child("affinity").child("nodeAffinity");
    if let Some(selector) = &affinity.required_during_scheduling_ignored_during_execution {
        let at = at.child(REQUIRED).child("nodeSelectorTerms");
        for (index, term) in selector.node_selector_terms.iter().enumerate() {
            warn_of_term(term, false, &at.index(index), warnings);
        }
    }
    let preferred = items(&affinity.preferred_during_scheduling_ignored_during_execution);
    for (index, term) in preferred.iter().enumerate() {
        warn_of_term(&term.preference, true, &at.child(PREFERRED).index(index).child("preference"), warnings);
    }
}

fn warn_of_spread(constraint: &TopologySpreadConstraint, at: &FieldPath, warnings: &mut Vec<String>) {
    let key = &constraint.topology_key;
    warnings.extend(deprecation(key).map(|text| format!("{}: {key} is {text}", at.child("topologyKey"))));
    if constraint.label_selector.is_none() {
        warnings.push(format!("{}: {NULL_SELECTOR}", at.child("labelSelector")));
    }
}

/// Kinds of volume that went away.
fn warn_of_volume(volume: &Volume, at: &FieldPath, warnings: &mut Vec<String>) {
    let mut warn = |is_there: bool, field: &str, text: &str| {
        if is_there {
            warnings.push(format!("{}: {text}", at.child(field)));
        }
    };
    let removed_in_25 = "deprecated in v1.22, non-functional in v1.25+";
    let removed_in_31 = "deprecated in v1.28, non-functional in v1.31+";
    let photon = volume.photon_persistent_disk.is_some();
    warn(photon, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+");
    warn(volume.git_repo.is_some(), "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+");
    warn(volume.scale_io.is_some(), "scaleIO", "deprecated in v1.16, non-functional in v1.22+");
    warn(volume.flocker.is_some(), "flocker", removed_in_25);
    warn(volume.storageos.is_some(), "storageOS", removed_in_25);
    warn(volume.quobyte.is_some(), "quobyte", removed_in_25);
    warn(volume.glusterfs.is_some(), "glusterfs", "deprecated in v1.25, non-functional in v1.26+");
    if let Some(template) = volume.ephemeral.as_ref().and_then(|it| it.volume_claim_template.as_ref()) {
        let at = at.child("ephemeral").child("volumeClaimTemplate").child("spec");
        warn_of_claim(&template.spec, &at, warnings);
    }
    let mut warn = |is_there: bool, field: &str| {
        if is_there {
            warnings.push(format!("{}: {removed_in_31}", at.child(field)));
        }
    };
    warn(volume.cephfs.is_some(), "cephfs");
    warn(volume.rbd.is_some(), "rbd");
}

/// Lists whose items clients merge by a key that some items share or lack.
fn warn_of_lists(spec: &PodSpec, at: &FieldPath, warnings: &mut Vec<String>) {
    let mut known = BTreeSet::new();
    for (index, alias) in items(&spec.host_aliases).iter().enumerate() {
        if !known.insert(alias.ip.as_str()) {
            let at = at.child("hostAliases").index(index).child("ip");
            warnings.push(format!("{at}: duplicate ip {}", quote(&alias.ip)));
        }
    }
    let mut known = BTreeSet::new();
    let secrets_at = |index: usize| at.child("imagePullSecrets").index(index).child("name");
    for (index, secret) in items(&spec.image_pull_secrets).iter().enumerate() {
        if !known.insert(secret.name.as_str()) {
            warnings.push(format!("{}: duplicate name {}", secrets_at(index), quote(&secret.name)));
        }
    }
    for (index, secret) in items(&spec.image_pull_secrets).iter().enumerate() {
        if secret.name.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", secrets_at(index)));
        }
    }
}

fn warn_of_affinity(affinity: &Affinity, at: &FieldPath, warnings: &mut Vec<String>) {
    if let Some(affinity) = &affinity.pod_affinity {
        let at = at.child("podAffinity");
        warn_of_required(items(&affinity.required_during_scheduling_ignored_during_execution), &at, warnings);
        warn_of_preferred(items(&affinity.preferred_during_scheduling_ignored_during_execution), &at, warnings);
    }
    if let Some(affinity) = &affinity.pod_anti_affinity {
        let at = at.child("podAntiAffinity");
        warn_of_required(items(&affinity.required_during_scheduling_ignored_during_execution), &at, warnings);
        warn_of_preferred(items(&affinity.preferred_during_scheduling_ignored_during_execution), &at, warnings);
    }
}

fn warn_of_required(terms: &[PodAffinityTerm], at: &FieldPath, warnings: &mut Vec<String>) {
    for (index, _) in terms.iter().enumerate().filter(|(_, term)| term.label_selector.is_none()) {
        let at = at.child(REQUIRED).index(index).child("labelSelector");
        warnings.push(format!("{at}: {NULL_SELECTOR}"));
    }
}

fn warn_of_preferred(terms: &[WeightedPodAffinityTerm], at: &FieldPath, warnings: &mut Vec<String>) {
    for (index, _) in terms.iter().enumerate().filter(|(_, term)| term.pod_affinity_term.label_selector.is_none()) {
        let at = at.child(PREFERRED).index(index).child("podAffinityTerm").child("labelSelector");
        warnings.push(format!("{at}: {NULL_SELECTOR}"));
    }
}
