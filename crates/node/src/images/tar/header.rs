//! The 512 bytes that stand before every member: fields, numbers, checksum.

use super::{Kind, Member, TarError};

/// One header block.
pub(super) struct Block([u8; 512]);

/// Where a field lies in a block.
type Field = std::ops::Range<usize>;

const NAME: Field = 0..100;
const MODE: Field = 100..108;
const UID: Field = 108..116;
const GID: Field = 116..124;
const SIZE: Field = 124..136;
const MODIFIED: Field = 136..148;
const CHECKSUM: Field = 148..156;
const KIND: usize = 156;
const LINK: Field = 157..257;
const MAGIC: Field = 257..263;
const MAJOR: Field = 329..337;
const MINOR: Field = 337..345;
const PREFIX: Field = 345..500;

impl Block {
    pub(super) fn zero() -> Self {
        Block([0; 512])
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Puts the first byte in and gives the rest to be filled.
    pub(super) fn after(&mut self, [first]: [u8; 1]) -> &mut [u8] {
        let [start, rest @ ..] = &mut self.0;
        *start = first;
        rest
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or_default()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Whether the block is a header at all, and whole.
    pub(super) fn check(&self, position: u64) -> Result<(), TarError> {
        let written = self.number(CHECKSUM).ok_or(TarError::NoHeader { position })?;
        // The checksum counts its own field as blanks. Old programs added the bytes as signed ones.
        let outside = |index: &usize| !CHECKSUM.contains(index);
        let sum = |value: fn(u8) -> i64| -> i64 {
            let blanks = CHECKSUM.len() as i64 * i64::from(b' ');
            blanks
                + self
                    .0
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| outside(index))
                    .map(|(_, byte)| value(*byte))
                    .sum::<i64>()
        };
        let is_right = written == sum(i64::from) || written == sum(|byte| i64::from(byte.cast_signed()));
        if is_right { Ok(()) } else { Err(TarError::Checksum { position }) }
    }

    pub(super) fn kind(&self) -> u8 {
        self.byte(KIND)
    }

    pub(super) fn size(&self, position: u64) -> Result<u64, TarError> {
        self.unsigned(SIZE, "size", position)
    }

    /// The member that the block alone describes.
    pub(super) fn member(&self, position: u64) -> Result<Member, TarError> {
        let kind = self.member_kind(position)?;
        let is_device = matches!(kind, Kind::CharacterDevice | Kind::BlockDevice);
        let device = |field, name| if is_device { self.small(field, name, position) } else { Ok(0) };
        Ok(Member {
            name: self.name(),
            link: self.text(LINK).to_vec(),
            kind,
            mode: (self.small(MODE, "mode", position)?) & 0o7777,
            uid: self.small(UID, "uid", position)?,
            gid: self.small(GID, "gid", position)?,
            modified: (self.number(MODIFIED).ok_or(TarError::Field { position, field: "mtime" })?, 0),
            device: (device(MAJOR, "devmajor")?, device(MINOR, "devminor")?),
            xattrs: Vec::new(),
            size: self.size(position)?,
            sparse: None,
        })
    }

    /// A number at any place of the block, for what [`super::sparse`] reads.
    pub(super) fn number(&self, field: Field) -> Option<i64> {
        number(self.0.get(field)?)
    }

    fn member_kind(&self, position: u64) -> Result<Kind, TarError> {
        Ok(match self.kind() {
            // `7` is a file that was to lie in one piece; `S` has holes.
            0 | b'0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::SymbolicLink,
            b'3' => Kind::CharacterDevice,
            b'4' => Kind::BlockDevice,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => return Err(TarError::Kind { position, kind: char::from(other) }),
        })
    }

    /// The name; in POSIX archives a long one stands in two fields.
    fn name(&self) -> Vec<u8> {
        let is_posix = self.0.get(MAGIC).is_some_and(|magic| magic == b"ustar\0");
        let prefix = self.text(PREFIX);
        if is_posix && !prefix.is_empty() {
            return [prefix, b"/", self.text(NAME)].concat();
        }
        self.text(NAME).to_vec()
    }

    /// A field up to its first zero.
    fn text(&self, field: Field) -> &[u8] {
        let bytes = self.0.get(field).unwrap_or_default();
        bytes.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn unsigned(&self, field: Field, name: &'static str, position: u64) -> Result<u64, TarError> {
        let number = self.number(field).and_then(|number| u64::try_from(number).ok());
        number.ok_or(TarError::Field { position, field: name })
    }

    fn small(&self, field: Field, name: &'static str, position: u64) -> Result<u32, TarError> {
        let number = self.unsigned(field, name, position)?;
        u32::try_from(number).map_err(|_| TarError::Field { position, field: name })
    }
}

/// A number: octal digits between blanks and zeros, or, with the highest bit of the first byte set, two's complement.
fn number(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Bit 6 is the sign.
        let start = if first & 0x40 != 0 { -1 } else { 0 };
        let start = (start << 6) | i64::from(first & 0x3f);
        return rest.iter().try_fold(start, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)));
    }
    let is_blank = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = field.get(start..)?.split(|byte| is_blank(byte)).next()?;
    digits.iter().try_fold(0i64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(i64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_octal_or_binary_and_never_overflow() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"12x\0"), None);
        assert_eq!(number(b"-1\0"), None);
        assert_eq!(number(b"\x80\0\0\0\0\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(&[0xbf; 12]), None);
        assert_eq!(number(b"777777777777"), Some(0o777_777_777_777));
    }
}
