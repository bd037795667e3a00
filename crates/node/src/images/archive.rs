//! Image archives as named members: a tar file, compressed or not, or a directory with an OCI layout.
//!
//! Members are found once and then read where they lie; nothing is extracted under its own name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::compression::{MAGIC_BYTES, decompress, detect};
use super::progress::{Counted, Progress};
use super::tar::{Kind, Seekable, TarError, TarReader};

/// What a compressed archive may unfold to.
const PLAIN_BYTES_MAX: u64 = 512 << 30;
/// An image archive has a few members for each layer; of a root file system, no more names than this are kept.
const MEMBERS_MAX: usize = 100_000;
const LINKS_MAX: usize = 8;

/// An archive that has been looked through.
pub(crate) enum Archive {
    /// An OCI layout (image-spec: image-layout.md).
    Directory(PathBuf),
    /// A tar file.
    Tar(TarFile),
}

pub(crate) struct TarFile {
    file: File,
    members: BTreeMap<String, Place>,
    /// Bytes of the plain archive.
    pub(crate) size_bytes: u64,
    /// Whether it has any member, and its end-of-archive marker.
    pub(crate) is_complete: bool,
}

/// Where a member lies.
#[derive(Clone, Debug)]
enum Place {
    Data {
        offset: u64,
        size: u64,
    },
    /// Another name, relative to the archive. Old versions of Docker wrote a layer once and linked to it.
    Link(String),
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be opened or read.
    #[error("cannot read it")]
    Read(#[source] io::Error),
    /// What it unfolds to cannot be written.
    #[error("cannot unfold the compressed archive below `{}`", place.display())]
    Unfold {
        /// Where.
        place: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is something else.
    #[error("it is no tar archive")]
    NotTar,
    /// It is a directory of another kind.
    #[error("it is a directory without `{member}`, so it is no OCI layout")]
    NotLayout {
        /// What is missing.
        member: &'static str,
    },
    /// It is a broken tar archive.
    #[error("it is a damaged tar archive")]
    Tar(#[source] TarError),
    /// It lacks a member that another one names.
    #[error("member `{member}` is missing")]
    Missing {
        /// Which member.
        member: String,
    },
    /// A member that must be small is large.
    #[error("member `{member}` has more than {limit} bytes")]
    TooLarge {
        /// Which member.
        member: String,
        /// How large it may be.
        limit: u64,
    },
    /// A member cannot be read.
    #[error("cannot read member `{member}`")]
    Member {
        /// Which member.
        member: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Archive {
    /// Opens an archive; what is compressed, or can only be read once, is unfolded into a nameless file below `staging`.
    pub(crate) fn open(path: &Path, staging: &Path, progress: &dyn Progress) -> Result<Archive, ArchiveError> {
        let mut file = File::open(path).map_err(ArchiveError::Read)?;
        let kind = file.metadata().map_err(ArchiveError::Read)?;
        if kind.is_dir() {
            let missing = ["oci-layout", "index.json"].into_iter().find(|member| !path.join(member).is_file());
            return match missing {
                Some(member) => Err(ArchiveError::NotLayout { member }),
                None => Ok(Archive::Directory(path.to_owned())),
            };
        }
        let is_plain = kind.is_file() && detect(&first_bytes(&file)?).is_none();
        if !is_plain {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            let total = kind.is_file().then_some(kind.len());
            file = unfold(Counted::new(file, progress, name, total), staging)?;
        }
        TarFile::scan(file).map(Archive::Tar)
    }

    pub(crate) fn contains(&self, member: &str) -> bool {
        match self {
            Archive::Directory(root) => root.join(member).is_file(),
            Archive::Tar(tar) => tar.place(member).is_some(),
        }
    }

    /// The length of a member.
    pub(crate) fn size(&self, member: &str) -> Result<u64, ArchiveError> {
        match self {
            Archive::Directory(root) => match root.join(member).metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(member)),
                Err(source) => Err(ArchiveError::Member { member: member.to_owned(), source }),
            },
            Archive::Tar(tar) => tar.place(member).map(|(_, size)| size).ok_or_else(|| missing(member)),
        }
    }

    /// Reads a member.
    pub(crate) fn open_member(&self, member: &str) -> Result<Box<dyn Read + '_>, ArchiveError> {
        match self {
            Archive::Directory(root) => match File::open(root.join(member)) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(member)),
                Err(source) => Err(ArchiveError::Member { member: member.to_owned(), source }),
            },
            Archive::Tar(tar) => {
                let (offset, size) = tar.place(member).ok_or_else(|| missing(member))?;
                Ok(Box::new(Section { file: &tar.file, offset, end: offset.saturating_add(size) }))
            }
        }
    }

