//! `mount_setattr(2)`.

#![expect(unsafe_code, reason = "rustix has the rest of the mount API, but not mount_setattr(2)")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What `mount_setattr` is to change; `MOUNT_ATTR_*` bits and one of `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountAttributes {
    /// Bits to set.
    pub(crate) set: u64,
    /// Bits to clear.
    pub(crate) clear: u64,
    /// The new propagation; 0 leaves it.
    pub(crate) propagation: u64,
    user_namespace: u64,
}

impl MountAttributes {
    /// Attributes that set `set` and the propagation.
    pub(crate) fn new(set: u64, propagation: u64) -> Self {
        MountAttributes { set, clear: 0, propagation, user_namespace: 0 }
    }
}

/// Changes the mount that `mount` stands for, and with `recursive` all below it.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, recursive: bool, attributes: &MountAttributes) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the descriptor is borrowed, the path is a C string, and `attributes` has the layout of the kernel's
    // `struct mount_attr`, whose size is passed; the kernel only reads both during the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<MountAttributes>(),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
