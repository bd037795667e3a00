//! A pod's volumes: their names, that each has one source, and the sources in daily use (L-1213).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, EphemeralVolumeSource, HostPathVolumeSource,
    ImageVolumeSource, KeyToPath, PersistentVolumeClaimVolumeSource, SecretVolumeSource, Volume,
};

use super::container::PULL_POLICIES;
use super::env::{VOLUME_FIELDS, validate_field_ref, validate_resource_field_ref};
use super::resources::amount;
use super::{Owner, legacy_volumes as legacy, projected};
use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::claim::validate_claim_template;
use crate::validation::errors::Errors;
use crate::validation::names;
use crate::validation::paths::{validate_descending_and_free, validate_no_backsteps};

/// Sorted as Kubernetes lists them.
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const FILE_MODE_MAX: i32 = 0o777;

/// Checks all volumes; those without errors are what containers can mount.
pub(super) fn validate_volumes<'a>(
    volumes: &'a [Volume],
    owner: Owner<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) -> BTreeMap<&'a str, &'a Volume> {
    let created = created_claims(volumes, owner);
    let mut sound = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        let at = at.index(index);
        let mut own = Errors::default();
        validate_source(volume, owner, &at, &mut own);
        own.required_label(&at.child("name"), &volume.name);
        if sound.contains_key(volume.name.as_str()) {
            own.duplicate(&at.child("name"), volume.name.as_str());
        }
        if own.is_empty() {
            sound.insert(volume.name.as_str(), volume);
        }
        errors.append(own);
        if let Some(claim) = volume.persistent_volume_claim.as_ref().filter(|it| created.contains(&it.claim_name)) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            let claim_at = at.child("persistentVolumeClaim").child("claimName");
            errors.invalid(&claim_at, claim.claim_name.as_str(), detail);
        }
    }
    sound
}

