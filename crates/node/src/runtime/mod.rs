//! The agent's side of the runtime: starts shims, asks them, and hears from them.
//!
//! It holds no state that matters: all of it is in the shims and on their disk, so that an agent that starts anew finds everything.
//! Every verb is idempotent: to start what runs, to signal what has ended, or to remove what is gone is success.
//!
//! ```text
//! RuntimeService::open(RuntimeConfig) -> (RuntimeService, Observations)      finds and adopts what stands
//!     .observations() -> Vec<PodObservation>                                 every pod, at this moment
//!     .observation(&PodUid) -> Option<PodObservation>
//!     .run_sandbox(&SandboxConfig) -> SandboxRecord
//!     .stop_sandbox(&SandboxId)            kills what still runs, takes the namespaces down
//!     .remove_sandbox(&SandboxId)          forgets it and its containers; logs stay
//!     .create_container(&SandboxId, &ContainerConfig) -> ContainerId
//!     .start_container(&ContainerId)       Err(StartFailed{message}): the record is Exited 128 StartError
//!     .signal_container(&ContainerId, &lifecycle::effect::Signal)
//!     .remove_container(&ContainerId, keep_logs: bool)
//!     .update_container(&ContainerId, &LinuxResources)
//!     .container_usage(&ContainerId) -> CgroupUsage                          processor time, memory, processes
//!     .exec(&ContainerId, &ExecConfig) -> ExecSession{stdin, stdout, stderr, terminal} .wait() -> ExecExit
//!     .exec_captured(&ContainerId, argv, timeout, limit_bytes) -> CapturedExec{exit, output}
//!     .attach(&ContainerId, &AttachConfig) -> AttachSession
//!     .network_namespace(&SandboxId) -> OwnedFd     for setns by a thread of the caller's
//!     .remove_pod_cgroup(cgroup_parent: &str)
//! Observations.next() -> PodObservation             the whole of a pod, after each change of it
//! ```
//!
//! Next: [`config`] for what can be asked for, `shim` for who carries it out.

mod board;
pub mod config;
mod connection;
mod error;
mod sandbox;
mod service;
mod session;
pub(crate) mod stop_signal;
mod streams;

pub use error::RuntimeError;
pub use service::{Observations, RuntimeConfig, RuntimeService};
pub use session::{AttachConfig, AttachSession, CapturedExec, ExecConfig, ExecSession};
pub use stop_signal::signal_number;
pub use streams::{ProcessInput, ProcessOutput, Terminal};
