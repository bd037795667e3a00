//! What is mounted where, in this process's mount namespace.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Every mount point at or below a directory, in the order in which they were mounted; one that is mounted twice stands twice.
pub(super) fn mount_points_below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(mount_points(&table).filter(|mount_point| mount_point.starts_with(directory)).collect())
}

/// The fifth field of each line (proc_pid_mountinfo(5)).
fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescaped))
}

/// Blanks and the like stand as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|digits| *first == b'\\' && digits.iter().all(u8::is_ascii_digit));
        let number = digits.map(|digits| digits.iter().fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0')));
        match number.and_then(|number| u8::try_from(number).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_the_fifth_field_without_its_escapes() {
        let table =
            b"22 27 0:21 / /proc rw - proc proc rw\n23 27 0:22 / /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\n\n";
        let found: Vec<PathBuf> = mount_points(table).collect();
        assert_eq!(found, [PathBuf::from("/proc"), PathBuf::from("/a b\\c")]);
    }
}
