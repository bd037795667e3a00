//! A strict, bounded reader of tar archives: ustar, GNU and PAX, as far as container tools write them.
//!
//! Why not a crate: what describes a member (long names, PAX records) comes from strangers and must be bounded before it is read,
//! and PAX values are binary (`security.capability` may hold a newline), so records must be cut by their length.
//! It never touches a file system: [`super::unpack`] does.

mod header;
mod pax;
mod source;
mod sparse;

use std::io::{self, Read};

use header::Block;
use pax::PaxRecords;
pub(crate) use source::{Seekable, Source, Stream};

const BLOCK_BYTES: u64 = 512;
/// What long names and PAX records of one member may take; Go's reader has the same bound.
const METADATA_BYTES_MAX: u64 = 1 << 20;

/// Reads one member after another.
pub(crate) struct TarReader<S> {
    source: S,
    /// Bytes of the archive that have been read or passed over.
    position: u64,
    /// What is left of the current member's data.
    remaining: u64,
    /// What pads the current member's data to a whole block.
    padding: u64,
    has_end_marker: bool,
}

/// Names and values.
pub(crate) type ExtendedAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// One member of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its name as written.
    pub(crate) name: Vec<u8>,
    /// What a link points to, as written.
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permission bits, with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds since the epoch, and nanoseconds.
    pub(crate) modified: (i64, u32),
    /// Major and minor number of a device.
    pub(crate) device: (u32, u32),
    pub(crate) xattrs: ExtendedAttributes,
    /// Bytes of data that follow in the archive.
    pub(crate) size: u64,
    /// Where the data goes, for a file with holes.
    pub(crate) sparse: Option<SparseMap>,
}

/// The parts of a file with holes that hold data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseMap {
    /// Offset and length of each part, in order and without overlap.
    pub(crate) parts: Vec<(u64, u64)>,
    /// The length of the whole file.
    pub(crate) real_size: u64,
}

/// What a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    File,
    HardLink,
    SymbolicLink,
    CharacterDevice,
    BlockDevice,
    Directory,
    Fifo,
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// It ends too early.
    #[error("the archive ends in the middle, at byte {position}")]
    Truncated {
        /// Where.
        position: u64,
    },
    /// What stands where a header should is none.
    #[error("no tar header at byte {position}")]
    NoHeader {
        /// Where.
        position: u64,
    },
    /// A header was changed after it was written.
    #[error("the header at byte {position} has a wrong checksum")]
    Checksum {
        /// Where.
        position: u64,
    },
    /// A field holds something else than a number or a name, or a number that is too large.
    #[error("the header at byte {position} has a wrong `{field}`")]
    Field {
        /// Where.
        position: u64,
        /// Which field.
        field: &'static str,
    },
    /// A member of a kind that tar archives of images don't have.
    #[error("the header at byte {position} has the unknown member type {kind:?}")]
    Kind {
        /// Where.
        position: u64,
        /// The type.
        kind: char,
    },
    /// A name or an attribute that is absurdly long.
    #[error("the names and attributes of the member at byte {position} take more than {METADATA_BYTES_MAX} bytes")]
    MetadataTooLarge {
        /// Where.
        position: u64,
    },
    /// The lengths of PAX records don't fit their text.
    #[error("the PAX records at byte {position} are malformed")]
    Pax {
        /// Where.
        position: u64,
    },
    /// The parts of a file with holes overlap or don't fit its size.
    #[error("the map of holes of the member at byte {position} is malformed")]
    Sparse {
        /// Where.
        position: u64,
    },
    /// The archive could not be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

impl<S: Source> TarReader<S> {
    pub(crate) fn new(source: S) -> Self {
        TarReader { source, position: 0, remaining: 0, padding: 0, has_end_marker: false }
    }

    /// How far the archive has been read. After [`TarReader::next_member`]: where the member's data begins.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the archive ended as it should. One that ends between two members may have been cut there;
    /// that is for the caller to judge, because some programs write no marker and a digest tells more.
    pub(crate) fn has_end_marker(&self) -> bool {
        self.has_end_marker
    }

    /// The next member, or `None` at the end of the archive.
    pub(crate) fn next_member(&mut self) -> Result<Option<Member>, TarError> {
        self.pass_over_data()?;
        let mut description = Description::default();
        loop {
            let position = self.position;
            let Some(block) = self.next_block()? else {
                let ends_alone = description.is_empty();
                return if ends_alone { Ok(None) } else { Err(TarError::Truncated { position }) };
            };
            match block.kind() {
                b'L' => description.long_name = Some(self.metadata(&block, position)?),
                b'K' => description.long_link = Some(self.metadata(&block, position)?),
                b'x' => {
                    let records = self.metadata(&block, position)?;
                    description.pax = PaxRecords::parse(&records).ok_or(TarError::Pax { position })?;
                }
                // Global records describe the archive (git writes its commit here), a volume label its medium.
                b'g' => drop(self.metadata(&block, position)?),
                b'V' => {}
                _ => return self.member(&block, description, position).map(Some),
            }
        }
    }

