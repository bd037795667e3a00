//! A container's output on disk, in the format of the container runtime interface.
//!
//! `2026-01-02T03:04:05.678901234Z stdout F text`: a line is F (full) if it ended with a newline, P (partial) if it was cut at 16 KiB or by the stream's end.
//! A file that has grown to its limit is renamed and a new one begun; the oldest of too many goes.
//! A disk that takes no more loses output, never the container.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::files::FileError;

/// The longest text of a line; containerd's `max_container_log_line_size`.
const LINE_BYTES_MAX: usize = 16 * 1024;
/// Kubernetes' `containerLogMaxSize`.
const FILE_BYTES_MAX: u64 = 10 << 20;
/// Kubernetes' `containerLogMaxFiles`.
const FILES_MAX: usize = 5;

/// Which of a container's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    fn name(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}

/// Writes a container's log.
pub(crate) struct LogWriter {
    file: Option<LogFile>,
    /// The beginning of a line of each stream whose end has not come yet.
    begun: [Vec<u8>; 2],
}

struct LogFile {
    path: PathBuf,
    file: File,
    size_bytes: u64,
    size_bytes_max: u64,
}

impl LogWriter {
    /// Opens the log, after what is there already; without a path all is thrown away.
    pub(crate) fn open(path: Option<&Path>) -> Result<LogWriter, FileError> {
        let file = path.map(|path| LogFile::open(path, FILE_BYTES_MAX)).transpose()?;
        Ok(LogWriter { file, begun: [Vec::new(), Vec::new()] })
    }

    /// Takes output as it comes.
    pub(crate) fn write(&mut self, stream: OutputStream, mut output: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let begun = match (stream, &mut self.begun) {
            (OutputStream::Stdout, [stdout, _]) => stdout,
            (OutputStream::Stderr, [_, stderr]) => stderr,
        };
        let prefix = format!("{:.9} {} ", Timestamp::now(), stream.name());
        let mut lines = Vec::with_capacity(output.len() + prefix.len() + 8);
        while let Some((line, tag, rest)) = next_line(begun.len(), output) {
            append_line(&mut lines, &prefix, tag, begun, line);
            begun.clear();
            output = rest;
            if lines.len() as u64 >= file.size_bytes_max {
                file.append(&lines);
                lines.clear();
            }
        }
        begun.extend_from_slice(output);
        file.append(&lines);
    }

    /// Writes what is left of both streams when they have ended.
    pub(crate) fn finish(&mut self) {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let begun = match (stream, &mut self.begun) {
                (OutputStream::Stdout, [stdout, _]) => std::mem::take(stdout),
                (OutputStream::Stderr, [_, stderr]) => std::mem::take(stderr),
            };
            if let Some(file) = self.file.as_mut().filter(|_| !begun.is_empty()) {
                let prefix = format!("{:.9} {} ", Timestamp::now(), stream.name());
                let mut line = Vec::new();
                append_line(&mut line, &prefix, "P", &begun, &[]);
                file.append(&line);
            }
        }
    }
}

/// The next line of the output that is complete or has reached its greatest length, its tag, and the rest.
fn next_line(begun_length: usize, output: &[u8]) -> Option<(&[u8], &'static str, &[u8])> {
    let room = LINE_BYTES_MAX.saturating_sub(begun_length);
    let newline = output.iter().take(room + 1).position(|byte| *byte == b'\n');
    if let Some(index) = newline {
        let (line, rest) = output.split_at(index);
        return Some((line, "F", rest.get(1..).unwrap_or_default()));
    }
    if output.len() <= room {
        return None;
    }
    let (line, rest) = output.split_at(room);
    Some((line, "P", rest))
}

fn append_line(lines: &mut Vec<u8>, prefix: &str, tag: &str, begun: &[u8], rest: &[u8]) {
    lines.extend_from_slice(prefix.as_bytes());
    lines.extend_from_slice(tag.as_bytes());
    lines.push(b' ');
    lines.extend_from_slice(begun);
    lines.extend_from_slice(rest);
    // A terminal ends lines with both.
    if tag == "F" && begun.len() + rest.len() > 0 && lines.last() == Some(&b'\r') {
        lines.pop();
    }
    lines.push(b'\n');
}

