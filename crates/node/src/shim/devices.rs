//! The node's devices, for privileged containers, which have them all.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::runtime::config::{DeviceConfig, DeviceKind};

/// Directories of `/dev` that a container has of its own, or that hold no devices.
const SKIPPED: &[&str] = &["pts", "shm", "fd", "mqueue", "console", "ptmx"];

/// Every device node below `/dev`. What cannot be read is left out.
pub(crate) fn node_devices() -> Vec<DeviceConfig> {
    let mut found = Vec::new();
    collect(Path::new("/dev"), &mut found);
    found
}

fn collect(directory: &Path, found: &mut Vec<DeviceConfig>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        if SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref()) {
            continue;
        }
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let kind = if metadata.file_type().is_dir() {
            collect(&path, found);
            continue;
        } else if metadata.file_type().is_char_device() {
            DeviceKind::Character
        } else if metadata.file_type().is_block_device() {
            DeviceKind::Block
        } else {
            continue;
        };
        found.push(DeviceConfig {
            path,
            kind,
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
            file_mode: metadata.mode() & 0o777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            access: "rwm".to_owned(),
        });
    }
}
