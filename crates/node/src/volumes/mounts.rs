//! What the runtime is asked to mount into one container.

use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

use super::api_files::ApiFiles;
use super::sub_path;
use super::{ContainerMounts, MountError, PodVolumes, VolumeContext, empty_dir, host_path, pod_ref};
use crate::images::Image;
use crate::runtime::config::{MountAccess, MountConfig, MountPropagation, MountSource};

impl PodVolumes {
    /// The mounts of a container, those that lie in others after them. Its pod must have been set up.
    ///
    /// Makes the missing directories of subPaths, and the host path of a volume without a type.
    pub fn mounts(
        &self,
        context: &VolumeContext<'_>,
        wanted: &ContainerMounts<'_>,
    ) -> Result<Vec<MountConfig>, MountError> {
        let mount = |mount| self.mount(context, wanted, mount);
        let mut mounts = wanted.volume_mounts.iter().map(mount).collect::<Result<Vec<_>, _>>()?;
        // Stable: of two at the same place the later one in the spec wins.
        mounts.sort_by_key(|mount| mount.destination.components().count());
        Ok(mounts)
    }

    fn mount(
        &self,
        context: &VolumeContext<'_>,
        wanted: &ContainerMounts<'_>,
        mount: &VolumeMount,
    ) -> Result<MountConfig, MountError> {
        let volumes = context.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let Some(volume) = volumes.into_iter().find(|volume| volume.name == mount.name) else {
            return Err(MountError(format!(
                "cannot find volume \"{}\" to mount into container \"{}\"",
                mount.name, wanted.container
            )));
        };
        let sub_path = sub_path::wanted(mount, wanted.environment)?;
        let sub_path = Some(sub_path).filter(|path| !path.is_empty());
        let propagation = propagation(mount)?;
        let is_recursive = is_recursively_read_only(mount)?;
        let source = if volume.image.is_some() {
            self.image_layers(context, volume, sub_path)?
        } else {
            let path = self.source(volume, wanted)?;
            if let Some(sub_path) = &sub_path {
                sub_path::prepare(&path, sub_path)
                    .map_err(|error| MountError(error.text(&mount.name, wanted.container)))?;
            }
            let is_read_only = mount.read_only == Some(true) || ApiFiles::of(volume).is_some();
            let access = match (is_read_only, is_recursive) {
                (false, _) => MountAccess::ReadWrite,
                (true, false) => MountAccess::ReadOnly,
                (true, true) => MountAccess::RecursiveReadOnly,
            };
            MountSource::Bind { path, sub_path: sub_path.map(PathBuf::from), access, propagation }
        };
        Ok(MountConfig { destination: absolute(&mount.mount_path), source })
    }

    /// What the volume is on the node.
    fn source(&self, volume: &Volume, wanted: &ContainerMounts<'_>) -> Result<PathBuf, MountError> {
        if let Some(source) = &volume.host_path {
            let path = PathBuf::from(&source.path);
            // Kubernetes leaves a path that is missing to the runtime, and every runtime makes a directory of it.
            if source.type_.as_deref().unwrap_or_default().is_empty() && !path.exists() {
                host_path::make_directory(&path).map_err(|error| MountError(error.to_string()))?;
            }
            return Ok(path);
        }
        let plugin = ApiFiles::of(volume).map_or(empty_dir::PLUGIN, |files| files.plugin());
        let path = self.volume(plugin, &volume.name);
        if path.is_dir() {
            return Ok(path);
        }
        Err(MountError(format!(
            "cannot find volume \"{}\" to mount into container \"{}\"",
            volume.name, wanted.container
        )))
    }

    /// The layers of an image volume, which are held until the pod is torn down (L-928).
    fn image_layers(
        &self,
        context: &VolumeContext<'_>,
        volume: &Volume,
        sub_path: Option<String>,
    ) -> Result<MountSource, MountError> {
        let reference = volume.image.as_ref().and_then(|source| source.reference.as_deref()).unwrap_or_default();
        let found = context.images.find(reference).map_err(|error| MountError(error.to_string()))?;
        let Some(image) = found else {
            return Err(MountError(format!("image \"{reference}\" of volume \"{}\" is not present", volume.name)));
        };
        self.hold(context, volume, &image)?;
        let lower_directories = context.images.layer_directories(&image);
        Ok(MountSource::Layers { lower_directories, sub_path: sub_path.map(PathBuf::from) })
    }

    fn hold(&self, context: &VolumeContext<'_>, volume: &Volume, image: &Image) -> Result<(), MountError> {
        let holder = holder(pod_ref(context.pod).uid.as_str(), &volume.name);
        context.images.hold(&image.id, &holder).map_err(|error| MountError(error.to_string()))
    }
}

/// How the store's users are told who uses an image.
pub(super) fn holder(pod_uid: &str, volume: &str) -> String {
    format!("{}{volume}", holder_prefix(pod_uid))
}

/// What the holders of one pod's volumes have in common.
pub(super) fn holder_prefix(pod_uid: &str) -> String {
    format!("pod {pod_uid} volume ")
}

fn propagation(mount: &VolumeMount) -> Result<MountPropagation, MountError> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(MountError(format!("invalid MountPropagation mode: \"{other}\""))),
    }
}

/// Whether mounts below the mount are to be read-only too (L-927).
fn is_recursively_read_only(mount: &VolumeMount) -> Result<bool, MountError> {
    let name = &mount.name;
    let refused = |text: String| Err(MountError(format!("failed to resolve recursive read-only mode: {text}")));
    let mode = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(false),
        Some(mode) => mode,
    };
    if mount.read_only != Some(true) {
        return refused(format!("volume \"{name}\" requested recursive read-only mode, but it is not read-only"));
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|propagation| *propagation != "None") {
        return refused(format!(
            "volume \"{name}\" requested recursive read-only mode, but it is not compatible with propagation \"{propagation}\""
        ));
    }
    match (mode, kernel_has_recursive_read_only()) {
        ("IfPossible", is_supported) => Ok(is_supported),
        ("Enabled", true) => Ok(true),
        ("Enabled", false) => refused(format!(
            "volume \"{name}\" requested recursive read-only mode, but it is not supported by the runtime"
        )),
        (other, _) => refused(format!("unknown recursive read-only mode \"{other}\"")),
    }
}

/// `mount_setattr(2)` came with Linux 5.12.
fn kernel_has_recursive_read_only() -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) >= (5, 12)
}

/// The path in the container, from its root and without `.` and `..`.
fn absolute(path: &str) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => absolute.push(name),
            Component::ParentDir => drop(absolute.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    absolute
}