    /// Puts a member together from its header and from what stood before it.
    fn member(&mut self, block: &Block, description: Description, position: u64) -> Result<Member, TarError> {
        let Description { long_name, long_link, pax } = description;
        let mut member = block.member(position)?;
        if let Some(name) = long_name {
            member.name = name;
        }
        if let Some(link) = long_link {
            member.link = link;
        }
        let is_old_sparse = block.kind() == b'S';
        pax.apply(&mut member, position)?;
        // A name of old archives that ends so is a directory's.
        if member.kind == Kind::File && member.name.ends_with(b"/") {
            member.kind = Kind::Directory;
        }
        if member.kind != Kind::File {
            member.size = 0;
        }
        self.remaining = member.size;
        self.padding = (BLOCK_BYTES - member.size % BLOCK_BYTES) % BLOCK_BYTES;
        member.sparse = if is_old_sparse {
            Some(sparse::read_old(self, block, position)?)
        } else {
            sparse::read_pax(self, &pax, position)?
        };
        // The map itself may have been part of the data.
        member.size = self.remaining;
        if let Some(map) = &member.sparse {
            map.check(member.size).ok_or(TarError::Sparse { position })?;
        }
        Ok(member)
    }

    /// The next header, or `None` at the end of the archive.
    fn next_block(&mut self) -> Result<Option<Block>, TarError> {
        let position = self.position;
        let mut first = [0];
        if read_one(&mut self.source, &mut first)? == 0 {
            return Ok(None);
        }
        let mut block = Block::zero();
        self.source.read_exact(block.after(first)).map_err(|error| truncated(error, position))?;
        self.position += BLOCK_BYTES;
        if block.is_zero() {
            self.has_end_marker = true;
            return Ok(None);
        }
        block.check(position)?;
        Ok(Some(block))
    }

    /// Reads one block; the end of the source is a truncation.
    fn read_block(&mut self) -> Result<Block, TarError> {
        let mut block = Block::zero();
        self.source.read_exact(block.bytes_mut()).map_err(|error| truncated(error, self.position))?;
        self.position += BLOCK_BYTES;
        Ok(block)
    }

    /// The data of a member that describes the next one.
    fn metadata(&mut self, block: &Block, position: u64) -> Result<Vec<u8>, TarError> {
        let size = block.size(position)?;
        if size > METADATA_BYTES_MAX {
            return Err(TarError::MetadataTooLarge { position });
        }
        self.remaining = size;
        self.padding = (BLOCK_BYTES - size % BLOCK_BYTES) % BLOCK_BYTES;
        let mut data = Vec::new();
        self.by_ref().read_to_end(&mut data)?;
        self.pass_over_data()?;
        // GNU tar ends names with a zero.
        if matches!(block.kind(), b'L' | b'K') {
            while data.last() == Some(&0) {
                data.pop();
            }
        }
        Ok(data)
    }

    fn pass_over_data(&mut self) -> Result<(), TarError> {
        let bytes = self.remaining.saturating_add(self.padding);
        self.source.skip(bytes).map_err(|error| truncated(error, self.position))?;
        self.position = self.position.saturating_add(bytes);
        self.remaining = 0;
        self.padding = 0;
        Ok(())
    }
}

/// Reads the data of the current member.
impl<S: Source> Read for TarReader<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.source.read(buffer.get_mut(..wanted).unwrap_or_default())?;
        if read == 0 && wanted > 0 {
            let text = TarError::Truncated { position: self.position }.to_string();
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.position += read as u64;
        self.remaining -= read as u64;
        Ok(read)
    }
}

/// What stands before a member and describes it.
#[derive(Default)]
struct Description {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: PaxRecords,
}

impl Description {
    fn is_empty(&self) -> bool {
        self.long_name.is_none() && self.long_link.is_none() && self.pax.is_empty()
    }
}

/// Reads one byte; 0 means that the source is at its end.
fn read_one(source: &mut impl Read, buffer: &mut [u8; 1]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn truncated(error: io::Error, position: u64) -> TarError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TarError::Truncated { position },
        _ => TarError::Read(error),
    }
}
