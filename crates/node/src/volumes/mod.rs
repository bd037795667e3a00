//! Volumes: what a pod's containers mount (L-920 to L-929).
//!
//! [`PodVolumes`] works on one pod's directory and keeps no state elsewhere, so that a new agent goes on with what it finds there.
//! Its tmpfs and overlay mounts are made in the agent's mount namespace, below the pod's directory, and are private;
//! the shim's containers bind them by path.
//! All of it blocks: call it from a blocking task.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, VolumeMount};

use crate::images::ImageStore;

/// The volumes of one pod, below `<pod directory>/volumes` and `<pod directory>/volume-subpaths`.
#[derive(Clone, Debug)]
pub struct PodVolumes {
    directory: PathBuf,
}

/// What volumes are made of.
pub struct VolumeContext<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The node's settings: allocatable resources for `resourceFieldRef`.
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
    /// A token of the pod's service account.
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

/// Mounts of one container to ask for.
pub struct ContainerMounts<'a> {
    /// The container's name.
    pub container: &'a str,
    /// Its `volumeMounts`.
    pub volume_mounts: &'a [VolumeMount],
    /// Its final environment, for `subPathExpr`.
    pub environment: &'a BTreeMap<String, String>,
}

/// One bind mount for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// The volume's name in the pod's spec.
    pub volume: String,
    /// What to bind, on this machine.
    pub source: PathBuf,
    /// Where, in the container.
    pub destination: PathBuf,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too (L-927). Never without `read_only`.
    pub recursive_read_only: bool,
    /// How mounts made later travel.
    pub propagation: Propagation,
}

/// Propagation of mounts between node and container (L-927).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// `None`: rprivate.
    Private,
    /// `HostToContainer`: rslave.
    HostToContainer,
    /// `Bidirectional`: rshared.
    Bidirectional,
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
    /// The volumes below a pod's directory (`<data dir>/pods/<uid>`), which need not exist yet.
    pub fn new(pod_directory: &Path) -> Self {
        PodVolumes { directory: pod_directory.to_owned() }
    }
}

// Surface to come in this file's children:
//
// PodVolumes::set_up(&self, &VolumeContext) -> Result<(), FailedMounts>     every volume of the pod; idempotent
// PodVolumes::refresh(&self, &VolumeContext) -> Result<Option<Timestamp>, FailedMounts>   L-922, L-923; when a token wants to be renewed
// PodVolumes::mounts(&self, &VolumeContext, &ContainerMounts) -> Result<Vec<BindMount>, MountError>   sorted so that a mount comes after the one it lies in
// PodVolumes::tear_down(&self) -> Result<(), TearDownError>                 idempotent, also for what an earlier agent left
// image_volumes(&Pod) -> Vec<(volume name, reference, pull policy)>         what has to be pulled before set_up
#[doc(hidden)]
pub fn surface(_: IpAddr) {}
