//! What a reader of logs is shown: entries in, bytes out, as `kubectl logs` prints them.
//!
//! Pure. Pieces of one line are joined, as the kubelet joins them.

use jiff::Timestamp;

use super::entry::{LogEntry, Stream};

/// What to show of a log (`PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Go on until the container has ended.
    pub follow: bool,
    /// Begin that many lines before the end.
    pub tail_lines: Option<u64>,
    /// Leave out what is older.
    pub since: Option<Timestamp>,
    /// End after that many bytes, timestamps included.
    pub limit_bytes: Option<u64>,
    /// Lead each line with its time.
    pub timestamps: bool,
    /// Show one output only.
    pub stream: Option<Stream>,
}

/// Turns entries into bytes by the options.
#[derive(Clone, Debug)]
pub struct Renderer {
    options: LogOptions,
    remaining: u64,
    at_line_start: bool,
}

impl Renderer {
    /// A renderer that has shown nothing yet.
    pub fn new(options: &LogOptions) -> Self {
        let remaining = options.limit_bytes.unwrap_or(u64::MAX);
        Renderer { options: options.clone(), remaining, at_line_start: true }
    }

    /// True once the limit is reached; whatever follows renders to nothing.
    pub fn is_exhausted(&self) -> bool {
        self.remaining == 0
    }

    /// Appends what is shown of the entry.
    pub fn render(&mut self, entry: &LogEntry, into: &mut Vec<u8>) {
        let starts_line = std::mem::replace(&mut self.at_line_start, entry.is_full);
        let is_old = self.options.since.is_some_and(|since| entry.timestamp < since);
        if is_old || self.options.stream.is_some_and(|stream| stream != entry.stream) {
            return;
        }
        if self.options.timestamps && starts_line {
            self.push(format!("{:.9} ", entry.timestamp).as_bytes(), into);
        }
        self.push(&entry.output(), into);
    }

    fn push(&mut self, bytes: &[u8], into: &mut Vec<u8>) {
        let room = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let shown = bytes.get(..room).unwrap_or(bytes);
        into.extend_from_slice(shown);
        self.remaining = self.remaining.saturating_sub(shown.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn check(options: &LogOptions, lines: &[&str], expected: &str) -> Result {
        let mut renderer = Renderer::new(options);
        let mut shown = Vec::new();
        for line in lines {
            renderer.render(&LogEntry::parse(line.as_bytes())?, &mut shown);
        }
        assert_eq!(String::from_utf8(shown)?, expected);
        Ok(())
    }

    const LINES: [&str; 4] = [
        "2026-01-01T00:00:01.5Z stdout F one",
        "2026-01-01T00:00:02Z stdout P tw",
        "2026-01-01T00:00:02.1Z stdout F o",
        "2026-01-01T00:00:03Z stderr F three",
    ];

    #[test]
    fn pieces_of_a_line_are_joined() -> Result {
        check(&LogOptions::default(), &LINES, "one\ntwo\nthree\n")
    }

    #[test]
    fn a_timestamp_of_nine_digits_leads_each_line_once() -> Result {
        let options = LogOptions { timestamps: true, ..LogOptions::default() };
        let expected = "2026-01-01T00:00:01.500000000Z one\n2026-01-01T00:00:02.000000000Z two\n\
                        2026-01-01T00:00:03.000000000Z three\n";
        check(&options, &LINES, expected)
    }

    #[test]
    fn what_is_older_than_since_is_left_out() -> Result {
        let options = LogOptions { since: Some("2026-01-01T00:00:03Z".parse()?), ..LogOptions::default() };
        check(&options, &LINES, "three\n")
    }

    #[test]
    fn the_limit_cuts_within_a_line() -> Result {
        let options = LogOptions { limit_bytes: Some(6), ..LogOptions::default() };
        check(&options, &LINES, "one\ntw")
    }

    #[test]
    fn a_limit_of_zero_shows_nothing() -> Result {
        check(&LogOptions { limit_bytes: Some(0), ..LogOptions::default() }, &LINES, "")
    }

    #[test]
    fn one_output_can_be_chosen() -> Result {
        check(&LogOptions { stream: Some(Stream::Stderr), ..LogOptions::default() }, &LINES, "three\n")
    }
}