/// The claims that will be made for the pod's ephemeral volumes, if its name is known.
fn created_claims(volumes: &[Volume], owner: Owner<'_>) -> BTreeSet<String> {
    match owner {
        Owner::Pod { name, .. } if !name.is_empty() => {
            let ephemeral = volumes.iter().filter(|volume| volume.ephemeral.is_some());
            ephemeral.map(|volume| format!("{name}-{}", volume.name)).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// The first source in Kubernetes' order is checked, every further one is refused.
struct Sources<'a> {
    at: &'a FieldPath,
    errors: &'a mut Errors,
    count: usize,
}

impl Sources<'_> {
    /// `field` is where a second source is refused, `checked` where a first one is checked; Kubernetes spells some apart.
    fn take<S>(
        &mut self,
        field: &str,
        checked: &str,
        source: &Option<S>,
        check: impl FnOnce(&S, &FieldPath, &mut Errors),
    ) {
        let Some(source) = source else { return };
        if self.count > 0 {
            self.errors.forbidden(&self.at.child(field), "may not specify more than 1 volume type");
            return;
        }
        self.count += 1;
        check(source, &self.at.child(checked), self.errors);
    }

    fn one<S>(&mut self, field: &str, source: &Option<S>, check: impl FnOnce(&S, &FieldPath, &mut Errors)) {
        self.take(field, field, source, check);
    }
}

fn validate_source(volume: &Volume, owner: Owner<'_>, at: &FieldPath, errors: &mut Errors) {
    let mut sources = Sources { at, errors, count: 0 };
    sources.one("emptyDir", &volume.empty_dir, |source, at, errors| {
        if source.size_limit.as_ref().is_some_and(|limit| amount(limit).is_negative()) {
            errors.forbidden(&at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
        }
    });
    sources.one("hostPath", &volume.host_path, validate_host_path);
    sources.one("gitRepo", &volume.git_repo, legacy::validate_git_repo);
    let disk = &volume.gce_persistent_disk;
    sources.take("gcePersistentDisk", "persistentDisk", disk, legacy::validate_gce_disk);
    sources.one("awsElasticBlockStore", &volume.aws_elastic_block_store, legacy::validate_aws_disk);
    sources.one("secret", &volume.secret, validate_secret);
    sources.one("nfs", &volume.nfs, legacy::validate_nfs);
    sources.one("iscsi", &volume.iscsi, legacy::validate_iscsi);
    legacy::validate_iscsi_name(volume, sources.at, sources.errors);
    sources.one("glusterfs", &volume.glusterfs, legacy::validate_glusterfs);
    sources.one("flocker", &volume.flocker, legacy::validate_flocker);
    sources.one("persistentVolumeClaim", &volume.persistent_volume_claim, validate_claim_reference);
    sources.one("rbd", &volume.rbd, legacy::validate_rbd);
    sources.one("cinder", &volume.cinder, legacy::validate_cinder);
    sources.take("cephFS", "cephfs", &volume.cephfs, legacy::validate_cephfs);
    sources.one("quobyte", &volume.quobyte, legacy::validate_quobyte);
    sources.take("downwarAPI", "downwardAPI", &volume.downward_api, validate_downward_api);
    sources.one("fc", &volume.fc, legacy::validate_fibre_channel);
    sources.one("flexVolume", &volume.flex_volume, legacy::validate_flex_volume);
    sources.one("configMap", &volume.config_map, validate_config_map);
    sources.one("azureFile", &volume.azure_file, legacy::validate_azure_file);
    sources.one("vsphereVolume", &volume.vsphere_volume, legacy::validate_vsphere_volume);
    sources.one("photonPersistentDisk", &volume.photon_persistent_disk, legacy::validate_photon_disk);
    sources.one("portworxVolume", &volume.portworx_volume, legacy::validate_portworx_volume);
    sources.one("azureDisk", &volume.azure_disk, legacy::validate_azure_disk);
    sources.one("storageos", &volume.storageos, legacy::validate_storage_os);
    sources.one("projected", &volume.projected, projected::validate_projected);
    sources.one("scaleIO", &volume.scale_io, legacy::validate_scale_io);
    sources.one("csi", &volume.csi, legacy::validate_csi);
    let volume_at = at;
    sources.one("ephemeral", &volume.ephemeral, |source, at, errors| {
        validate_ephemeral(source, at, errors);
        validate_claim_name(volume, owner, &volume_at.child("name"), errors);
    });
    sources.one("image", &volume.image, |source, at, errors| validate_image(source, owner, at, errors));
    if sources.count == 0 {
        sources.errors.required(at, "must specify a volume type");
    }
}

fn validate_host_path(source: &HostPathVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.path.is_empty() {
        errors.required(&at.child("path"), "");
        return;
    }
    validate_no_backsteps(&source.path, &at.child("path"), errors);
    if let Some(kind) = &source.type_ {
        errors.one_of(&at.child("type"), kind, &HOST_PATH_TYPES);
    }
}

fn validate_secret(source: &SecretVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if text(&source.secret_name).is_empty() {
        errors.required(&at.child("secretName"), "");
    }
    validate_mode(source.default_mode, &at.child("defaultMode"), errors);
    for (index, item) in items(&source.items).iter().enumerate() {
        validate_key_to_path(item, &at.child("items").index(index), errors);
    }
}

fn validate_config_map(source: &ConfigMapVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.name.is_empty() {
        errors.required(&at.child("name"), "");
    }
    validate_mode(source.default_mode, &at.child("defaultMode"), errors);
    for (index, item) in items(&source.items).iter().enumerate() {
        validate_key_to_path(item, &at.child("items").index(index), errors);
    }
}

fn validate_claim_reference(source: &PersistentVolumeClaimVolumeSource, at: &FieldPath, errors: &mut Errors) {
    if source.claim_name.is_empty() {
        errors.required(&at.child("claimName"), "");
    }
}

fn validate_downward_api(source: &DownwardAPIVolumeSource, at: &FieldPath, errors: &mut Errors) {
    validate_mode(source.default_mode, &at.child("defaultMode"), errors);
    for file in items(&source.items) {
        validate_downward_api_file(file, at, errors);
    }
}

fn validate_ephemeral(source: &EphemeralVolumeSource, at: &FieldPath, errors: &mut Errors) {
    match &source.volume_claim_template {
        None => errors.required(&at.child("volumeClaimTemplate"), ""),
        Some(template) => validate_claim_template(template, &at.child("volumeClaimTemplate"), errors),
    }
}

fn validate_claim_name(volume: &Volume, owner: Owner<'_>, at: &FieldPath, errors: &mut Errors) {
    let Owner::Pod { name, .. } = owner else { return };
    if name.is_empty() || volume.name.is_empty() {
        return;
    }
    let claim = format!("{name}-{}", volume.name);
    for wrong in names::dns_subdomain(&claim) {
        errors.invalid(at, volume.name.as_str(), format!("PVC name {claim:?}: {wrong}"));
    }
}

fn validate_image(source: &ImageVolumeSource, owner: Owner<'_>, at: &FieldPath, errors: &mut Errors) {
    if owner.is_pod() && text(&source.reference).is_empty() {
        errors.required(&at.child("reference"), "");
    }
    errors.required_one_of(&at.child("pullPolicy"), text(&source.pull_policy), &PULL_POLICIES);
}

pub(super) fn validate_mode(mode: Option<i32>, at: &FieldPath, errors: &mut Errors) {
    if let Some(mode) = mode.filter(|mode| !(0..=FILE_MODE_MAX).contains(mode)) {
        errors.invalid(at, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

pub(super) fn validate_key_to_path(item: &KeyToPath, at: &FieldPath, errors: &mut Errors) {
    if item.key.is_empty() {
        errors.required(&at.child("key"), "");
    }
    if item.path.is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_descending_and_free(&item.path, &at.child("path"), errors);
    validate_mode(item.mode, &at.child("mode"), errors);
}

pub(super) fn validate_downward_api_file(file: &DownwardAPIVolumeFile, at: &FieldPath, errors: &mut Errors) {
    if file.path.is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_descending_and_free(&file.path, &at.child("path"), errors);
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(selector), resource) => {
            validate_field_ref(selector, &VOLUME_FIELDS, &at.child("fieldRef"), errors);
            if resource.is_some() {
                errors.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
        }
        (None, Some(selector)) => {
            validate_resource_field_ref(selector, true, &at.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(at, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(file.mode, &at.child("mode"), errors);
}
