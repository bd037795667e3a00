//! `subPath`: a part of a volume, found without leaving it (L-926).
//!
//! What is missing is made here; what is mounted is resolved once more by the runtime at the moment it is mounted,
//! so that a container that swaps directories for links meanwhile gains nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use k8s_openapi::api::core::v1::VolumeMount;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::MountError;
use crate::container::expansion::expand;
use crate::images::open_beneath;

/// The part of the volume that a mount wants, empty for all of it.
pub(super) fn wanted(mount: &VolumeMount, environment: &BTreeMap<String, String>) -> Result<String, MountError> {
    let path = match mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
        Some(expression) => expanded(expression, environment)?,
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.starts_with('/') {
        return Err(MountError(format!("error SubPath `{path}` must not be an absolute path")));
    }
    if path.split('/').any(|component| component == "..") {
        return Err(MountError(format!("unable to provision SubPath `{path}`: must not contain '..'")));
    }
    Ok(path)
}

fn expanded(expression: &str, environment: &BTreeMap<String, String>) -> Result<String, MountError> {
    let missing = std::cell::RefCell::new(BTreeSet::new());
    let path = expand(expression, &|name| {
        let value = environment.get(name).cloned().unwrap_or_default();
        if value.is_empty() {
            missing.borrow_mut().insert(name.to_owned());
        }
        Some(value)
    });
    let missing: Vec<String> = missing.into_inner().into_iter().collect();
    if missing.is_empty() { Ok(path) } else { Err(MountError(format!("missing value for {}", missing.join(", ")))) }
}

/// What went wrong; users are told no more, for a hostile pod could look around the node with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubPathError {
    Create,
    Prepare,
}

impl SubPathError {
    pub(super) fn text(self, volume: &str, container: &str) -> String {
        match self {
            SubPathError::Create => {
                format!("failed to create subPath directory for volumeMount \"{volume}\" of container \"{container}\"")
            }
            SubPathError::Prepare => {
                format!("failed to prepare subPath for volumeMount \"{volume}\" of container \"{container}\"")
            }
        }
    }
}

/// Makes sure that the path exists in the volume, and lies in it.
pub(super) fn prepare(volume: &Path, sub_path: &str) -> Result<(), SubPathError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open(volume, flags, Mode::empty()).map_err(|_| SubPathError::Prepare)?;
    match open(&root, sub_path) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => create(&root, sub_path).map_err(|error| {
            tracing::debug!(volume = %volume.display(), sub_path, %error, "a subPath cannot be made");
            SubPathError::Create
        })?,
        Err(error) => {
            tracing::debug!(volume = %volume.display(), sub_path, %error, "a subPath cannot be opened");
            return Err(SubPathError::Prepare);
        }
    }
    open(&root, sub_path).map(drop).map_err(|_| SubPathError::Prepare)
}

fn open(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    open_beneath(root.as_fd(), path.as_bytes(), OFlags::PATH, ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS)
}

/// Makes the missing directories one in another, each with the mode of the volume's root.
fn create(root: &OwnedFd, path: &str) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(root)?.st_mode & 0o7777);
    let components: Vec<&str> = path.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
    let mut directory = rustix::io::dup(root)?;
    for (index, component) in components.iter().enumerate() {
        let next = components.get(..=index).unwrap_or_default().join("/");
        match open(root, &next) {
            Ok(found) => directory = found,
            Err(Errno::NOENT) => {
                // A name that is there all the same is a link to nowhere: nothing is made behind it.
                rustix::fs::mkdirat(&directory, *component, Mode::RWXU)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                directory = rustix::fs::openat(&directory, *component, flags, Mode::empty())?;
                rustix::fs::fchmod(&directory, mode)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
