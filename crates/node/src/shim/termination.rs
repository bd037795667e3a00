//! The termination message of a container (L-740).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::runtime::config::ContainerConfig;

/// The most that is taken from the termination message file: its last bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// The most that is taken from the log: the last bytes of the last lines.
const LOG_LINES_MAX: usize = 80;
const LOG_BYTES_MAX: usize = 2048;
/// Enough of a log's end to hold that much text, whatever stands between.
const LOG_TAIL_BYTES: u64 = 64 * 1024;

/// The message of a container that has ended.
pub(crate) fn termination_message(config: &ContainerConfig, exit_code: i32, reason: Option<&str>) -> String {
    let message = from_file(config);
    let may_use_logs = config.termination_message.fallback_to_logs_on_error
        && exit_code != 0
        && message.is_empty()
        && reason != Some("ContainerCannotRun");
    match &config.log_path {
        Some(log) if may_use_logs => from_log(log),
        _ => message,
    }
}

fn from_file(config: &ContainerConfig) -> String {
    let Some(path) = &config.termination_message.host_path else { return String::new() };
    match read_tail(path, FILE_BYTES_MAX) {
        Ok(tail) => String::from_utf8_lossy(&tail).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            format!("Error on reading termination log {}: {error}", config.termination_message.container_path)
        }
    }
}

fn from_log(path: &Path) -> String {
    match read_tail(path, LOG_TAIL_BYTES) {
        Ok(tail) => log_text(&tail),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => format!("Error on reading termination message from logs: {error}"),
    }
}

/// The text of the last lines of a log, without their heads.
fn log_text(tail: &[u8]) -> String {
    let mut lines: Vec<&[u8]> = tail.split_inclusive(|byte| *byte == b'\n').collect();
    let surplus = lines.len().saturating_sub(LOG_LINES_MAX);
    lines.drain(..surplus);
    let mut text = Vec::new();
    for line in lines {
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        // The first line of the tail may have lost its head; then it has no tag and is left out.
        let Some(tag) = fields.nth(2).filter(|tag| matches!(*tag, b"F" | b"P")) else { continue };
        let content = fields.next().unwrap_or_default();
        text.extend_from_slice(if tag == b"P" { content.strip_suffix(b"\n").unwrap_or(content) } else { content });
    }
    let start = text.len().saturating_sub(LOG_BYTES_MAX);
    String::from_utf8_lossy(text.get(start..).unwrap_or_default()).into_owned()
}

fn read_tail(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(length)))?;
    let mut tail = Vec::new();
    file.take(length).read_to_end(&mut tail)?;
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_log_is_its_last_80_lines_of_them_the_last_2048_bytes() {
        let log: String =
            (0..100).map(|index| format!("2026-01-01T00:00:00.000000000Z stdout F line {index}\n")).collect();
        let expected: String = (20..100).map(|index| format!("line {index}\n")).collect();
        assert_eq!(log_text(log.as_bytes()), expected);

        let long = format!("2026-01-01T00:00:00.000000000Z stdout P {}\n", "x".repeat(5000));
        assert_eq!(log_text(long.as_bytes()), "x".repeat(2048));
    }
}
