//! Volume sources of other systems: checked as Kubernetes checks them, though most can't be mounted here.

use k8s_openapi::api::core::v1::{
    AWSElasticBlockStoreVolumeSource, AzureDiskVolumeSource, AzureFileVolumeSource, CSIVolumeSource,
    CephFSVolumeSource, CinderVolumeSource, FCVolumeSource, FlexVolumeSource, FlockerVolumeSource,
    GCEPersistentDiskVolumeSource, GitRepoVolumeSource, GlusterfsVolumeSource, ISCSIVolumeSource, NFSVolumeSource,
    PhotonPersistentDiskVolumeSource, PortworxVolumeSource, QuobyteVolumeSource, RBDVolumeSource, ScaleIOVolumeSource,
    StorageOSVolumeSource, Volume, VsphereVirtualDiskVolumeSource,
};

use crate::absent::{entries, flag, items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names::{dns_label, dns_subdomain, range_text};
use crate::validation::paths::validate_descending;

const LUN_MAX: i64 = 255;
const HOST_PORT_DETAIL: &str = "must be a host:port pair or multiple pairs separated by commas";

/// Each field that must not be empty, in order.
fn require(fields: &[(&str, &str)], at: &FieldPath, errors: &mut Errors) {
    for (field, _) in fields.iter().filter(|(_, value)| value.is_empty()) {
        errors.required(&at.child(field), "");
    }
}

pub(super) fn validate_git_repo(source: &GitRepoVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("repository", &source.repository)], at, errors);
    validate_descending(text(&source.directory), &at.child("directory"), errors);
}

pub(super) fn validate_gce_disk(source: &GCEPersistentDiskVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("pdName", &source.pd_name)], at, errors);
    validate_partition(source.partition, at, errors);
}

pub(super) fn validate_aws_disk(source: &AWSElasticBlockStoreVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("volumeID", &source.volume_id)], at, errors);
    validate_partition(source.partition, at, errors);
}

pub(super) fn validate_nfs(source: &NFSVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("server", &source.server), ("path", &source.path)], at, errors);
    if !source.path.starts_with('/') {
        errors.invalid(&at.child("path"), source.path.as_str(), "must be an absolute path");
    }
}

pub(super) fn validate_iscsi(source: &ISCSIVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("targetPortal", &source.target_portal)], at, errors);
    if source.iqn.is_empty() {
        errors.required(&at.child("iqn"), "");
    } else {
        errors.invalid_text(&at.child("iqn"), &source.iqn, initiator_error(&source.iqn));
    }
    errors.in_range(&at.child("lun"), source.lun, 0, LUN_MAX);
    let has_chap = flag(source.chap_auth_discovery) || flag(source.chap_auth_session);
    if has_chap && source.secret_ref.is_none() {
        errors.required(&at.child("secretRef"), "");
    }
    if let Some(initiator) = &source.initiator_name {
        errors.invalid_text(&at.child("initiatorname"), initiator, initiator_error(initiator));
    }
}

/// Name and portal together become one identifier.
pub(super) fn validate_iscsi_name(volume: &Volume, at: &FieldPath, errors: &mut Errors) {
    let Some(source) = volume.iscsi.as_ref().filter(|source| source.initiator_name.is_some()) else { return };
    if volume.name.len() + 1 + source.target_portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(&at.child("name"), volume.name.as_str(), detail);
    }
}

pub(super) fn validate_glusterfs(source: &GlusterfsVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("endpoints", &source.endpoints), ("path", &source.path)], at, errors);
}

pub(super) fn validate_flocker(source: &FlockerVolumeSource, at: &FieldPath, errors: &mut Errors) {
    let (name, uuid) = (text(&source.dataset_name), text(&source.dataset_uuid));
    if name.is_empty() && uuid.is_empty() {
        errors.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(&at.child("datasetName"), name, "must not contain '/'");
    }
}

pub(super) fn validate_rbd(source: &RBDVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.monitors.is_empty() {
        errors.required(&at.child("monitors"), "");
    }
    require(&[("image", &source.image)], at, errors);
}

pub(super) fn validate_cinder(source: &CinderVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("volumeID", &source.volume_id)], at, errors);
    if let Some(secret) = &source.secret_ref {
        require(&[("name", &secret.name)], &at.child("secretRef"), errors);
    }
}

pub(super) fn validate_cephfs(source: &CephFSVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.monitors.is_empty() {
        errors.required(&at.child("monitors"), "");
    }
}

pub(super) fn validate_quobyte(source: &QuobyteVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.registry.is_empty() {
        errors.required(&at.child("registry"), HOST_PORT_DETAIL);
    } else if text(&source.tenant).len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&at.child("tenant"), detail);
    } else {
        for _ in source.registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(&at.child("registry"), source.registry.as_str(), HOST_PORT_DETAIL);
        }
    }
    require(&[("volume", &source.volume)], at, errors);
}

pub(super) fn validate_fibre_channel(source: &FCVolumeSource, at: &FieldPath, errors: &mut Errors) {
    let (names, ids) = (items(&source.target_wwns), items(&source.wwids));
    let names_at = at.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.required(&names_at, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid_object(&names_at, &names, detail);
    }
    if names.is_empty() {
        return;
    }
    match source.lun {
        None => errors.required(&at.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) => errors.in_range(&at.child("lun"), lun, 0, LUN_MAX),
    }
}

