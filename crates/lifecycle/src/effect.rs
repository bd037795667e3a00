//! All that the engine can ask for.
//!
//! Effects are idempotent: to start what runs or to remove what is gone is [`Outcome::Done`](crate::Outcome::Done).
//! Effects of one pod may be carried out in parallel unless the engine waits for one's answer before it sends the next, which it does wherever order matters.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LifecycleHandler, Pod, PodStatus, Probe};

use crate::identity::{ContainerId, ContainerRole, EffectId, PodRef, PodUid, SandboxId};

/// One thing to do, and for which pod.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Answer with this id.
    pub id: EffectId,
    /// The pod that it is for.
    pub pod: PodRef,
    /// What to do.
    pub action: Action,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Make the pod's directories and cgroup and mount every volume that any of its containers needs (L-201).
    /// Answered `Done`, or `Failed` with the text of one `FailedMount` event per line of the message.
    SetUpPod(Arc<Pod>),
    /// Write changed ConfigMaps, Secrets and labels into the volumes of a running pod (L-922). Answered `Done` or `Failed`.
    RefreshVolumes(Arc<Pod>),
    /// Unmount the pod's volumes, remove its directories (logs excepted) and its cgroup (L-619). Answered `Done` or `Failed`.
    TearDownPod,
    /// Make a sandbox. Answered `SandboxReady` or `Failed`.
    RunSandbox {
        /// The pod.
        pod: Arc<Pod>,
        /// Its number.
        attempt: u32,
    },
    /// Take the sandbox's network down; every container in it has ended before. Answered `Done` or `Failed`.
    StopSandbox(SandboxId),
    /// Forget a stopped sandbox and its container records. Logs stay. Answered `Done` or `Failed`.
    RemoveSandbox(SandboxId),
    /// Look an image up in the node's store. Answered `Image` or `Failed` (`InvalidImageName`, `ImageInspectError`).
    InspectImage {
        /// As the pod's spec names it.
        image: String,
    },
    /// Pull an image. Answered `Image(Some(..))` or `Failed` (`ErrImagePull`, `RegistryUnavailable`, `InvalidImageName`). Can be cancelled.
    PullImage {
        /// As the pod's spec names it.
        image: String,
        /// The pod whose `imagePullSecrets` may be used.
        pod: Arc<Pod>,
    },
    /// Create a container. Answered `Created`, or `Failed` (`CreateContainerConfigError`, `CreateContainerError`, `ErrImageNeverPull`).
    CreateContainer(CreateContainer),
    /// Start a created container. Answered `Done` once its first process runs, or `Failed` (`RunContainerError`, `StartError`).
    StartContainer(ContainerId),
    /// Send a signal to a container's first process. Answered `Done` once sent, also when the container has ended. The exit comes as an observation.
    SignalContainer {
        /// Which container.
        container: ContainerId,
        /// Which signal.
        signal: Signal,
    },
    /// Forget an ended or never started container. Answered `Done` or `Failed`.
    RemoveContainer {
        /// Which container.
        container: ContainerId,
        /// True to leave its log file.
        keep_logs: bool,
    },
    /// Run a lifecycle hook (all but `sleep`, which the engine times itself). Answered `Done` or `Failed`. Can be cancelled.
    RunHook {
        /// The container that the hook belongs to.
        container: ContainerId,
        /// The pod, for ports by name and addresses.
        pod: Arc<Pod>,
        /// The container's name in the pod's spec.
        name: String,
        /// The handler.
        handler: LifecycleHandler,
    },
    /// Attempt a probe once. Answered `Probe`. Can be cancelled.
    Probe {
        /// The container that is probed.
        container: ContainerId,
        /// The pod, for ports by name and addresses.
        pod: Arc<Pod>,
        /// The container's name in the pod's spec.
        name: String,
        /// The probe; `timeoutSeconds` bounds the attempt.
        probe: Box<Probe>,
    },
    /// End another effect early: it is answered `Cancelled` unless it was done first. Answered `Done`.
    Cancel(EffectId),
    /// Write the pod's status. Answered `Done`, or `Failed` if the API refused it; it is then written again later.
    WriteStatus(Box<PodStatus>),
    /// Record an event. Answered `Done`.
    RecordEvent(PodEvent),
    /// Remove the pod's object from the API: grace 0, precondition the pod's uid (L-619). Answered `Done` or `Failed`.
    DeletePodObject(PodUid),
}

/// A container to create.
#[derive(Clone, Debug)]
pub struct CreateContainer {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The sandbox to put it into.
    pub sandbox: SandboxId,
    /// The name in the pod's spec.
    pub name: String,
    /// Its role.
    pub role: ContainerRole,
    /// Its restart count (L-221).
    pub attempt: u32,
    /// The image, as resolved by the last `Outcome::Image`.
    pub image_id: String,
    /// For an ephemeral container: the container whose process namespace it joins (L-104).
    pub target: Option<ContainerId>,
}

/// A signal for a container's first process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The container's stop signal: the one named here (`lifecycle.stopSignal`), else the image's, else SIGTERM.
    Stop {
        /// `lifecycle.stopSignal`.
        named: Option<String>,
        /// The time after which [`Signal::Kill`] follows, for runtimes that keep it themselves.
        grace: Duration,
    },
    /// SIGKILL to every process of the container.
    Kill,
}

/// An event about a pod or one of its containers (L-1001).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEvent {
    /// `spec.initContainers{name}` and the like; empty for events about the pod.
    pub field_path: String,
    /// True for `Warning`, false for `Normal`.
    pub warning: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}
