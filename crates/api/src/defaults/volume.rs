//! Defaults of volumes (L-111, A-157).

use k8s_openapi::api::core::v1::{
    AzureDiskVolumeSource, DownwardAPIVolumeFile, ISCSIVolumeSource, PersistentVolumeClaimSpec, ProjectedVolumeSource,
    RBDVolumeSource, ScaleIOVolumeSource, Volume,
};

use super::{container, resources};
use crate::absent::{default_text, items_mut};

const FILE_MODE: i32 = 0o644;
const TOKEN_EXPIRATION_SECONDS: i64 = 3600;

pub(super) fn volume(volume: &mut Volume) {
    if (Volume { name: String::new(), ..volume.clone() }) == Volume::default() {
        volume.empty_dir = Some(Default::default());
    }
    if let Some(source) = &mut volume.empty_dir {
        source.size_limit.as_mut().map(resources::canonical);
    }
    if let Some(source) = &mut volume.host_path {
        source.type_.get_or_insert_default();
    }
    if let Some(source) = &mut volume.secret {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.config_map {
        source.default_mode.get_or_insert(FILE_MODE);
    }
    if let Some(source) = &mut volume.downward_api {
        source.default_mode.get_or_insert(FILE_MODE);
        items_mut(&mut source.items).iter_mut().for_each(downward_api_file);
    }
    if let Some(source) = &mut volume.projected {
        projected(source);
    }
    if let Some(source) = &mut volume.image {
        container::pull_policy(&mut source.pull_policy, source.reference.as_deref().unwrap_or(""));
    }
    if let Some(template) = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut()) {
        template.metadata.get_or_insert_default();
        claim_spec(&mut template.spec);
    }
    volume.iscsi.as_mut().map(iscsi);
    volume.rbd.as_mut().map(rbd);
    volume.azure_disk.as_mut().map(azure_disk);
    volume.scale_io.as_mut().map(scale_io);
}

pub(super) fn claim_spec(spec: &mut PersistentVolumeClaimSpec) {
    spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    let resources = spec.resources.get_or_insert_default();
    resources::round_list(&mut resources.limits);
    resources::round_list(&mut resources.requests);
}

pub(super) fn azure_disk(source: &mut AzureDiskVolumeSource) {
    source.caching_mode.get_or_insert_with(|| "ReadWrite".to_owned());
    source.fs_type.get_or_insert_with(|| "ext4".to_owned());
    source.read_only.get_or_insert(false);
    source.kind.get_or_insert_with(|| "Shared".to_owned());
}

fn projected(source: &mut ProjectedVolumeSource) {
    source.default_mode.get_or_insert(FILE_MODE);
    for projection in items_mut(&mut source.sources) {
        if let Some(files) = &mut projection.downward_api {
            items_mut(&mut files.items).iter_mut().for_each(downward_api_file);
        }
        if let Some(token) = &mut projection.service_account_token {
            token.expiration_seconds.get_or_insert(TOKEN_EXPIRATION_SECONDS);
        }
    }
}

fn downward_api_file(file: &mut DownwardAPIVolumeFile) {
    file.field_ref.as_mut().map(container::field_ref);
    file.resource_field_ref.as_mut().map(container::resource_field_ref);
}

fn iscsi(source: &mut ISCSIVolumeSource) {
    default_text(&mut source.iscsi_interface, "default");
}

fn rbd(source: &mut RBDVolumeSource) {
    default_text(&mut source.pool, "rbd");
    default_text(&mut source.user, "admin");
    default_text(&mut source.keyring, "/etc/ceph/keyring");
}

fn scale_io(source: &mut ScaleIOVolumeSource) {
    default_text(&mut source.storage_mode, "ThinProvisioned");
    default_text(&mut source.fs_type, "xfs");
}
