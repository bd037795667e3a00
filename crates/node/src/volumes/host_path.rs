//! `hostPath`: a path of the node, checked or made (L-925). It is never removed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::set_up::VolumeError;

/// Checks that the path is of the type that the pod wants, and makes it if it says so.
pub(super) fn check(source: &HostPathVolumeSource) -> Result<(), VolumeError> {
    let path = source.path.as_str();
    if path.split('/').any(|component| component == "..") {
        return Err(VolumeError::HostPathBackStep { path: path.to_owned() });
    }
    // Links are followed; a path that cannot be looked at counts as absent.
    let kind = fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let expect = |is_right: bool, kind: &'static str| {
        if is_right { Ok(()) } else { Err(VolumeError::HostPathType { path: path.to_owned(), kind }) }
    };
    match source.type_.as_deref().unwrap_or_default() {
        "" => Ok(()),
        "DirectoryOrCreate" if kind.is_none() => make_directory(Path::new(path)),
        "DirectoryOrCreate" | "Directory" => expect(kind.is_some_and(|kind| kind.is_dir()), "directory"),
        "FileOrCreate" if kind.is_none() => make_file(Path::new(path)),
        "FileOrCreate" | "File" => expect(kind.is_some_and(|kind| kind.is_file()), "file"),
        "Socket" => expect(kind.is_some_and(|kind| kind.is_socket()), "socket file"),
        "CharDevice" => expect(kind.is_some_and(|kind| kind.is_char_device()), "character device"),
        "BlockDevice" => expect(kind.is_some_and(|kind| kind.is_block_device()), "block device"),
        other => Err(VolumeError::HostPathUnknownType { kind: other.to_owned() }),
    }
}

/// Makes a directory and those above it.
pub(super) fn make_directory(path: &Path) -> Result<(), VolumeError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(VolumeError::system("make the directory", path))
}

/// Makes an empty file; the directory that it lies in must exist.
fn make_file(path: &Path) -> Result<(), VolumeError> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(VolumeError::system("make the file", path)(error)),
    }
}
