//! `emptyDir`: a directory on disk or in memory that lives as long as the pod (L-920).

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use api::quantity::Amount;
use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::set_up::VolumeError;
use super::{VolumeContext, directory, ownership};

pub(super) const PLUGIN: &str = "empty-dir";

/// Makes the directory unless it is there: what containers have written, and the modes they have set, stay.
pub(super) fn set_up(
    directory: &Path,
    source: &EmptyDirVolumeSource,
    context: &VolumeContext<'_>,
) -> Result<(), VolumeError> {
    let fs_group = ownership::fs_group(context.pod);
    match source.medium.as_deref().unwrap_or_default() {
        "" => make_on_disk(directory, fs_group),
        "Memory" => {
            let size = memory_size(source.size_limit.as_ref(), context);
            if directory::mount_memory(directory, size)? {
                ownership::apply(directory, fs_group, ownership::Access::ReadWrite)?;
            }
            Ok(())
        }
        medium => Err(VolumeError::Unsupported(format!("storage medium \"{medium}\" is not provided by this node"))),
    }
}

/// The directory gets its name when it has its owner and mode, so that one that exists is always complete.
fn make_on_disk(path: &Path, fs_group: Option<u32>) -> Result<(), VolumeError> {
    if path.is_dir() {
        return Ok(());
    }
    let failed = VolumeError::system("make the directory", path);
    // No volume's name begins with a dot.
    let mut name = OsString::from(".new-");
    name.push(path.file_name().unwrap_or_default());
    let staged = path.with_file_name(name);
    directory::make(&staged)?;
    ownership::apply(&staged, fs_group, ownership::Access::ReadWrite)?;
    fs::rename(&staged, path).map_err(failed)
}

/// The least of what is set: the volume's limit, the pod's limit of memory, the node's memory. `None` leaves the kernel's half of the memory.
pub(super) fn memory_size(size_limit: Option<&Quantity>, context: &VolumeContext<'_>) -> Option<u64> {
    let bytes = |quantity: &Quantity| Amount::try_from(quantity).ok().map(Amount::value);
    let of_volume = size_limit.and_then(bytes);
    let of_pod = api::oom::pod_group_limits(context.pod).memory_bytes;
    let of_node = context.node.allocatable.get("memory").and_then(bytes);
    let positive = [of_volume, of_pod, of_node].into_iter().flatten().filter(|bytes| *bytes > 0);
    positive.min().map(i64::unsigned_abs)
}
