//! All that can happen to the engine.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use crate::identity::{ContainerId, EffectId, PodUid};
use crate::observation::{PodObservation, SandboxRecord};

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pod bound to this node was created or changed; deletion shows as `metadata.deletionTimestamp`.
    PodApplied(Arc<Pod>),
    /// The pod's object is gone from the API (removed by force, or after [`crate::Action::DeletePodObject`]).
    PodDeleted(PodUid),
    /// What the runtime has of a pod. Sent after every change, and for everything that is found at start.
    Observed(PodObservation),
    /// All pods and all observations that existed at start have been passed. Nothing is done before.
    Synced,
    /// The answer to an effect. Each effect is answered exactly once, a cancelled one too.
    EffectDone {
        /// Which one.
        effect: EffectId,
        /// How it went.
        outcome: Outcome,
    },
    /// An object that pods refer to was written: what waits for it is tried again at once, and volumes made of it are refreshed.
    ReferenceChanged {
        /// Its kind.
        kind: ReferenceKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The network became ready, or is not ready for the reason given (L-1023).
    NetworkReady(Result<(), String>),
    /// The node shuts down: every pod is to end within the time given, critical pods last (L-617).
    Shutdown {
        /// The time that ordinary pods have.
        grace: Duration,
        /// The time kept for critical pods after that.
        critical_grace: Duration,
    },
    /// The node evicts a pod (L-616).
    Evict {
        /// Which pod.
        pod: PodUid,
        /// The status message.
        message: String,
        /// The grace that the pod has, at most its own.
        grace: Duration,
        /// True for pressure on the node, which sets the condition `DisruptionTarget`; false for the pod's own storage limits.
        disruption: bool,
    },
}

/// Kinds that a running pod refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// A `v1` ConfigMap.
    ConfigMap,
    /// A `v1` Secret.
    Secret,
}

/// How an effect ended. Which variants an action may be answered with is said at [`crate::Action`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It is done, or was done already.
    Done,
    /// The sandbox stands.
    SandboxReady(SandboxRecord),
    /// What the image store knows of an image: `None` if it is not there.
    Image(Option<ImageRecord>),
    /// The container was created.
    Created(ContainerId),
    /// A probe's attempt.
    Probe(ProbeOutcome),
    /// It failed for a reason that the pod's owner must see: data, not an error of the program.
    Failed(Failure),
    /// [`crate::Action::Cancel`] ended it before it was done.
    Cancelled,
}

/// An image in the node's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRecord {
    /// Reference with digest.
    pub image_id: String,
    /// Size of the image in bytes.
    pub size_bytes: u64,
}

/// Why an effect failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The container's waiting reason (L-734): `ErrImagePull`, `CreateContainerConfigError`, `RunContainerError`, ...
    /// Empty where the action has one reason only.
    pub reason: String,
    /// The text that users see.
    pub message: String,
}

/// One attempt of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It passed.
    Success,
    /// It passed with something worth saying (a redirect to another host, L-412).
    Warning(String),
    /// It failed; the output goes into the event.
    Failure(String),
    /// The attempt itself went wrong and says nothing of the container (L-409, L-414).
    Error(String),
}
