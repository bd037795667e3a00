//! Sets up every volume that a container of the pod mounts, and writes changed files into those that stand.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, Volume};

use super::api_files::{self, ApiFiles};
use super::{FailedMounts, PodVolumes, SourceError, VolumeContext, empty_dir, host_path};

/// Why a volume could not be set up; the text is what a kubelet says after `MountVolume.SetUp failed for volume "v" : `.
#[derive(Debug, thiserror::Error)]
pub(super) enum VolumeError {
    #[error("{kind} \"{name}\" not found")]
    NotFound { kind: &'static str, name: String },
    #[error("configmap references non-existent config key: {key}")]
    ConfigMapKey { key: String },
    #[error("references non-existent secret key: {key}")]
    SecretKey { key: String },
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Field(#[from] crate::container::fields::FieldError),
    #[error("failed to fetch token: {0}")]
    Token(SourceError),
    #[error("invalid path: {0}")]
    Path(String),
    #[error("hostPath type check failed: {path} is not a {kind}")]
    HostPathType { path: String, kind: &'static str },
    #[error("invalid HostPath `{path}`: must not contain '..'")]
    HostPathBackStep { path: String },
    #[error("{kind} is an invalid volume type")]
    HostPathUnknownType { kind: String },
    /// Something that this node does not have; the text says what to use instead.
    #[error("{0}")]
    Unsupported(String),
    #[error("[{}]", .0.join(", "))]
    Several(Vec<String>),
    #[error("cannot {action} {}: {}", path.display(), crate::wording::io_error(source))]
    System { action: &'static str, path: PathBuf, source: io::Error },
}

impl VolumeError {
    pub(super) fn system<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> VolumeError + use<'a> {
        move |source| VolumeError::System { action, path: path.to_owned(), source }
    }
}

impl PodVolumes {
    /// Sets up all volumes of the pod that a container mounts. What stands already stays as it is, but for files from the API.
    ///
    /// Gives the time at which [`PodVolumes::refresh`] is due because a token is getting old, if there is one.
    pub fn set_up(&self, context: &VolumeContext<'_>) -> Result<Option<Timestamp>, FailedMounts> {
        self.for_each_volume(context, |volume| self.set_up_volume(context, volume))
    }

    /// Writes changed ConfigMaps, Secrets, labels and old tokens into the volumes of a running pod (L-922, L-923).
    ///
    /// Gives the time at which it is due again because of a token, if there is one.
    pub fn refresh(&self, context: &VolumeContext<'_>) -> Result<Option<Timestamp>, FailedMounts> {
        self.for_each_volume(context, |volume| match ApiFiles::of(volume) {
            Some(files) => self.write_api_files(context, volume, &files),
            None => Ok(None),
        })
    }

    /// Does something with every volume that is mounted, whatever becomes of the others.
    fn for_each_volume(
        &self,
        context: &VolumeContext<'_>,
        mut work: impl FnMut(&Volume) -> Result<Option<Timestamp>, VolumeError>,
    ) -> Result<Option<Timestamp>, FailedMounts> {
        let mut messages = Vec::new();
        let mut due: Option<Timestamp> = None;
        let used = used_volumes(context.pod);
        let volumes = context.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        for volume in volumes.filter(|volume| used.contains(volume.name.as_str())) {
            match work(volume) {
                Ok(found) => due = due.into_iter().chain(found).min(),
                Err(error) => {
                    messages.push(format!("MountVolume.SetUp failed for volume \"{}\" : {error}", volume.name));
                }
            }
        }
        if messages.is_empty() { Ok(due) } else { Err(FailedMounts { messages }) }
    }

    fn set_up_volume(&self, context: &VolumeContext<'_>, volume: &Volume) -> Result<Option<Timestamp>, VolumeError> {
        if let Some(files) = ApiFiles::of(volume) {
            return self.write_api_files(context, volume, &files);
        }
        if let Some(source) = &volume.host_path {
            return host_path::check(source).map(|()| None);
        }
        // Pulled and mounted with the container.
        if volume.image.is_some() {
            return Ok(None);
        }
        if let Some(unsupported) = unsupported(volume) {
            return Err(VolumeError::Unsupported(unsupported));
        }
        // A volume without a source is an emptyDir (L-111).
        let source = volume.empty_dir.clone().unwrap_or_default();
        let directory = self.volume(empty_dir::PLUGIN, &volume.name);
        empty_dir::set_up(&directory, &source, context).map(|()| None)
    }

    fn write_api_files(
        &self,
        context: &VolumeContext<'_>,
        volume: &Volume,
        files: &ApiFiles<'_>,
    ) -> Result<Option<Timestamp>, VolumeError> {
        api_files::write(&self.volume(files.plugin(), &volume.name), &volume.name, files, context)
    }
}

/// What this node does not have.
fn unsupported(volume: &Volume) -> Option<String> {
    let claim = "this node provides no persistent volumes; use an emptyDir or a hostPath volume";
    if let Some(source) = &volume.persistent_volume_claim {
        return Some(format!("persistentvolumeclaim \"{}\" cannot be mounted: {claim}", source.claim_name));
    }
    if volume.ephemeral.is_some() {
        return Some(format!("a generic ephemeral volume cannot be mounted: {claim}"));
    }
    let is_other = volume.csi.is_some()
        || volume.nfs.is_some()
        || volume.iscsi.is_some()
        || volume.git_repo.is_some()
        || volume.fc.is_some()
        || volume.flex_volume.is_some()
        || volume.cephfs.is_some()
        || volume.rbd.is_some()
        || volume.glusterfs.is_some()
        || volume.flocker.is_some()
        || volume.cinder.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.azure_file.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.photon_persistent_disk.is_some()
        || volume.portworx_volume.is_some()
        || volume.quobyte.is_some()
        || volume.scale_io.is_some()
        || volume.storageos.is_some()
        || volume.vsphere_volume.is_some();
    // The words of a kubelet without the plugin.
    is_other.then(|| "no volume plugin matched".to_owned())
}

/// The names of volumes that any container mounts: others are not set up, so a missing ConfigMap in them hinders nobody.
fn used_volumes(pod: &Pod) -> BTreeSet<&str> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let of_containers = containers.flat_map(Container::volume_names);
    let of_ephemeral = spec.ephemeral_containers.iter().flatten().flat_map(EphemeralContainer::volume_names);
    of_containers.chain(of_ephemeral).collect()
}

/// The two types of containers, as far as volumes are concerned.
trait VolumeNames {
    fn volume_names(&self) -> impl Iterator<Item = &str>;
}

macro_rules! volume_names {
    ($($container:ty),*) => {$(
        impl VolumeNames for $container {
            fn volume_names(&self) -> impl Iterator<Item = &str> {
                let mounts = self.volume_mounts.iter().flatten().map(|mount| mount.name.as_str());
                let devices = self.volume_devices.iter().flatten().map(|device| device.name.as_str());
                mounts.chain(devices)
            }
        }
    )*};
}

volume_names!(Container, EphemeralContainer);
