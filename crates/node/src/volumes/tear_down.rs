//! Takes a pod's volumes away: mounts, directories, and the holds on images. Also those that another agent left.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::PodVolumes;
use super::mount_table::mount_points_below;
use super::mounts::holder_prefix;
use crate::images::{ImageStore, remove_tree};

/// What could not be taken away; the rest was.
#[derive(Debug, thiserror::Error)]
#[error("volumes are not removed: {}", .failures.join("; "))]
pub struct TearDownError {
    /// One text for each thing that is left.
    pub failures: Vec<String>,
}

impl PodVolumes {
    /// Unmounts and removes all volumes of the pod; host paths stay. What is gone already is success.
    ///
    /// No container of the pod may run, and its sandbox must be down.
    pub fn tear_down(&self, images: &ImageStore) -> Result<(), TearDownError> {
        let mut failures = Vec::new();
        let mut note = |what: String, outcome: io::Result<()>| {
            if let Err(error) = outcome {
                failures.push(format!("{what}: {}", crate::wording::io_error(&error)));
            }
        };
        let volumes = self.volumes();
        // The mount table has paths without links.
        if let Ok(volumes) = fs::canonicalize(&volumes) {
            match mount_points_below(&volumes) {
                // The last one first: it may lie in another one, or on it.
                Ok(found) => {
                    for mount_point in found.into_iter().rev() {
                        note(format!("unmount {}", mount_point.display()), unmount(&mount_point));
                    }
                }
                Err(error) => note("read the mount table".to_owned(), Err(error)),
            }
        }
        note(format!("remove {}", volumes.display()), remove_tree(&volumes));
        if let Err(error) = self.release_images(images) {
            failures.push(error);
        }
        if failures.is_empty() { Ok(()) } else { Err(TearDownError { failures }) }
    }

    fn release_images(&self, images: &ImageStore) -> Result<(), String> {
        // The directory is named by the pod's uid.
        let uid = self.pod_directory.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
        let prefix = holder_prefix(&uid);
        let holders = images.holders().map_err(|error| error.to_string())?;
        for holder in holders.keys().filter(|holder| holder.starts_with(&prefix)) {
            images.release(holder).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Lazily: somebody may still stand in it, and it is gone for all others.
fn unmount(mount_point: &PathBuf) -> io::Result<()> {
    match rustix::mount::unmount(mount_point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Not mounted any more, or gone with its directory.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
