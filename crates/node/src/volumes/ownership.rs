//! `fsGroup`: whose a volume's files are (L-924).

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::set_up::VolumeError;

/// What containers may do with a volume's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

impl Access {
    fn mask(self, is_directory: bool) -> u32 {
        let of_files = match self {
            Access::ReadWrite => 0o660,
            Access::ReadOnly => 0o440,
        };
        // What is made in the directory later gets its group too.
        if is_directory { of_files | 0o2110 } else { of_files }
    }
}

/// `securityContext.fsGroup`.
pub(super) fn fs_group(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The one user that all containers run as, if the spec says so for each of them (L-923).
pub(super) fn common_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|security| security.run_as_user);
    let of_container = |container: &Container| container.security_context.as_ref()?.run_as_user;
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(of_container);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|container| container.security_context.as_ref()?.run_as_user);
    let mut users = containers.chain(ephemeral).map(|user| user.or(of_pod));
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

/// Gives all files below a directory, and itself, to the group. Only for trees that no container has written to.
pub(super) fn apply(path: &Path, fs_group: Option<u32>, access: Access) -> Result<(), VolumeError> {
    let Some(group) = fs_group else { return Ok(()) };
    let failed = VolumeError::system("give to the pod's fsGroup", path);
    let metadata = path.symlink_metadata().map_err(&failed)?;
    if metadata.is_dir() {
        let entries: io::Result<Vec<_>> = fs::read_dir(path).map_err(&failed)?.collect();
        for entry in entries.map_err(&failed)? {
            apply(&entry.path(), fs_group, access)?;
        }
    }
    lchown(path, None, Some(group)).map_err(&failed)?;
    // A link has no mode of its own, and what it points to is visited by itself.
    if !metadata.is_symlink() {
        let mode = (metadata.mode() & 0o7777) | access.mask(metadata.is_dir());
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(&failed)?;
    }
    Ok(())
}
