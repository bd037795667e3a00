//! Directory trees that strangers have filled: opened without leaving them, and removed whatever they hold.
//!
//! Everything works relative to an open directory, through openat2, so that no symbolic link leads outside
//! and no mount below is entered, not even while somebody else changes the tree.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// openat2 gives up when anything on the machine is renamed or mounted at that moment; so often it is asked again.
const ATTEMPTS: usize = 256;
/// A directory that lies deeper is moved up first, so that the depth of a hostile tree costs neither stack nor descriptors.
const DEPTH_MAX: usize = 32;

/// openat2, asked again while the kernel can't say whether the path stays inside.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut outcome = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        outcome = rustix::fs::openat2(directory, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    outcome
}

/// Removes a file or a directory with all that it holds. What is gone already is success.
///
/// Fails at a mount point below: nothing behind a mount is ever removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(parent) => Ok(remove_tree_at(parent.as_fd(), name)?),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// [`remove_tree`] of an entry of an open directory.
pub(crate) fn remove_tree_at(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        // Linux says EISDIR for a directory.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    }
    let top = open_directory(parent, name)?;
    let mut moved = 0u64;
    // Every round empties the directory but for what was moved up from too deep; each move makes the tree flatter.
    while empty(top.as_fd(), top.as_fd(), 0, &mut moved)? {}
    remove_directory(parent, name)
}

/// Empties a directory. True if something deep was moved to the top and is still there.
fn empty(top: BorrowedFd<'_>, directory: BorrowedFd<'_>, depth: usize, moved: &mut u64) -> Result<bool, Errno> {
    let mut has_moved = false;
    for (name, is_directory) in entries(directory)? {
        if !is_directory {
            match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error),
            }
        }
        if depth >= DEPTH_MAX && rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR).is_err() {
            move_up(top, directory, &name, moved)?;
            has_moved = true;
            continue;
        }
        if depth < DEPTH_MAX {
            let inner = match open_directory(directory, &name) {
                Err(Errno::NOENT) => continue,
                inner => inner?,
            };
            has_moved |= empty(top, inner.as_fd(), depth + 1, moved)?;
            remove_directory(directory, &name)?;
        }
    }
    Ok(has_moved)
}

/// Moves a directory to the top of the tree, under a name that is free there.
fn move_up(top: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &OsStr, moved: &mut u64) -> Result<(), Errno> {
    loop {
        *moved += 1;
        let free = format!(".removed-{moved}");
        match rustix::fs::renameat_with(directory, name, top, &free, rustix::fs::RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            outcome => return outcome,
        }
    }
}

fn remove_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        outcome => outcome,
    }
}

/// Opens a directory by one name; a link or a mount point there is an error.
fn open_directory(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    open_beneath(
        parent,
        name.as_bytes(),
        flags,
        ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS,
    )
}

/// The names in a directory, and whether each is a directory.
fn entries(directory: BorrowedFd<'_>) -> Result<Vec<(OsString, bool)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let is_directory = entry.file_type() == FileType::Directory;
            found.push((OsStr::from_bytes(name).to_owned(), is_directory));
        }
    }
    Ok(found)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_tree_deeper_than_any_path_is_removed_and_links_are_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("kept")).unwrap();
        std::fs::write(scratch.path().join("kept/file"), "x").unwrap();
        let top = scratch.path().join("tree");
        std::fs::create_dir(&top).unwrap();
        std::os::unix::fs::symlink("../kept", top.join("link")).unwrap();
        let mut directory: OwnedFd = std::fs::File::open(&top).unwrap().into();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
            std::fs::write(format!("/proc/self/fd/{}/f", std::os::fd::AsRawFd::as_raw_fd(&directory)), "").unwrap();
            directory =
                rustix::fs::openat(&directory, "d", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        drop(directory);
        remove_tree(&top).unwrap();
        remove_tree(&top).unwrap();
        let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["kept"]);
        assert!(scratch.path().join("kept/file").exists());
    }

    #[test]
    fn files_and_links_are_removed_and_missing_parents_are_success() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "x").unwrap();
        remove_tree(&file).unwrap();
        assert!(!file.exists());
        remove_tree(&scratch.path().join("no/such")).unwrap();
    }
}
