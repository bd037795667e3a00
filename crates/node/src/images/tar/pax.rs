//! PAX extended headers: records `length key=value`, whose values are any bytes.

use super::{Kind, Member, TarError};

const XATTR_PREFIX: &[u8] = b"SCHILY.xattr.";

/// The records that describe one member.
#[derive(Clone, Debug, Default)]
pub(super) struct PaxRecords(Vec<(Vec<u8>, Vec<u8>)>);

impl PaxRecords {
    /// Cuts the records by their lengths; `None` if they don't fit.
    pub(super) fn parse(mut data: &[u8]) -> Option<Self> {
        let mut records = Vec::new();
        // Some programs pad the records with zeros.
        while data.first().is_some_and(|byte| *byte != 0) {
            let digits = data.iter().position(|byte| *byte == b' ')?;
            let length: usize = decimal(data.get(..digits)?)?.try_into().ok()?;
            let record = data.get(digits + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (key, value) = record.split_at_checked(equals)?;
            records.push((key.to_vec(), value.get(1..)?.to_vec()));
            data = data.get(length..)?;
        }
        Some(PaxRecords(records))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(found, _)| found == key.as_bytes()).map(|(_, value)| value.as_slice())
    }

    /// Lets the records overrule the header.
    pub(super) fn apply(&self, member: &mut Member, position: u64) -> Result<(), TarError> {
        for (key, value) in &self.0 {
            let wrong = |field| TarError::Field { position, field };
            match key.as_slice() {
                b"path" => member.name = text(value).ok_or(wrong("path"))?,
                b"linkpath" => member.link = text(value).ok_or(wrong("linkpath"))?,
                b"size" => {
                    let size = decimal(value).and_then(|size| i64::try_from(size).ok()).ok_or(wrong("size"))?;
                    member.size = size.unsigned_abs();
                }
                b"uid" => member.uid = small(value).ok_or(wrong("uid"))?,
                b"gid" => member.gid = small(value).ok_or(wrong("gid"))?,
                b"mtime" => member.modified = time(value).ok_or(wrong("mtime"))?,
                key => {
                    if let Some(name) = key.strip_prefix(XATTR_PREFIX) {
                        let name = text(name).filter(|name| !name.is_empty()).ok_or(wrong("xattr"))?;
                        member.xattrs.retain(|(known, _)| *known != name);
                        member.xattrs.push((name, value.clone()));
                    }
                }
            }
        }
        // The name in the header is made up by programs that keep the real one here.
        if let Some(name) = self.get("GNU.sparse.name").filter(|_| member.kind == Kind::File) {
            member.name = text(name).ok_or(TarError::Field { position, field: "path" })?;
        }
        Ok(())
    }
}

/// Decimal digits, and nothing else.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn small(value: &[u8]) -> Option<u32> {
    u32::try_from(decimal(value)?).ok()
}

/// A name must not hold a zero: the kernel would cut it there.
fn text(value: &[u8]) -> Option<Vec<u8>> {
    (!value.contains(&0)).then(|| value.to_vec())
}

/// `[-]seconds[.fraction]`, rounded down to nanoseconds.
fn time(value: &[u8]) -> Option<(i64, u32)> {
    let (is_negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    let mut digits: Vec<u8> = fraction.iter().copied().take(9).collect();
    digits.resize(9, b'0');
    let nanoseconds = u32::try_from(decimal(&digits)?).ok()?;
    Some(match (is_negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_cut_by_length_so_that_values_may_hold_newlines() {
        let records = PaxRecords::parse(b"26 SCHILY.xattr.user.a=\n\n\n12 path=abc\n").map(|records| records.0);
        let expected = vec![(b"SCHILY.xattr.user.a".to_vec(), b"\n\n".to_vec()), (b"path".to_vec(), b"abc".to_vec())];
        assert_eq!(records, Some(expected));
        for wrong in [&b"5 a=b"[..], b"6 a=bc\n", b"4 ab\n", b"99999999999999999999 a=b\n", b"x", b"3 \n", b"-6 a=b\n"]
        {
            assert!(PaxRecords::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn times_before_the_epoch_are_rounded_down() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(time(b"-7"), Some((-7, 0)));
        assert_eq!(time(b"1.0000000019"), Some((1, 1)));
        assert_eq!(time(b"1.x"), None);
        assert_eq!(time(b""), None);
    }
}
