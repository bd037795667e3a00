//! Volumes: what a pod's containers mount (L-920 to L-929).
//!
//! [`PodVolumes`] works on one pod's directory and keeps no state elsewhere, so that a new agent goes on with what it finds there.
//!
//! | done | by |
//! |---|---|
//! | before the sandbox is made | [`PodVolumes::set_up`]: directories, memory file systems, files from the API |
//! | when an object or the pod has changed | [`PodVolumes::refresh`] |
//! | when a container is created | [`PodVolumes::mounts`]: what the runtime is asked to mount |
//! | when the pod has ended | [`PodVolumes::tear_down`] |
//!
//! Memory file systems are mounted in the agent's mount namespace, below the pod's directory, and are private.
//! A shim that starts afterwards has them in its own namespace too; that is why they are made before the sandbox.
//! Image volumes and subPaths are mounted by the shim alone: nothing of them is left on the node.
//!
//! All of it blocks: call it from a blocking task.

mod api_files;
mod atomic;
mod directory;
mod empty_dir;
mod host_path;
mod mount_table;
mod mounts;
mod ownership;
mod payload;
mod set_up;
mod sub_path;
mod tear_down;
mod token;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, VolumeMount};

use crate::images::ImageStore;

pub use tear_down::TearDownError;

/// The volumes of one pod, below `<pod directory>/volumes`.
#[derive(Clone, Debug)]
pub struct PodVolumes {
    pod_directory: PathBuf,
}

/// What volumes are made of.
pub struct VolumeContext<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The node's settings: allocatable resources for `resourceFieldRef` and for memory file systems.
    pub node: &'a lifecycle::NodeConfig,
    /// Where ConfigMaps, Secrets and tokens come from.
    pub sources: &'a dyn VolumeSources,
    /// Where image volumes come from.
    pub images: &'a ImageStore,
    /// The time, for the age of tokens and the names of directories.
    pub now: Timestamp,
}

/// The objects that volumes are filled from. Two implementations: the API's objects, and maps in tests.
pub trait VolumeSources: Send + Sync {
    /// A ConfigMap, `None` if there is none of that name.
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError>;
    /// A Secret, `None` if there is none of that name.
    fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError>;
    /// A new token of the pod's service account.
    fn service_account_token(&self, request: &TokenRequest<'_>) -> Result<Token, SourceError>;
}

/// Why a source could not be asked. The text goes into the `FailedMount` event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// A token to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRequest<'a> {
    /// The pod that it is bound to.
    pub pod: &'a lifecycle::PodRef,
    /// `spec.serviceAccountName`.
    pub service_account: &'a str,
    /// The audience; empty means the API server's own.
    pub audience: &'a str,
    /// How long it is to be valid.
    pub expiration_seconds: i64,
}

/// A service account's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub token: String,
    /// When it ends to be valid.
    pub expires_at: Timestamp,
}

/// A container whose mounts are asked for.
#[derive(Clone, Copy, Debug)]
pub struct ContainerMounts<'a> {
    /// The container's name.
    pub container: &'a str,
    /// Its `volumeMounts`.
    pub volume_mounts: &'a [VolumeMount],
    /// Its final environment, for `subPathExpr`.
    pub environment: &'a BTreeMap<String, String>,
}

/// Volumes that could not be set up: one text for each, as the `FailedMount` events say them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .messages.join("\n"))]
pub struct FailedMounts {
    /// `MountVolume.SetUp failed for volume "v" : configmap "x" not found`, ...
    pub messages: Vec<String>,
}

/// Why a container's mounts cannot be made: the message of `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MountError(pub String);

impl PodVolumes {
    /// The volumes below a pod's directory (`<data dir>/pods/<uid>`), which need not exist.
    pub fn new(pod_directory: &Path) -> Self {
        PodVolumes { pod_directory: pod_directory.to_owned() }
    }

    /// Where an emptyDir volume lies, set up or not.
    pub fn empty_dir(&self, volume: &str) -> PathBuf {
        self.volume(empty_dir::PLUGIN, volume)
    }

    fn volumes(&self) -> PathBuf {
        self.pod_directory.join("volumes")
    }

    /// A volume's directory, as a kubelet names it.
    fn volume(&self, plugin: &str, volume: &str) -> PathBuf {
        self.volumes().join(format!("kubernetes.io~{plugin}")).join(volume)
    }
}

/// The names of image volumes with what the image is called: they are to be pulled before a container that mounts them starts (L-928).
pub fn image_volumes(pod: &Pod) -> Vec<(String, String)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let images = volumes.filter_map(|volume| {
        let reference = volume.image.as_ref()?.reference.clone()?;
        Some((volume.name.clone(), reference))
    });
    images.collect()
}

/// The pod, as effects name it.
fn pod_ref(pod: &Pod) -> lifecycle::PodRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    lifecycle::PodRef {
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        uid: lifecycle::PodUid(text(&pod.metadata.uid)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]
mod tests;