    /// The whole content of a member that has to be small.
    pub(crate) fn read_member(&self, member: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut content = Vec::new();
        let read = self.open_member(member)?.take(limit.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|source| ArchiveError::Member { member: member.to_owned(), source })?;
        if content.len() as u64 > limit {
            return Err(ArchiveError::TooLarge { member: member.to_owned(), limit });
        }
        Ok(content)
    }
}

impl TarFile {
    /// Looks through a plain tar file.
    fn scan(file: File) -> Result<TarFile, ArchiveError> {
        let size_bytes = (&file).seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
        (&file).rewind().map_err(ArchiveError::Read)?;
        let mut reader = TarReader::new(Seekable(BufReader::new(&file)));
        let mut members = BTreeMap::new();
        let mut count = 0u64;
        loop {
            let member = match reader.next_member() {
                Ok(Some(member)) => member,
                Ok(None) => break,
                // A file that does not even begin as an archive is something else, not a damaged one.
                Err(TarError::NoHeader { .. } | TarError::Checksum { .. } | TarError::Truncated { .. })
                    if count == 0 =>
                {
                    return Err(ArchiveError::NotTar);
                }
                Err(error) => return Err(ArchiveError::Tar(error)),
            };
            count += 1;
            let name = tidy(&String::from_utf8_lossy(&member.name));
            let place = match member.kind {
                Kind::File if member.sparse.is_none() => Place::Data { offset: reader.position(), size: member.size },
                Kind::HardLink => Place::Link(tidy(&String::from_utf8_lossy(&member.link))),
                Kind::SymbolicLink => {
                    let parent = name.rsplit_once('/').map_or("", |(parent, _)| parent);
                    Place::Link(tidy(&format!("{parent}/{}", String::from_utf8_lossy(&member.link))))
                }
                _ => continue,
            };
            if members.len() < MEMBERS_MAX || is_entry_point(&name) {
                members.insert(name, place);
            }
        }
        if count == 0 && !reader.has_end_marker() {
            return Err(ArchiveError::NotTar);
        }
        let is_complete = count > 0 && reader.has_end_marker();
        Ok(TarFile { file, members, size_bytes, is_complete })
    }

    /// The archive as a whole.
    pub(crate) fn content(&self) -> impl Read + '_ {
        Section { file: &self.file, offset: 0, end: self.size_bytes }
    }

    fn place(&self, member: &str) -> Option<(u64, u64)> {
        let mut name = tidy(member);
        for _ in 0..LINKS_MAX {
            match self.members.get(&name)? {
                Place::Data { offset, size } => return Some((*offset, *size)),
                Place::Link(target) => name = target.clone(),
            }
        }
        None
    }
}

/// Members by which the kind of an archive is known.
fn is_entry_point(name: &str) -> bool {
    matches!(name, "manifest.json" | "index.json" | "oci-layout")
}

/// A name without `.`, `..`, empty components and a leading slash. It is only compared with others, never opened.
fn tidy(name: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    for component in name.split('/') {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            _ => components.push(component),
        }
    }
    components.join("/")
}

fn missing(member: &str) -> ArchiveError {
    ArchiveError::Missing { member: member.to_owned() }
}

fn first_bytes(file: &File) -> Result<Vec<u8>, ArchiveError> {
    let mut first = vec![0; MAGIC_BYTES];
    let read = file.read_at(&mut first, 0).map_err(ArchiveError::Read)?;
    first.truncate(read);
    Ok(first)
}

/// Decompresses a stream into a file that has no name and so never stays behind.
fn unfold(stream: impl Read, staging: &Path) -> Result<File, ArchiveError> {
    let unwritten = |source| ArchiveError::Unfold { place: staging.to_owned(), source };
    let mut plain = decompress(BufReader::with_capacity(256 << 10, stream)).map_err(ArchiveError::Read)?;
    let mut file = tempfile::tempfile_in(staging).map_err(unwritten)?;
    let mut buffer = vec![0; 256 << 10];
    let mut written = 0u64;
    loop {
        let read = match plain.read(&mut buffer) {
            Ok(0) => return Ok(file),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::Read(error)),
        };
        written += read as u64;
        if written > PLAIN_BYTES_MAX {
            return Err(unwritten(io::ErrorKind::FileTooLarge.into()));
        }
        io::Write::write_all(&mut file, buffer.get(..read).unwrap_or_default()).map_err(unwritten)?;
    }
}

/// A part of a file, read without moving the file's own position.
struct Section<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        let read = self.file.read_at(buffer.get_mut(..length).unwrap_or_default(), self.offset)?;
        if read == 0 && length > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += read as u64;
        Ok(read)
    }
}