pub(super) fn validate_flex_volume(source: &FlexVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("driver", &source.driver)], at, errors);
    for (key, _) in entries(&source.options) {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain).to_lowercase();
        let domain = format!(".{domain}");
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.invalid(&at.child("options").key(key), key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn validate_azure_file(source: &AzureFileVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("secretName", &source.secret_name), ("shareName", &source.share_name)], at, errors);
}

pub(super) fn validate_vsphere_volume(source: &VsphereVirtualDiskVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("volumePath", &source.volume_path)], at, errors);
}

pub(super) fn validate_photon_disk(source: &PhotonPersistentDiskVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("pdID", &source.pd_id)], at, errors);
}

pub(super) fn validate_portworx_volume(source: &PortworxVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("volumeID", &source.volume_id)], at, errors);
}

pub(super) fn validate_azure_disk(source: &AzureDiskVolumeSource, at: &FieldPath, errors: &mut Errors) {
    require(&[("diskName", &source.disk_name), ("diskURI", &source.disk_uri)], at, errors);
    if let Some(mode) = &source.caching_mode {
        errors.one_of(&at.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    let Some(kind) = source.kind.as_deref() else { return };
    errors.one_of(&at.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    let (prefix, form) = if kind == "Managed" {
        let form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
        ("/subscriptions/", form)
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !source.disk_uri.starts_with(prefix) {
        errors.not_supported(&at.child("diskURI"), &source.disk_uri, &[form]);
    }
}

pub(super) fn validate_storage_os(source: &StorageOSVolumeSource, at: &FieldPath, errors: &mut Errors) {
    errors.required_label(&at.child("volumeName"), text(&source.volume_name));
    let namespace = text(&source.volume_namespace);
    if !namespace.is_empty() {
        errors.invalid_text(&at.child("volumeNamespace"), namespace, dns_label(namespace));
    }
    if let Some(secret) = &source.secret_ref {
        require(&[("name", &secret.name)], &at.child("secretRef"), errors);
    }
}

pub(super) fn validate_scale_io(source: &ScaleIOVolumeSource, at: &FieldPath, errors: &mut Errors) {
    let volume_name = text(&source.volume_name);
    require(&[("gateway", &source.gateway), ("system", &source.system), ("volumeName", volume_name)], at, errors);
}

pub(super) fn validate_csi(source: &CSIVolumeSource, at: &FieldPath, errors: &mut Errors) {
    let driver_at = at.child("driver");
    if source.driver.is_empty() {
        errors.required(&driver_at, "");
    } else {
        if source.driver.len() > 63 {
            errors.too_long(&driver_at, 63);
        }
        errors.invalid_text(&driver_at, &source.driver, dns_subdomain(&source.driver.to_lowercase()));
    }
    if let Some(secret) = &source.node_publish_secret_ref {
        if secret.name.is_empty() {
            errors.required(&at.child("nodePublishSecretRef").child("name"), "");
        } else {
            errors.invalid_text(&at.child("name"), &secret.name, dns_subdomain(&secret.name));
        }
    }
}

fn validate_partition(partition: Option<i32>, at: &FieldPath, errors: &mut Errors) {
    if let Some(partition) = partition.filter(|partition| !(0..=255).contains(partition)) {
        errors.invalid(&at.child("partition"), partition, range_text(1, 255));
    }
}

fn initiator_error(name: &str) -> Option<&'static str> {
    let is_valid = match name {
        _ if name.starts_with("iqn") => is_iqn(name),
        _ if name.starts_with("eui") => is_identifier(name, 16),
        _ if name.starts_with("naa") => is_identifier(name, 32),
        _ => return Some("must be valid format starting with iqn, eui, or naa"),
    };
    (!is_valid).then_some("must be valid format")
}

/// `iqn.2001-04.com.example:name`, from wherever it begins in the text.
fn is_iqn(name: &str) -> bool {
    let rests = name.match_indices("iqn.").filter_map(|(at, _)| name.get(at + 4..));
    rests.into_iter().any(|rest| {
        let Some((date, rest)) = rest.split_once('.') else { return false };
        let is_date = date.len() == 7
            && date.bytes().enumerate().all(|(at, byte)| if at == 4 { byte == b'-' } else { byte.is_ascii_digit() });
        let Some((authority, unique)) = rest.split_once(':') else { return false };
        is_date
            && !authority.is_empty()
            && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
            && !unique.is_empty()
            && !unique.contains([',', ';', '*', '&', '$', '|'])
            && !unique.contains(|character: char| character.is_ascii_whitespace())
    })
}

/// Three letters, any one character, and letters and digits of a given number.
fn is_identifier(name: &str, length: usize) -> bool {
    name.char_indices()
        .nth(4)
        .and_then(|(at, _)| name.get(at..))
        .is_some_and(|rest| rest.len() == length && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn is_host_and_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => {
            rest.split_once("]:").is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains(':'))
        }
        None => pair.split_once(':').is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains(':')),
    }
}
