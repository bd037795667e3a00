//! Volumes of files that come from the API: configMap, secret, downwardAPI, projected (L-921 to L-923).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, ProjectedVolumeSource, SecretVolumeSource, Volume, VolumeProjection,
};

use super::payload::{
    Payload, ProjectedFile, Selection, checked, config_map_files, default_mode, downward_files, one, secret_files,
};
use super::set_up::VolumeError;
use super::token::{self, WantedToken};
use super::{VolumeContext, atomic, directory, empty_dir, ownership};

/// A volume that is filled from the API.
pub(super) enum ApiFiles<'a> {
    ConfigMap(&'a ConfigMapVolumeSource),
    Secret(&'a SecretVolumeSource),
    DownwardApi(&'a DownwardAPIVolumeSource),
    Projected(&'a ProjectedVolumeSource),
}

impl<'a> ApiFiles<'a> {
    pub(super) fn of(volume: &'a Volume) -> Option<Self> {
        let config_map = volume.config_map.as_ref().map(ApiFiles::ConfigMap);
        let secret = volume.secret.as_ref().map(ApiFiles::Secret);
        let downward_api = volume.downward_api.as_ref().map(ApiFiles::DownwardApi);
        let projected = volume.projected.as_ref().map(ApiFiles::Projected);
        config_map.or(secret).or(downward_api).or(projected)
    }

    pub(super) fn plugin(&self) -> &'static str {
        match self {
            ApiFiles::ConfigMap(_) => "configmap",
            ApiFiles::Secret(_) => "secret",
            ApiFiles::DownwardApi(_) => "downward-api",
            ApiFiles::Projected(_) => "projected",
        }
    }
}

/// Writes what the API has into the volume; gives the time at which a token in it gets old.
pub(super) fn write(
    volume: &Path,
    name: &str,
    files: &ApiFiles<'_>,
    context: &VolumeContext<'_>,
) -> Result<Option<Timestamp>, VolumeError> {
    // First all that the API may refuse: then nothing half-made is left.
    let (payload, due) = collect(volume, files, context)?;
    let payload = checked(payload)?;
    match files {
        // Memory would be charged to nobody; a ConfigMap is no secret.
        ApiFiles::ConfigMap(_) => drop(directory::make(volume)?),
        _ => drop(directory::mount_memory(volume, empty_dir::memory_size(None, context))?),
    }
    make_nested_mount_points(volume, name, context)?;
    let fs_group = ownership::fs_group(context.pod);
    atomic::write(volume, &payload, context.now, || ownership::apply(volume, fs_group, ownership::Access::ReadOnly))?;
    Ok(due)
}

fn collect(
    volume: &Path,
    files: &ApiFiles<'_>,
    context: &VolumeContext<'_>,
) -> Result<(Payload, Option<Timestamp>), VolumeError> {
    let payload = match files {
        ApiFiles::ConfigMap(source) => config_map_files(
            &source.name,
            &Selection {
                items: source.items.as_deref().unwrap_or_default(),
                default_mode: default_mode(source.default_mode),
                is_optional: source.optional == Some(true),
            },
            context,
        ),
        ApiFiles::Secret(source) => secret_files(
            source.secret_name.as_deref().unwrap_or_default(),
            &Selection {
                items: source.items.as_deref().unwrap_or_default(),
                default_mode: default_mode(source.default_mode),
                is_optional: source.optional == Some(true),
            },
            context,
        ),
        ApiFiles::DownwardApi(source) => {
            let items = source.items.as_deref().unwrap_or_default();
            downward_files(items, default_mode(source.default_mode), context)
        }
        ApiFiles::Projected(source) => return collect_projected(volume, source, context),
    };
    Ok((payload?, None))
}

/// All sources of a projected volume; of two files of one path the later counts.
fn collect_projected(
    volume: &Path,
    source: &ProjectedVolumeSource,
    context: &VolumeContext<'_>,
) -> Result<(Payload, Option<Timestamp>), VolumeError> {
    let default_mode = default_mode(source.default_mode);
    let mut payload = Payload::new();
    let mut due: Option<Timestamp> = None;
    let mut errors = Vec::new();
    for projection in source.sources.iter().flatten() {
        match project(volume, projection, default_mode, context) {
            Ok((files, files_due)) => {
                payload.extend(files);
                due = due.into_iter().chain(files_due).min();
            }
            Err(error) => errors.push(error),
        }
    }
    match one(errors) {
        Some(error) => Err(error),
        None => Ok((payload, due)),
    }
}

fn project(
    volume: &Path,
    projection: &VolumeProjection,
    default_mode: u32,
    context: &VolumeContext<'_>,
) -> Result<(Payload, Option<Timestamp>), VolumeError> {
    if let Some(source) = &projection.service_account_token {
        return project_token(volume, source, default_mode, context);
    }
    let payload = if let Some(source) = &projection.config_map {
        let items = source.items.as_deref().unwrap_or_default();
        let selection = Selection { items, default_mode, is_optional: source.optional == Some(true) };
        config_map_files(&source.name, &selection, context)
    } else if let Some(source) = &projection.secret {
        let items = source.items.as_deref().unwrap_or_default();
        let selection = Selection { items, default_mode, is_optional: source.optional == Some(true) };
        secret_files(&source.name, &selection, context)
    } else if let Some(source) = &projection.downward_api {
        downward_files(source.items.as_deref().unwrap_or_default(), default_mode, context)
    } else if projection.cluster_trust_bundle.is_some() {
        Err(VolumeError::Unsupported("clusterTrustBundle is not provided by this node; use a configMap".to_owned()))
    } else if projection.pod_certificate.is_some() {
        Err(VolumeError::Unsupported("podCertificate is not provided by this node; use a secret".to_owned()))
    } else {
        Ok(Payload::new())
    };
    Ok((payload?, None))
}

fn project_token(
    volume: &Path,
    source: &k8s_openapi::api::core::v1::ServiceAccountTokenProjection,
    default_mode: u32,
    context: &VolumeContext<'_>,
) -> Result<(Payload, Option<Timestamp>), VolumeError> {
    let wanted = WantedToken {
        file: &atomic::data(volume).join(&source.path),
        audience: source.audience.as_deref().unwrap_or_default(),
        expiration_seconds: source.expiration_seconds.unwrap_or(token::DEFAULT_EXPIRATION_SECONDS),
    };
    let (token, due) = token::current(&wanted, context)?;
    let user = ownership::common_user(context.pod);
    // With fsGroup the group's right to read is added to this.
    let is_private = user.is_some() || ownership::fs_group(context.pod).is_some();
    let mode = if is_private { 0o600 } else { default_mode };
    let file = ProjectedFile { data: token.into_bytes(), mode, user };
    Ok((Payload::from([(source.path.clone(), file)]), Some(due)))
}

/// Makes the directories at which other volumes are mounted inside this one, because containers can't: it is read-only to them.
fn make_nested_mount_points(volume: &Path, name: &str, context: &VolumeContext<'_>) -> Result<(), VolumeError> {
    let Some(spec) = &context.pod.spec else { return Ok(()) };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.map(|container| container.volume_mounts.iter().flatten());
    let of_ephemeral = spec.ephemeral_containers.iter().flatten();
    let of_ephemeral = of_ephemeral.map(|container| container.volume_mounts.iter().flatten());
    for mounts in of_containers.chain(of_ephemeral) {
        let all: Vec<(&str, &Path)> =
            mounts.map(|mount| (mount.name.as_str(), Path::new(mount.mount_path.as_str()))).collect();
        let own = all.iter().filter(|(volume, _)| *volume == name).map(|(_, path)| *path);
        for nested in own.flat_map(|own| directly_nested(own, &all)) {
            let directory = volume.join(&nested);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(&directory)
                .map_err(VolumeError::system("make the nested mount point", &directory))?;
        }
    }
    Ok(())
}

/// The mounts below a path that lie in no other mount below it, relative to it.
fn directly_nested(own: &Path, all: &[(&str, &Path)]) -> Vec<std::path::PathBuf> {
    let below: BTreeSet<&Path> = all
        .iter()
        .filter_map(|(_, path)| path.strip_prefix(own).ok())
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let is_safe = |path: &Path| path.components().all(|component| matches!(component, Component::Normal(_)));
    let is_direct = |path: &Path| !below.iter().any(|other| *other != path && path.starts_with(other));
    below.iter().filter(|path| is_safe(path) && is_direct(path)).map(|path| path.to_path_buf()).collect()
}
