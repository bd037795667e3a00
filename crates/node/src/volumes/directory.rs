//! Directories and memory file systems that volumes live in.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};

use super::set_up::VolumeError;

/// Volumes' own directories can be entered by everybody; who gets there at all is decided above them.
const MODE: u32 = 0o777;

/// Makes a volume's directory; true if it was not there.
pub(super) fn make(directory: &Path) -> Result<bool, VolumeError> {
    let failed = VolumeError::system("make the directory", directory);
    if let Some(parent) = directory.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(parent).map_err(&failed)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    }
    set_mode(directory, MODE)?;
    Ok(true)
}

/// Sets a mode whatever the umask is.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<(), VolumeError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(VolumeError::system("set the mode of", path))
}

/// Mounts a memory file system unless one is mounted; true if none was.
///
/// Its root has the mode 1777, which is the kernel's own and what a kubelet leaves it at.
pub(super) fn mount_memory(directory: &Path, size_bytes: Option<u64>) -> Result<bool, VolumeError> {
    make(directory)?;
    if is_mount_point(directory)? {
        return Ok(false);
    }
    let size = size_bytes.map(|bytes| format!("size={bytes}"));
    let with = |more: Option<&str>| size.as_deref().into_iter().chain(more).collect::<Vec<_>>().join(",");
    // Secrets must not reach a swap disk; kernels before 6.4 can't promise that.
    let mounted = match mount_tmpfs(directory, &with(Some("noswap"))) {
        Err(Errno::INVAL) => mount_tmpfs(directory, &with(None)),
        outcome => outcome,
    };
    mounted.map_err(|error| VolumeError::system("mount a memory file system at", directory)(error.into()))?;
    // Where the node's mounts are shared, this one must not spread further than it has.
    rustix::mount::mount_change(directory, MountPropagationFlags::PRIVATE)
        .map_err(|error| VolumeError::system("make private the mount at", directory)(error.into()))?;
    Ok(true)
}

fn mount_tmpfs(directory: &Path, options: &str) -> Result<(), Errno> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount("tmpfs", directory, "tmpfs", MountFlags::empty(), options.as_c_str())
}

/// Whether something is mounted exactly here.
pub(super) fn is_mount_point(path: &Path) -> Result<bool, VolumeError> {
    let failed = VolumeError::system("look at", path);
    let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    let found = found.map_err(|error| failed(error.into()))?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
