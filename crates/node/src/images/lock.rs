//! File locks that keep two processes on one store apart.
//!
//! Whoever adds to the store holds its lock shared, so that nothing it has found is taken away under it; whoever takes away holds it alone.
//! Each layer has a lock of its own while it is unpacked, and the index has one while it is rewritten.
//! A lock ends with the process that holds it, whatever becomes of that.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "dropping it is what ends the lock")] File);

impl Lock {
    /// Waits until nobody holds the lock alone.
    pub(crate) fn shared(path: &Path) -> io::Result<Lock> {
        wait(path, FlockOperation::LockShared)
    }

    /// Waits until nobody else holds the lock.
    pub(crate) fn alone(path: &Path) -> io::Result<Lock> {
        wait(path, FlockOperation::LockExclusive)
    }

    /// Takes the lock alone, unless somebody holds it.
    pub(crate) fn try_alone(path: &Path) -> io::Result<Option<Lock>> {
        let file = open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn wait(path: &Path, operation: FlockOperation) -> io::Result<Lock> {
    let file = open(path)?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&file, operation))?;
    Ok(Lock(file))
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(false).read(true).write(true).open(path)
}
