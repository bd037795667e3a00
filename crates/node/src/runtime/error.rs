//! What can go wrong between agent and shim.

use std::io;
use std::path::PathBuf;

use lifecycle::{ContainerId, SandboxId};

use crate::cgroup::CgroupError;
use crate::shim::files::FileError;
use crate::shim::protocol::{FailureKind, ShimFailure};

/// Why the runtime could not do what it was asked.
///
/// The texts are made to be shown to a pod's owner.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// There is no such container.
    #[error("there is no container `{0}`")]
    NoContainer(ContainerId),
    /// There is no such sandbox.
    #[error("there is no pod sandbox `{0}`")]
    NoSandbox(SandboxId),
    /// The sandbox has ended; a new attempt is needed.
    #[error("pod sandbox `{0}` has ended")]
    SandboxEnded(SandboxId),
    /// The container does not run.
    #[error("container `{0}` is not running")]
    NotRunning(ContainerId),
    /// The sandbox could not be made.
    #[error("{0}")]
    SandboxFailed(String),
    /// The container's program could not be started; its record is `Exited` with 128 and `StartError`.
    #[error("{0}")]
    StartFailed(String),
    /// The program to run in a container could not be started.
    #[error("{0}")]
    ExecFailed(String),
    /// The shim refused for another reason.
    #[error("{0}")]
    Refused(String),
    /// The shim is gone, or says nothing that can be understood.
    #[error("the shim of pod sandbox `{sandbox}` does not answer: {source}")]
    Unreachable {
        /// Whose shim.
        sandbox: SandboxId,
        /// What happened instead.
        source: io::Error,
    },
    /// Something took too long.
    #[error("{what} took longer than {seconds} s")]
    TimedOut {
        /// What.
        what: &'static str,
        /// How long was waited.
        seconds: u64,
    },
    /// The shim's program could not be started.
    #[error("failed to start `{program}` as a shim: {source}")]
    Spawn {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the runtime's.
    #[error(transparent)]
    File(#[from] FileError),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl RuntimeError {
    /// A shim's refusal, about a container.
    pub(super) fn refused(container: &ContainerId, failure: ShimFailure) -> Self {
        match failure.kind {
            FailureKind::NotFound => RuntimeError::NoContainer(container.clone()),
            FailureKind::NotRunning => RuntimeError::NotRunning(container.clone()),
            FailureKind::StartFailed => RuntimeError::StartFailed(failure.message),
            FailureKind::ExecFailed => RuntimeError::ExecFailed(failure.message),
            FailureKind::Version | FailureKind::Other => RuntimeError::Refused(failure.message),
        }
    }

    /// For `map_err`: a shim that cannot be talked to.
    pub(super) fn unreachable(sandbox: &SandboxId) -> impl FnOnce(io::Error) -> Self {
        let sandbox = sandbox.clone();
        move |source| RuntimeError::Unreachable { sandbox, source }
    }
}
