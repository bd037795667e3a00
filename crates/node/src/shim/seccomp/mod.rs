//! System call filters: from a pod's profile to programs for the kernel.
//!
//! libcontainer without its C library ignores the filter of its spec without a word, so it is never put there:
//! the programs are compiled here in the shim, and the container's first process installs them right before its exec (`executor`).

mod default_profile;
mod profile;
mod syscalls;

use seccompiler::{BackendError, BpfProgram};

use crate::runtime::config::SeccompProfile;
use profile::Profile;

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeccompError {
    /// It is not an OCI seccomp document.
    #[error("the seccomp profile is not an OCI seccomp document: {0}")]
    Syntax(#[source] serde_json::Error),
    /// A call has no such argument.
    #[error("the seccomp profile compares argument {index}; a system call has arguments 0 to 5")]
    Argument {
        /// The number given.
        index: usize,
    },
    /// It wants a supervisor.
    #[error(
        "the seccomp profile uses SCMP_ACT_NOTIFY, which needs a supervisor\nhint: use SCMP_ACT_ERRNO or SCMP_ACT_LOG"
    )]
    Notify,
    /// It cannot be compiled.
    #[error("the seccomp profile cannot be compiled: {0}")]
    Compile(#[source] BackendError),
}

/// The programs for a profile, in the order in which they are to be installed; none for [`SeccompProfile::Unconfined`].
pub(crate) fn compile(profile: &SeccompProfile, capabilities: &[String]) -> Result<Vec<BpfProgram>, SeccompError> {
    match profile {
        SeccompProfile::Unconfined => Ok(Vec::new()),
        SeccompProfile::RuntimeDefault => default_profile::default_profile(capabilities).compile(),
        SeccompProfile::Localhost(document) => Profile::from_oci(document)?.compile(),
    }
}
