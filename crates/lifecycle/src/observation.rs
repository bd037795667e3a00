//! What a runtime has of one pod: its sandboxes and containers, as last seen.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::identity::{ContainerId, ContainerRole, PodRef, SandboxId};

/// Everything that the runtime has of one pod at one moment.
///
/// An observation replaces the one before it. Order within the lists carries no meaning: attempts do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodObservation {
    /// The pod that the records belong to, kept by the runtime so that orphans can be named.
    pub pod: PodRef,
    /// Every sandbox of the pod that has not been removed.
    pub sandboxes: Vec<SandboxRecord>,
    /// Every container instance of the pod that has not been removed.
    pub containers: Vec<ContainerRecord>,
}

/// One pod sandbox: the namespaces that the pod's containers share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// The runtime's id.
    pub id: SandboxId,
    /// Counts from 0 for each pod.
    pub attempt: u32,
    /// True while the sandbox's namespaces and its shim stand.
    pub ready: bool,
    /// True if the sandbox uses the node's network namespace.
    pub host_network: bool,
    /// The pod's addresses, the primary one first; empty for host network.
    pub ips: Vec<IpAddr>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// One container instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// The runtime's id.
    pub id: ContainerId,
    /// The sandbox that it lives in.
    pub sandbox: SandboxId,
    /// `name` in the pod's spec.
    pub name: String,
    /// The role it was created for.
    pub role: ContainerRole,
    /// The restart count that it was created with.
    pub attempt: u32,
    /// The image as the pod's spec named it when the container was created; a change of it is a changed definition (L-215).
    pub spec_image: String,
    /// The image name that the runtime reports.
    pub image: String,
    /// The image reference with digest that the runtime reports.
    pub image_id: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// What it does.
    pub state: RuntimeState,
    /// The user that the container's first process was started as, where the runtime knows it.
    pub user: Option<LinuxUser>,
}

/// The identity of a container's first process (`status.containerStatuses[].user.linux`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinuxUser {
    /// User id.
    pub uid: i64,
    /// Primary group id.
    pub gid: i64,
    /// Supplementary group ids.
    pub supplemental_groups: Vec<i64>,
}

/// The state of a container in the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuntimeState {
    /// Made, not started.
    Created,
    /// Its first process runs.
    Running {
        /// When it was started.
        started_at: Timestamp,
    },
    /// Its first process has ended.
    Exited(Exit),
    /// The runtime cannot tell (its record is broken or its shim is gone).
    Unknown,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code; death by signal n is 128 + n (L-735).
    pub exit_code: i32,
    /// The runtime's reason where it is not simply `Completed` (0) or `Error`: `OOMKilled`, `StartError`, `ContainerCannotRun`.
    pub reason: Option<String>,
    /// The termination message, as L-740 makes it for this container (before the cut to the pod's share).
    pub message: String,
    /// When it was started; absent if it never was.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}
