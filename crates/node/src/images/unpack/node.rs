//! Makes single files, directories, links and devices, and gives them their attributes.
//!
//! Everything is made by name in an open directory and with `O_EXCL` or its like: what exists already is never written through.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::{ExtendedAttributes, Kind, Member, Problem, UNLISTED_DIRECTORY_MODE, system};

/// Owner, permissions, time and extended attributes.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) mode: Mode,
    pub(super) modified: Timespec,
    pub(super) xattrs: ExtendedAttributes,
}

impl Default for Attributes {
    /// Those of a directory that no archive lists.
    fn default() -> Self {
        Attributes {
            uid: Uid::ROOT,
            gid: Gid::ROOT,
            mode: UNLISTED_DIRECTORY_MODE,
            modified: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            xattrs: Vec::new(),
        }
    }
}

impl Attributes {
    pub(super) fn of(member: &Member) -> Self {
        let (seconds, nanoseconds) = member.modified;
        Attributes {
            uid: Uid::from_raw(member.uid),
            gid: Gid::from_raw(member.gid),
            mode: Mode::from_raw_mode(member.mode),
            modified: Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) },
            xattrs: member.xattrs.iter().filter(|(name, _)| is_wanted_xattr(name)).cloned().collect(),
        }
    }

    /// Those of something that exists.
    pub(super) fn of_existing(stat: &Stat, xattrs: ExtendedAttributes) -> Self {
        Attributes {
            uid: Uid::from_raw(stat.st_uid),
            gid: Gid::from_raw(stat.st_gid),
            mode: Mode::from_raw_mode(stat.st_mode & 0o7777),
            modified: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 },
            xattrs,
        }
    }

    /// Sets all but the time. The order matters: chown takes setuid bits and capabilities away.
    pub(super) fn set_on_descriptor(&self, node: BorrowedFd<'_>) -> Result<(), Problem> {
        rustix::fs::fchown(node, Some(self.uid), Some(self.gid)).map_err(system("set its owner"))?;
        rustix::fs::fchmod(node, self.mode).map_err(system("set its mode"))?;
        for (name, value) in &self.xattrs {
            rustix::fs::fsetxattr(node, OsStr::from_bytes(name), value, XattrFlags::empty())
                .map_err(system("set its extended attributes"))?;
        }
        Ok(())
    }

    /// Sets owner, mode and time of what can't be opened.
    pub(super) fn set_by_name(&self, parent: BorrowedFd<'_>, name: &[u8], kind: Kind) -> Result<(), Problem> {
        let name = OsStr::from_bytes(name);
        rustix::fs::chownat(parent, name, Some(self.uid), Some(self.gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(system("set its owner"))?;
        // A symbolic link has no mode of its own.
        if kind != Kind::SymbolicLink {
            rustix::fs::chmodat(parent, name, self.mode, AtFlags::empty()).map_err(system("set its mode"))?;
        }
        rustix::fs::utimensat(parent, name, &times(self.modified), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(system("set its time"))
    }

    pub(super) fn set_times(&self, node: BorrowedFd<'_>) -> Result<(), Problem> {
        set_times(node, self.modified)
    }
}

/// Attributes that belong to the image: capabilities, access lists, the user's own.
/// Those of overlayfs would steer the mount itself, and those of a security module belong to the machine that wrote the archive.
fn is_wanted_xattr(name: &[u8]) -> bool {
    name == b"security.capability"
        || name.starts_with(b"system.posix_acl_")
        || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
}

pub(super) fn set_times(node: BorrowedFd<'_>, modified: Timespec) -> Result<(), Problem> {
    rustix::fs::futimens(node, &times(modified)).map_err(system("set its time"))
}

fn times(modified: Timespec) -> Timestamps {
    Timestamps { last_access: modified, last_modification: modified }
}

/// What stands at a name, without following a link.
pub(super) fn kind_of(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileType>, Problem> {
    Ok(stat(parent, name)?.map(|stat| FileType::from_raw_mode(stat.st_mode)))
}

/// Whether a whiteout of overlayfs stands at a name.
pub(super) fn is_whiteout(parent: BorrowedFd<'_>, name: &[u8]) -> Result<bool, Problem> {
    Ok(stat(parent, name)?.is_some_and(|stat| is_whiteout_stat(&stat)))
}

pub(super) fn is_whiteout_stat(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

fn stat(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Stat>, Problem> {
    match rustix::fs::statat(parent, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(system("look at its place")(error)),
    }
}

pub(super) fn read_link(parent: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Problem> {
    let target = rustix::fs::readlinkat(parent, OsStr::from_bytes(name), Vec::new());
    target.map(std::ffi::CString::into_bytes).map_err(system("read the link that it lies behind"))
}

pub(super) fn make_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Problem> {
    rustix::fs::mkdirat(parent, OsStr::from_bytes(name), Mode::RWXU).map_err(system("make the directory"))
}

pub(super) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Problem> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, OsStr::from_bytes(name), flags, Mode::empty()).map_err(system("open the directory"))
}

pub(super) fn make_file(parent: BorrowedFd<'_>, name: &[u8]) -> Result<File, Problem> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, OsStr::from_bytes(name), flags, Mode::RUSR | Mode::WUSR);
    file.map(File::from).map_err(system("make the file"))
}

/// Writes a member's data, leaving holes where it has them.
pub(super) fn write_data(
    mut file: &File,
    member: &Member,
    data: &mut dyn Read,
    buffer: &mut [u8],
) -> Result<(), Problem> {
    let Some(map) = &member.sparse else {
        return copy(data, file, member.size, buffer);
    };
    for (offset, length) in &map.parts {
        file.seek(SeekFrom::Start(*offset)).map_err(unwritten)?;
        copy(data, file, *length, buffer)?;
    }
    file.set_len(map.real_size).map_err(unwritten)
}

fn unwritten(error: io::Error) -> Problem {
    Problem::System("write it", error)
}

/// Copies exactly so many bytes.
fn copy(data: &mut dyn Read, mut file: &File, mut bytes: u64, buffer: &mut [u8]) -> Result<(), Problem> {
    while bytes > 0 {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let read = match data.read(chunk) {
            Ok(0) => return Err(Problem::Read(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Problem::Read(error)),
        };
        file.write_all(chunk.get(..read).unwrap_or_default()).map_err(unwritten)?;
        bytes -= read as u64;
    }
    Ok(())
}

/// Makes a symbolic link, a device or a fifo.
pub(super) fn make_special(parent: BorrowedFd<'_>, name: &[u8], member: &Member) -> Result<(), Problem> {
    let name = OsStr::from_bytes(name);
    let (kind, device) = match member.kind {
        Kind::SymbolicLink => {
            return rustix::fs::symlinkat(OsStr::from_bytes(&member.link), parent, name)
                .map_err(system("make the symbolic link"));
        }
        Kind::CharacterDevice => (FileType::CharacterDevice, member.device),
        Kind::BlockDevice => (FileType::BlockDevice, member.device),
        _ => (FileType::Fifo, (0, 0)),
    };
    let device = rustix::fs::makedev(device.0, device.1);
    rustix::fs::mknodat(parent, name, kind, Mode::RUSR | Mode::WUSR, device).map_err(system("make the device or fifo"))
}

/// Makes what hides a name in the layers below.
pub(super) fn make_whiteout(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Problem> {
    rustix::fs::mknodat(parent, OsStr::from_bytes(name), FileType::CharacterDevice, Mode::empty(), 0)
        .map_err(system("make the whiteout"))
}

/// Copies a file of a layer below, with its attributes; gives its length.
pub(super) fn copy_file(source: &File, parent: BorrowedFd<'_>, name: &[u8]) -> Result<u64, Problem> {
    let stat = rustix::fs::fstat(source).map_err(system("look at the target of the link"))?;
    let xattrs = read_xattrs(source.as_fd()).map_err(system("read the attributes of the target of the link"))?;
    let file = make_file(parent, name)?;
    let bytes =
        io::copy(&mut &*source, &mut &file).map_err(|error| Problem::System("copy the target of the link", error))?;
    let attributes = Attributes::of_existing(&stat, xattrs);
    attributes.set_on_descriptor(file.as_fd())?;
    attributes.set_times(file.as_fd())?;
    Ok(bytes)
}

/// All extended attributes that a layer may have set.
pub(super) fn read_xattrs(node: BorrowedFd<'_>) -> Result<ExtendedAttributes, Errno> {
    // The kernel's own bounds for a list and for a value.
    const BYTES_MAX: usize = 1 << 16;
    let mut names = vec![0; BYTES_MAX];
    let length = rustix::fs::flistxattr(node, &mut names)?;
    names.truncate(length);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| is_wanted_xattr(name)) {
        let mut value = vec![0; BYTES_MAX];
        let length = rustix::fs::fgetxattr(node, OsStr::from_bytes(name), &mut value)?;
        value.truncate(length);
        found.push((name.to_vec(), value));
    }
    Ok(found)
}
