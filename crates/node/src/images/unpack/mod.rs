//! Unpacks one layer into a directory, in the form that overlayfs wants.
//!
//! The archive is taken for hostile: every member is reached through openat2 with the layer's directory as root,
//! so that no name, link or order of members leads outside; the last component of a name is never followed.
//! Numbers, lengths and depths are bounded. What stays is the caller's to remove if unpacking fails.
//!
//! Whiteouts become overlayfs' own: a character device 0/0, or `trusted.overlay.opaque` on a directory (image-spec: layer.md, "Whiteouts").

mod lower;
mod node;
mod path;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Timespec, XattrFlags};
use rustix::io::Errno;

use super::tar::{ExtendedAttributes, Kind, Member, Stream, TarError, TarReader};
use super::tree::{open_beneath, remove_tree_at};

pub use lower::LowerLayers;
use node::Attributes;
use path::{MemberPath, Unusable};

const WHITEOUT_PREFIX: &[u8] = b".wh.";
const OPAQUE_MARKER: &[u8] = b".wh..wh..opq";
const OPAQUE_XATTR: &str = "trusted.overlay.opaque";

/// How much a layer may hold.
#[derive(Clone, Copy, Debug)]
pub struct UnpackLimits {
    /// Bytes that files may take.
    pub bytes: u64,
    /// How many members the archive may have.
    pub members: u64,
}

impl Default for UnpackLimits {
    /// Far more than any image has: the bound is there so that a bomb ends.
    fn default() -> Self {
        UnpackLimits { bytes: 256 << 30, members: 20_000_000 }
    }
}

/// What was unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Members of the archive.
    pub members: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Whether the archive had its end-of-archive marker; without it, it may have been cut between two members.
    pub has_end_marker: bool,
}

