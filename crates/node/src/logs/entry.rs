//! One line of a log file in the CRI format: `2016-10-06T00:17:09.669794202Z stdout F text`.
//!
//! Pure: bytes in, an entry out. A line that is none is an error that the reader skips, as the kubelet does.

use jiff::Timestamp;

/// Which of its two outputs a container wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output; all of a terminal's output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// As it stands in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it was written.
    pub timestamp: Timestamp,
    /// Where it was written to.
    pub stream: Stream,
    /// True if the container ended the line here; false if the next entry goes on with it.
    pub is_full: bool,
    /// What was written, without the end of the line.
    pub content: Vec<u8>,
}

/// Why a line is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// A space is missing.
    #[error("{0} is not found")]
    Missing(&'static str),
    /// The first word is no time in RFC 3339.
    #[error("the timestamp is not in RFC 3339")]
    Timestamp,
    /// The second word is neither `stdout` nor `stderr`.
    #[error("the stream is neither `stdout` nor `stderr`")]
    Stream,
}

impl LogEntry {
    /// Reads a line, given with or without its end.
    pub fn parse(line: &[u8]) -> Result<LogEntry, EntryError> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (timestamp, rest) = split(line).ok_or(EntryError::Missing("timestamp"))?;
        let (stream, rest) = split(rest).ok_or(EntryError::Missing("stream type"))?;
        let (tags, content) = split(rest).ok_or(EntryError::Missing("log tag"))?;
        let timestamp = std::str::from_utf8(timestamp).ok().and_then(|text| text.parse().ok());
        // More tags may follow a colon one day; the first says whether the line is whole.
        let partial = tags == b"P" || tags.starts_with(b"P:");
        Ok(LogEntry {
            timestamp: timestamp.ok_or(EntryError::Timestamp)?,
            stream: match stream {
                b"stdout" => Stream::Stdout,
                b"stderr" => Stream::Stderr,
                _ => return Err(EntryError::Stream),
            },
            is_full: !partial,
            content: content.to_vec(),
        })
    }

    /// The output itself, with the end of the line if it has one.
    pub fn output(&self) -> Vec<u8> {
        let mut output = self.content.clone();
        if self.is_full {
            output.push(b'\n');
        }
        output
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = line.split_at(space);
    Some((word, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn entry(stream: Stream, is_full: bool, content: &[u8]) -> std::result::Result<LogEntry, jiff::Error> {
        let timestamp = "2016-10-06T00:17:09.669794202Z".parse()?;
        Ok(LogEntry { timestamp, stream, is_full, content: content.to_vec() })
    }

    #[test]
    fn full_and_partial_lines_are_read() -> Result {
        let cases: [(&[u8], LogEntry); 6] = [
            (b"2016-10-06T00:17:09.669794202Z stdout F a b \n", entry(Stream::Stdout, true, b"a b ")?),
            (b"2016-10-06T00:17:09.669794202Z stderr P half\n", entry(Stream::Stderr, false, b"half")?),
            (b"2016-10-06T00:17:09.669794202Z stdout P:X half", entry(Stream::Stdout, false, b"half")?),
            (b"2016-10-06T00:17:09.669794202Z stdout F:P x", entry(Stream::Stdout, true, b"x")?),
            (b"2016-10-06T00:17:09.669794202Z stdout F \n", entry(Stream::Stdout, true, b"")?),
            (b"2016-10-06T02:17:09.669794202+02:00 stdout F \xff", entry(Stream::Stdout, true, b"\xff")?),
        ];
        for (line, expected) in cases {
            assert_eq!(LogEntry::parse(line)?, expected);
        }
        Ok(())
    }

    #[test]
    fn a_line_that_is_no_entry_is_refused() {
        let cases: [(&[u8], EntryError); 6] = [
            (b"", EntryError::Missing("timestamp")),
            (b"2016-10-06T00:17:09.669794202Z ", EntryError::Missing("stream type")),
            (b"2016-10-06T00:17:09.669794202Z stdout F", EntryError::Missing("log tag")),
            (b"yesterday stdout F x", EntryError::Timestamp),
            (b"\xff\xff stdout F x", EntryError::Timestamp),
            (b"2016-10-06T00:17:09.669794202Z stdin F x", EntryError::Stream),
        ];
        for (line, expected) in cases {
            assert_eq!(LogEntry::parse(line), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let read = LogEntry::parse(&line);
            prop_assert!(read.is_ok() || read.is_err());
        }

        #[test]
        fn what_a_container_wrote_comes_back(content in proptest::collection::vec(any::<u8>(), 0..200), is_full: bool) {
            let content: Vec<u8> = content.into_iter().filter(|byte| *byte != b'\n').collect();
            let mut line = format!("2016-10-06T00:17:09Z stderr {} ", if is_full { 'F' } else { 'P' }).into_bytes();
            line.extend_from_slice(&content);
            let read = LogEntry::parse(&line);
            prop_assert_eq!(read.map(|entry| (entry.is_full, entry.content)), Ok((is_full, content)));
        }
    }
}
