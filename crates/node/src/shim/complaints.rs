//! What the shim and libcontainer complain of, in a file beside the sandbox.
//!
//! libcontainer's errors leave out their causes ("failed to prepare rootfs"); its events have them.
//! They come from its forked processes too, which share nothing with the shim but this file.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// A log of complaints is not to fill the disk.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// What is quoted of it in an error.
const QUOTE_BYTES_MAX: u64 = 64 * 1024;

/// The file, to be read again when something failed.
pub(crate) struct Complaints {
    file: File,
}

/// A place in the file.
#[derive(Clone, Copy)]
pub(crate) struct Mark(u64);

impl Complaints {
    /// Opens the file and sends all warnings and errors of this process and its children there.
    pub(crate) fn collect(path: &Path) -> io::Result<Complaints> {
        let file = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let writer = ComplaintWriter { file: file.try_clone()?, next_span: AtomicU64::new(1) };
        // Only the first subscriber of a process counts; there is no other.
        let _ = tracing::subscriber::set_global_default(writer);
        Ok(Complaints { file })
    }

    /// Where the file ends.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.file.metadata().map_or(0, |metadata| metadata.len()))
    }

    /// An error's text with all its causes, and with the last complaint since the mark if that says more.
    pub(crate) fn explain(&self, mark: Mark, error: &dyn std::error::Error) -> String {
        let text = with_causes(error);
        // What the container's own program lacks is said already, in the words that users know.
        if let Some(start) = text.find("exec: \"") {
            return text.get(start..).unwrap_or(&text).to_owned();
        }
        match self.first_error_since(mark) {
            Some(complaint) if !text.contains(&complaint) => format!("{text} ({complaint})"),
            _ => text,
        }
    }

    /// The first error is the cause, what follows are its echoes.
    fn first_error_since(&self, mark: Mark) -> Option<String> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(mark.0)).ok()?;
        let mut bytes = Vec::new();
        file.take(QUOTE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.lines().find_map(|line| line.split_once(" ERROR ")).map(|(_, complaint)| complaint.to_owned())
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            // A String takes everything.
            let _ = write!(text, ": {said}");
        }
        cause = error.source();
    }
    text
}

/// Writes warnings and errors, one line each.
struct ComplaintWriter {
    file: File,
    next_span: AtomicU64,
}

impl Subscriber for ComplaintWriter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(self.next_span.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if self.file.metadata().is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
            return;
        }
        let mut fields = Fields { message: String::new(), rest: String::new() };
        event.record(&mut fields);
        let level = event.metadata().level();
        let line = format!("{:.3} {level} {}{}\n", Timestamp::now(), fields.message, fields.rest).replace("\n ", " ");
        // There is nowhere to complain about complaints.
        let _ = (&self.file).write_all(line.as_bytes());
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

struct Fields {
    message: String,
    rest: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A String takes everything.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.rest, " {}={value:?}", field.name())
        };
    }
}
