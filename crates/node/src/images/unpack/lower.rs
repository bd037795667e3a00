//! The layers below the one that is unpacked, seen as overlayfs will show them.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::node::{Attributes, is_whiteout_stat, read_xattrs};
use super::path::MemberPath;
use super::{OPAQUE_XATTR, open_beneath};

/// Unpacked layers, the topmost first.
#[derive(Debug, Default)]
pub struct LowerLayers(Vec<OwnedFd>);

/// What one layer says of a path.
enum Sight {
    /// It has it.
    Found(Stat),
    /// It hides it from view, together with what lies below.
    Hidden,
    /// It says nothing of it.
    Absent,
}

impl LowerLayers {
    /// Opens the directories of layers, the topmost first.
    pub fn open(directories: &[PathBuf]) -> std::io::Result<LowerLayers> {
        let open = |directory: &PathBuf| {
            rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(LowerLayers(directories.iter().map(open).collect::<Result<_, _>>()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attributes of a directory, if there is one at this path.
    pub(super) fn directory(&self, path: &MemberPath) -> Result<Option<Attributes>, Errno> {
        let Some((layer, stat)) = self.find(path)? else { return Ok(None) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(None);
        }
        let directory = open(layer, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Some(Attributes::of_existing(&stat, read_xattrs(directory.as_fd())?)))
    }

    /// Opens a regular file, if there is one at this path.
    pub(super) fn open_file(&self, path: &MemberPath) -> Result<Option<File>, Errno> {
        let Some((layer, stat)) = self.find(path)? else { return Ok(None) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        open(layer, path, OFlags::RDONLY).map(|file| Some(file.into()))
    }

    fn find(&self, path: &MemberPath) -> Result<Option<(BorrowedFd<'_>, Stat)>, Errno> {
        for layer in &self.0 {
            match look(layer.as_fd(), path)? {
                Sight::Found(stat) => return Ok(Some((layer.as_fd(), stat))),
                Sight::Hidden => return Ok(None),
                Sight::Absent => {}
            }
        }
        Ok(None)
    }
}

/// Walks down one layer, minding whiteouts and opaque directories.
fn look(layer: BorrowedFd<'_>, path: &MemberPath) -> Result<Sight, Errno> {
    let mut directory = rustix::io::dup(layer)?;
    let mut stat = rustix::fs::fstat(layer)?;
    let mut is_opaque = false;
    for component in path.components() {
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Ok(Sight::Hidden);
        }
        let name = OsStr::from_bytes(component);
        stat = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_whiteout_stat(&stat) => return Ok(Sight::Hidden),
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(if is_opaque { Sight::Hidden } else { Sight::Absent }),
            Err(error) => return Err(error),
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
            is_opaque |= has_opaque_mark(directory.as_fd());
        }
    }
    Ok(Sight::Found(stat))
}

fn has_opaque_mark(directory: BorrowedFd<'_>) -> bool {
    let mut value = [0u8; 1];
    // Absent, or longer than `y`: either way it does not say so.
    rustix::fs::fgetxattr(directory, OPAQUE_XATTR, &mut value).is_ok_and(|length| length == 1 && value == *b"y")
}

fn open(layer: BorrowedFd<'_>, path: &MemberPath, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    open_beneath(layer, &path.to_bytes(), flags, resolve)
}
