//! Files with holes, in GNU's old form and in the PAX forms 0.1 and 1.0.

use std::io::Read;

use super::header::Block;
use super::pax::{PaxRecords, decimal};
use super::{BLOCK_BYTES, Source, SparseMap, TarError, TarReader};

/// More parts than this are refused: the map is read before any data.
const PARTS_MAX: usize = 1 << 16;

impl SparseMap {
    /// Whether the parts lie in order within the file and hold exactly the data that follows.
    pub(super) fn check(&self, data_bytes: u64) -> Option<()> {
        let mut end = 0u64;
        let mut sum = 0u64;
        for (offset, length) in &self.parts {
            if *offset < end {
                return None;
            }
            end = offset.checked_add(*length)?;
            sum = sum.checked_add(*length)?;
        }
        (end <= self.real_size && sum == data_bytes && i64::try_from(self.real_size).is_ok()).then_some(())
    }
}

/// Reads the map of a member of type `S`: four parts in the header, then blocks of 21.
pub(super) fn read_old<S: Source>(
    reader: &mut TarReader<S>,
    header: &Block,
    position: u64,
) -> Result<SparseMap, TarError> {
    let wrong = || TarError::Sparse { position };
    let number = |block: &Block, at: usize| {
        block.number(at..at + 12).and_then(|number| u64::try_from(number).ok()).ok_or_else(wrong)
    };
    let mut map = SparseMap { parts: Vec::new(), real_size: number(header, 483)? };
    let mut add = |block: &Block, start: usize, count: usize| -> Result<(), TarError> {
        for at in (0..count).map(|index| start + index * 24) {
            let (offset, length) = (number(block, at)?, number(block, at + 12)?);
            if length > 0 {
                map.parts.push((offset, length));
            }
        }
        if map.parts.len() > PARTS_MAX { Err(wrong()) } else { Ok(()) }
    };
    add(header, 386, 4)?;
    let mut is_extended = header.byte(482) != 0;
    while is_extended {
        let block = reader.read_block()?;
        add(&block, 0, 21)?;
        is_extended = block.byte(504) != 0;
    }
    Ok(map)
}

/// Reads the map that PAX records announce: in the records (0.1), or at the start of the data (1.0).
pub(super) fn read_pax<S: Source>(
    reader: &mut TarReader<S>,
    records: &PaxRecords,
    position: u64,
) -> Result<Option<SparseMap>, TarError> {
    let wrong = || TarError::Sparse { position };
    if let Some(map) = records.get("GNU.sparse.map") {
        let real_size = records.get("GNU.sparse.size").and_then(decimal).ok_or_else(wrong)?;
        let numbers: Option<Vec<u64>> = map.split(|byte| *byte == b',').map(decimal).collect();
        return Ok(Some(SparseMap { parts: pairs(&numbers.ok_or_else(wrong)?).ok_or_else(wrong)?, real_size }));
    }
    match (records.get("GNU.sparse.major"), records.get("GNU.sparse.minor")) {
        (Some(b"1"), Some(b"0")) => {}
        (None, None) if records.get("GNU.sparse.size").is_none() => return Ok(None),
        _ => return Err(wrong()),
    }
    let real_size = records.get("GNU.sparse.realsize").and_then(decimal).ok_or_else(wrong)?;
    let mut lines = Lines { reader, read: 0 };
    let count = lines.number().filter(|count| *count <= PARTS_MAX as u64).ok_or_else(wrong)?;
    let mut numbers = Vec::new();
    for _ in 0..count.saturating_mul(2) {
        numbers.push(lines.number().ok_or_else(wrong)?);
    }
    lines.pass_over_padding().ok_or_else(wrong)?;
    Ok(Some(SparseMap { parts: pairs(&numbers).ok_or_else(wrong)?, real_size }))
}

fn pairs(numbers: &[u64]) -> Option<Vec<(u64, u64)>> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    let is_whole = rest.is_empty() && pairs.len() <= PARTS_MAX;
    is_whole
        .then(|| pairs.iter().filter(|[_, length]| *length > 0).map(|[offset, length]| (*offset, *length)).collect())
}

/// Decimal numbers, one a line, at the start of a member's data.
struct Lines<'a, S> {
    reader: &'a mut TarReader<S>,
    read: u64,
}

impl<S: Source> Lines<'_, S> {
    fn number(&mut self) -> Option<u64> {
        let mut digits = Vec::new();
        loop {
            let mut byte = [0];
            self.reader.read_exact(&mut byte).ok()?;
            self.read += 1;
            match byte {
                [b'\n'] => return decimal(&digits),
                // The longest number has twenty digits.
                [digit] if digits.len() < 20 => digits.push(digit),
                _ => return None,
            }
        }
    }

    fn pass_over_padding(&mut self) -> Option<()> {
        let padding = (BLOCK_BYTES - self.read % BLOCK_BYTES) % BLOCK_BYTES;
        let mut block = Vec::new();
        let passed = self.reader.by_ref().take(padding).read_to_end(&mut block).ok()?;
        (passed as u64 == padding).then_some(())
    }
}
