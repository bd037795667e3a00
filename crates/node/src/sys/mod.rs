//! System calls that no safe crate offers: one call per function, each with its obligations written down.
//!
//! The only place in the workspace with unsafe code.
//! What rustix offers safely is called from where it is needed, not wrapped here.

pub(crate) mod bpf;
pub(crate) mod mount;
pub(crate) mod network;
pub(crate) mod process;
pub(crate) mod readiness;
pub(crate) mod seccomp;
pub(crate) mod signal;
