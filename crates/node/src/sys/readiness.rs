//! Descriptors in tokio's hands.

#![expect(unsafe_code, reason = "tokio has no safe way to register an owned descriptor that is no socket and no pipe")]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime of the calling task.
pub(crate) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor for all its life, and the `AsyncFd` owns it:
    // it is deregistered before it is closed.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