impl LogFile {
    fn open(path: &Path, size_bytes_max: u64) -> Result<LogFile, FileError> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(FileError::of("make directory", parent))?;
        }
        let file = open_log(path).map_err(FileError::of("open log", path))?;
        let size_bytes = file.metadata().map_err(FileError::of("inspect", path))?.len();
        Ok(LogFile { path: path.to_owned(), file, size_bytes, size_bytes_max })
    }

    fn append(&mut self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if self.size_bytes > 0 && self.size_bytes + lines.len() as u64 > self.size_bytes_max {
            self.rotate();
        }
        match self.file.write_all(lines) {
            Ok(()) => self.size_bytes += lines.len() as u64,
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "container output is lost"),
        }
    }

    fn rotate(&mut self) {
        // Kubernetes' suffix, with nanoseconds because a flood fills files faster than one a second.
        let suffix = Timestamp::now().strftime("%Y%m%d-%H%M%S.%9f").to_string();
        let rotated = with_suffix(&self.path, &suffix);
        match fs::rename(&self.path, &rotated).and_then(|()| open_log(&self.path)) {
            Ok(file) => {
                self.file = file;
                self.size_bytes = 0;
            }
            Err(error) => tracing::warn!(path = %self.path.display(), %error, "failed to rotate the log"),
        }
        if let Ok(mut old) = rotated_logs(&self.path) {
            old.sort();
            let surplus = (old.len() + 1).saturating_sub(FILES_MAX);
            for path in old.iter().take(surplus) {
                // It is tried again at the next rotation.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The files that a log was rotated to.
fn rotated_logs(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes a log and what it was rotated to.
pub(crate) fn remove_logs(path: &Path) -> Result<(), FileError> {
    let rotated = match rotated_logs(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(FileError::of("list", path)(error)),
        rotated => rotated.unwrap_or_default(),
    };
    for path in rotated.iter().map(PathBuf::as_path).chain([path]) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(FileError::of("remove", path)(error)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    /// The lines of the log without their times.
    fn lines(path: &Path) -> std::result::Result<Vec<String>, Box<dyn std::error::Error>> {
        let text = fs::read_to_string(path)?;
        text.lines()
            .map(|line| {
                let (time, rest) = line.split_once(' ').ok_or("no space")?;
                time.parse::<Timestamp>()?;
                Ok(rest.to_owned())
            })
            .collect()
    }

    #[test]
    fn lines_are_full_at_a_newline_and_partial_at_the_end() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("app/0.log");
        let mut log = LogWriter::open(Some(&path))?;
        log.write(OutputStream::Stdout, b"one\ntw");
        log.write(OutputStream::Stderr, b"err\r\n\n");
        log.write(OutputStream::Stdout, b"o\nthree");
        log.finish();
        assert_eq!(lines(&path)?, ["stdout F one", "stderr F err", "stderr F ", "stdout F two", "stdout P three"]);
        Ok(())
    }

    #[test]
    fn a_line_without_end_is_cut_at_16_kib() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        let mut log = LogWriter::open(Some(&path))?;
        for _ in 0..3 {
            log.write(OutputStream::Stdout, &[b'x'; 10_000]);
        }
        log.write(OutputStream::Stdout, b"\n");
        log.write(OutputStream::Stdout, &[b'y'; LINE_BYTES_MAX]);
        log.write(OutputStream::Stdout, b"\n");
        let shapes: Vec<String> = lines(&path)?
            .iter()
            .map(|line| format!("{} {}", line.chars().take(9).collect::<String>(), line.len() - 9))
            .collect();
        assert_eq!(shapes, ["stdout P  16384", "stdout F  13616", "stdout F  16384"]);
        Ok(())
    }

    #[test]
    fn a_log_is_rotated_by_size_and_the_oldest_files_go() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        let mut log = LogWriter { file: Some(LogFile::open(&path, 100)?), begun: [Vec::new(), Vec::new()] };
        for index in 0..20 {
            log.write(OutputStream::Stdout, format!("{index:020}\n").as_bytes());
        }
        let rotated = rotated_logs(&path)?;
        assert_eq!((rotated.len(), lines(&path)?), (FILES_MAX - 1, vec!["stdout F 00000000000000000019".to_owned()]));
        remove_logs(&path)?;
        assert_eq!(fs::read_dir(directory.path())?.count(), 0);
        Ok(())
    }
}