/// Why a layer cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It is no tar archive, or broken.
    #[error("malformed layer archive{}", after(.previous))]
    Archive {
        /// The member before the place; empty at the start.
        previous: String,
        /// What is wrong with it.
        #[source]
        source: TarError,
    },
    /// A member's name or link leads outside of the layer.
    #[error("member `{member}` would lie outside of its layer")]
    Outside {
        /// Which member.
        member: String,
    },
    /// A member's name cannot be made.
    #[error("member `{member}` has a name that {problem}")]
    Name {
        /// Which member.
        member: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A hard link's target does not exist, in this layer or below.
    #[error("member `{member}` is a hard link to `{target}`, which is no file of the image")]
    LinkTarget {
        /// Which member.
        member: String,
        /// What it points to.
        target: String,
    },
    /// The layer holds more than it may.
    #[error("member `{member}`: the layer holds more than {limit}")]
    TooLarge {
        /// The member at which the limit was reached.
        member: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// The archive ends or breaks in the middle of a member.
    #[error("member `{member}`: cannot read it from the archive")]
    Read {
        /// Which member.
        member: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The system refused.
    #[error("member `{member}`: cannot {action}")]
    System {
        /// Which member.
        member: String,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

/// Unpacks a layer's archive (not compressed) into an empty directory.
///
/// `lower` are the layers below, from which unlisted parent directories take their attributes and hard links their files;
/// without any, whiteouts hide nothing and are left out.
pub fn unpack(
    archive: &mut dyn Read,
    directory: BorrowedFd<'_>,
    lower: &LowerLayers,
    limits: &UnpackLimits,
) -> Result<Unpacked, UnpackError> {
    let mut reader = TarReader::new(Stream(archive));
    let mut layer = Layer::new(directory, lower, *limits);
    let mut previous = String::new();
    let mut members = 0;
    loop {
        let member = match reader.next_member() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(source) => return Err(UnpackError::Archive { previous, source }),
        };
        members += 1;
        previous = printable(&member.name);
        if members > limits.members {
            return Err(UnpackError::TooLarge { member: previous, limit: format!("{} members", limits.members) });
        }
        layer.add(&member, &mut reader).map_err(|problem| problem.of(&member))?;
    }
    layer.finish().map_err(|problem| problem.of(&Member::default()))?;
    Ok(Unpacked { members, bytes: layer.bytes, has_end_marker: reader.has_end_marker() })
}

/// A name as it can be shown: bytes that are no text are replaced, control characters escaped, and long ones cut.
fn printable(name: &[u8]) -> String {
    const LENGTH_MAX: usize = 200;
    let text = String::from_utf8_lossy(name);
    let shown: String = text.chars().take(LENGTH_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > LENGTH_MAX { format!("{shown}...") } else { shown }
}

fn after(previous: &str) -> String {
    if previous.is_empty() { String::new() } else { format!(" after member `{previous}`") }
}

/// What went wrong with a member, before it is known which.
#[derive(Debug)]
enum Problem {
    Outside,
    Name(&'static str),
    LinkTarget,
    TooLarge(u64),
    Read(io::Error),
    System(&'static str, io::Error),
}

impl Problem {
    fn of(self, member: &Member) -> UnpackError {
        let name = printable(&member.name);
        match self {
            Problem::Outside => UnpackError::Outside { member: name },
            Problem::Name(problem) => UnpackError::Name { member: name, problem },
            Problem::LinkTarget => UnpackError::LinkTarget { member: name, target: printable(&member.link) },
            Problem::TooLarge(bytes) => UnpackError::TooLarge { member: name, limit: format!("{bytes} bytes") },
            Problem::Read(source) => UnpackError::Read { member: name, source },
            Problem::System(action, source) => UnpackError::System { member: name, action, source },
        }
    }
}

impl From<Unusable> for Problem {
    fn from(unusable: Unusable) -> Problem {
        match unusable {
            Unusable::Outside => Problem::Outside,
            Unusable::Name(problem) => Problem::Name(problem),
        }
    }
}

/// Gives a failed system call its name.
fn system(action: &'static str) -> impl Fn(Errno) -> Problem {
    move |error| Problem::System(action, error.into())
}

/// A layer that is being unpacked.
struct Layer<'a> {
    root: BorrowedFd<'a>,
    lower: &'a LowerLayers,
    limits: UnpackLimits,
    bytes: u64,
    /// The directory of the last member: the next one is likely to lie in it too.
    last_parent: Option<(MemberPath, OwnedFd)>,
    /// Adding members changes a directory's time, so all are set at the end.
    directory_times: BTreeMap<MemberPath, Timespec>,
    buffer: Vec<u8>,
}

impl<'a> Layer<'a> {
    fn new(root: BorrowedFd<'a>, lower: &'a LowerLayers, limits: UnpackLimits) -> Self {
        const BUFFER_BYTES: usize = 256 << 10;
        Layer {
            root,
            lower,
            limits,
            bytes: 0,
            last_parent: None,
            directory_times: BTreeMap::new(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    fn add(&mut self, member: &Member, data: &mut dyn Read) -> Result<(), Problem> {
        let path = MemberPath::parse(&member.name)?;
        let Some((parents, name)) = path.split_last() else {
            return self.add_root(member);
        };
        if let Some(hidden) = name.strip_prefix(WHITEOUT_PREFIX) {
            return self.add_whiteout(&parents, name, hidden);
        }
        let attributes = Attributes::of(member);
        if member.kind == Kind::HardLink {
            return self.add_hard_link(&path, &MemberPath::parse(&member.link)?);
        }
        let parent = self.parent(&parents)?;
        let replaced = self.make_room(parent.as_fd(), name, member.kind)?;
        match member.kind {
            Kind::Directory => {
                if replaced != Replaced::Directory {
                    node::make_directory(parent.as_fd(), name)?;
                }
                let directory = node::open_directory(parent.as_fd(), name)?;
                attributes.set_on_descriptor(directory.as_fd())?;
                if replaced == Replaced::Whiteout {
                    set_opaque(directory.as_fd())?;
                }
                self.directory_times.insert(path, attributes.modified);
            }
            Kind::File => {
                let file = node::make_file(parent.as_fd(), name)?;
                self.count(member.size)?;
                node::write_data(&file, member, data, &mut self.buffer)?;
                attributes.set_on_descriptor(file.as_fd())?;
                attributes.set_times(file.as_fd())?;
            }
            _ => {
                node::make_special(parent.as_fd(), name, member)?;
                attributes.set_by_name(parent.as_fd(), name, member.kind)?;
            }
        }
        self.last_parent = Some((parents, parent));
        Ok(())
    }

    /// The member `./` describes the layer's own directory.
    fn add_root(&mut self, member: &Member) -> Result<(), Problem> {
        if member.kind != Kind::Directory {
            return Err(Problem::Name("is the root's, but it is no directory"));
        }
        let attributes = Attributes::of(member);
        let root = node::open_directory(self.root, b".")?;
        attributes.set_on_descriptor(root.as_fd())?;
        self.directory_times.insert(MemberPath::root(), attributes.modified);
        Ok(())
    }

    fn add_whiteout(&mut self, parents: &MemberPath, name: &[u8], hidden: &[u8]) -> Result<(), Problem> {
        if self.lower.is_empty() {
            return Ok(());
        }
        if name == OPAQUE_MARKER {
            let directory = self.parent(parents)?;
            let directory = node::open_directory(directory.as_fd(), b".")?;
            return set_opaque(directory.as_fd());
        }
        if hidden.starts_with(WHITEOUT_PREFIX) {
            // AUFS kept its own files under such names; they mean nothing to anybody else.
            return Ok(());
        }
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(Problem::Outside);
        }
        let parent = self.parent(parents)?;
        // A whiteout hides what lies below, never what its own layer has.
        match node::kind_of(parent.as_fd(), hidden)? {
            Some(FileType::Directory) => {
                let directory = node::open_directory(parent.as_fd(), hidden)?;
                set_opaque(directory.as_fd())
            }
            Some(_) => Ok(()),
            None => node::make_whiteout(parent.as_fd(), hidden),
        }
    }

    /// A hard link to a file of this layer, or a copy of one that lies below, which is what overlayfs itself makes then.
    fn add_hard_link(&mut self, path: &MemberPath, target: &MemberPath) -> Result<(), Problem> {
        let (Some((parents, name)), Some((target_parents, target_name))) = (path.split_last(), target.split_last())
        else {
            return Err(Problem::LinkTarget);
        };
        if path == target {
            return Ok(());
        }
        let parent = self.parent(&parents)?;
        let source = match self.open_parent(&target_parents) {
            Ok(directory) => node::kind_of(directory.as_fd(), target_name)?
                .filter(|kind| !matches!(kind, FileType::Directory))
                .map(|_| directory),
            Err(Errno::NOENT | Errno::NOTDIR) => None,
            Err(error) => return Err(system("find the target of the link")(error)),
        };
        if let Some(source) = source {
            self.make_room(parent.as_fd(), name, Kind::HardLink)?;
            return rustix::fs::linkat(
                source,
                OsStr::from_bytes(target_name),
                parent,
                OsStr::from_bytes(name),
                AtFlags::empty(),
            )
            .map_err(system("make the hard link"));
        }
        let below = self.lower.open_file(target).map_err(system("open the target of the link"))?;
        let Some(below) = below else { return Err(Problem::LinkTarget) };
        self.make_room(parent.as_fd(), name, Kind::HardLink)?;
        let size = node::copy_file(&below, parent.as_fd(), name)?;
        self.count(size)
    }

    /// Opens the directory that a member lies in, and makes it if the archive has not listed it.
    fn parent(&mut self, path: &MemberPath) -> Result<OwnedFd, Problem> {
        if let Some((known, directory)) = self.last_parent.take()
            && known == *path
        {
            return Ok(directory);
        }
        match self.open_parent(path) {
            Ok(directory) => Ok(directory),
            Err(Errno::NOENT | Errno::NOTDIR) => self.make_parent(path),
            Err(error) => Err(system("open the directory that it lies in")(error)),
        }
    }

    /// Walks down to a directory and makes what is missing, following links within the layer as the kernel would.
    fn make_parent(&mut self, path: &MemberPath) -> Result<OwnedFd, Problem> {
        let failed = system("open the directory that it lies in");
        let mut links_left = 40;
        let mut pending: Vec<Vec<u8>> = path.components().rev().map(<[u8]>::to_vec).collect();
        // Every component of it is a directory, so going up is taking the last one off.
        let mut reached = MemberPath::root();
        let mut directory = self.open_parent(&reached).map_err(&failed)?;
        while let Some(name) = pending.pop() {
            if name == b".." {
                reached.pop();
                directory = self.open_parent(&reached).map_err(&failed)?;
                continue;
            }
            match node::kind_of(directory.as_fd(), &name)? {
                Some(FileType::Symlink) if links_left == 0 => return Err(failed(Errno::LOOP)),
                Some(FileType::Symlink) => {
                    links_left -= 1;
                    let target = node::read_link(directory.as_fd(), &name)?;
                    if target.starts_with(b"/") {
                        reached = MemberPath::root();
                        directory = self.open_parent(&reached).map_err(&failed)?;
                    }
                    let components = target.split(|byte| *byte == b'/').rev();
                    pending.extend(components.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec));
                }
                _ => {
                    reached.push(&name)?;
                    directory = self.enter(directory, &name, &reached)?;
                }
            }
        }
        Ok(directory)
    }

    /// Opens a directory that the archive may not have listed, in which case it looks as it does below.
    fn enter(&mut self, above: OwnedFd, name: &[u8], path: &MemberPath) -> Result<OwnedFd, Problem> {
        let replaced = match node::kind_of(above.as_fd(), name)? {
            Some(FileType::Directory) => return node::open_directory(above.as_fd(), name),
            Some(_) if !node::is_whiteout(above.as_fd(), name)? => {
                return Err(system("open the directory that it lies in")(Errno::NOTDIR));
            }
            _ => self.make_room(above.as_fd(), name, Kind::Directory)?,
        };
        node::make_directory(above.as_fd(), name)?;
        let directory = node::open_directory(above.as_fd(), name)?;
        let attributes = self.lower.directory(path).map_err(system("look at the layers below"))?;
        attributes.unwrap_or_default().set_on_descriptor(directory.as_fd())?;
        // A whiteout of the same layer means that nothing from below shows through.
        if replaced == Replaced::Whiteout {
            set_opaque(directory.as_fd())?;
        }
        Ok(directory)
    }

    /// Opens a directory of this layer. Links in the path are followed as if the layer were the whole file system.
    fn open_parent(&self, path: &MemberPath) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        open_beneath(self.root, &path.to_bytes(), OFlags::PATH | OFlags::DIRECTORY, resolve)
    }

    /// Takes away what stands in a member's place, but for a directory that becomes a directory.
    fn make_room(&mut self, parent: BorrowedFd<'_>, name: &[u8], kind: Kind) -> Result<Replaced, Problem> {
        let replaced = match node::kind_of(parent, name)? {
            None => return Ok(Replaced::Nothing),
            Some(FileType::Directory) if kind == Kind::Directory => return Ok(Replaced::Directory),
            Some(FileType::CharacterDevice) if node::is_whiteout(parent, name)? => Replaced::Whiteout,
            Some(_) => Replaced::Nothing,
        };
        self.last_parent = None;
        remove_tree_at(parent, OsStr::from_bytes(name)).map_err(system("replace what an earlier member made"))?;
        Ok(replaced)
    }

    fn count(&mut self, bytes: u64) -> Result<(), Problem> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes { Err(Problem::TooLarge(self.limits.bytes)) } else { Ok(()) }
    }

    /// Sets the directories' times. One that was replaced since is passed over.
    fn finish(&mut self) -> Result<(), Problem> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        for (path, modified) in std::mem::take(&mut self.directory_times) {
            match open_beneath(self.root, &path.to_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, resolve) {
                Ok(directory) => node::set_times(directory.as_fd(), modified)?,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(system("open a directory again")(error)),
            }
        }
        Ok(())
    }
}

/// What stood in a member's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    Nothing,
    Whiteout,
    Directory,
}

fn set_opaque(directory: BorrowedFd<'_>) -> Result<(), Problem> {
    rustix::fs::fsetxattr(directory, OPAQUE_XATTR, b"y", XattrFlags::empty())
        .map_err(system("hide what lies below the directory"))
}

/// The mode of a directory that no archive lists.
const UNLISTED_DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]
mod tests;
