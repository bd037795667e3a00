//! JSON text to nodes.
//!
//! Most JSON is YAML too, but not all: strings may hold signs that YAML forbids, and keys may be of any length.
//! As in kubectl, a text that begins with a brace is read as JSON, and as YAML only if it is none.

use serde_json::Number;

use super::build::Builder;
use super::diagnostic::Diagnostic;
use super::node::{Node, NodeKind, Position, Span, Style};
use super::yaml::{Document, Read, forth};

/// Reads all values of a text, one behind the other; `None` if it is no JSON.
pub(super) fn parse(file: &str, text: &str) -> Option<Read> {
    let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let start = Position { byte: bom, line: 1, column: 1 };
    let mut reader = Reader { text, at: start, builder: Builder::new(file) };
    reader.skip_space();
    if !reader.rest().starts_with('{') {
        return None;
    }
    let mut read = Read::default();
    while !reader.rest().is_empty() {
        match reader.value() {
            Ok(()) => {}
            Err(Stop::NoJson) => return None,
            Err(Stop::Refused(diagnostic)) => {
                read.diagnostics.push(*diagnostic);
                return Some(read);
            }
        }
        let mut builder = std::mem::replace(&mut reader.builder, Builder::new(file));
        read.diagnostics.append(&mut builder.diagnostics);
        read.documents.extend(builder.root.map(|node| Document { node, comments: Vec::new() }));
        reader.skip_space();
    }
    Some(read)
}

/// Why reading stops.
enum Stop {
    /// The text is no JSON.
    NoJson,
    /// It is, and is refused.
    Refused(Box<Diagnostic>),
}

impl From<Box<Diagnostic>> for Stop {
    fn from(diagnostic: Box<Diagnostic>) -> Stop {
        Stop::Refused(diagnostic)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: Position,
    builder: Builder<'a>,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at.byte..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.take(length);
    }

    /// Takes so many bytes, and gives them with their place.
    fn take(&mut self, length: usize) -> (&'a str, Span) {
        let taken = self.rest().get(..length).unwrap_or_default();
        let start = self.at;
        self.at = forth(start, taken);
        (taken, Span { start, end: self.at })
    }

    /// Takes a sign, if it comes next; spaces around it do not count.
    fn take_sign(&mut self, sign: char) -> Option<Span> {
        self.skip_space();
        let span = self.rest().starts_with(sign).then(|| self.take(sign.len_utf8()).1)?;
        self.skip_space();
        Some(span)
    }

    /// Reads a value; how deep it may be is bounded by the builder.
    fn value(&mut self) -> Result<(), Stop> {
        if let Some(span) = self.take_sign('{') {
            self.builder.open_map(0, span, Style::Flow)?;
            let end = self.elements('}', |reader| {
                let key = reader.string()?;
                reader.builder.add(key, 0)?;
                reader.take_sign(':').ok_or(Stop::NoJson)?;
                reader.value()
            })?;
            return Ok(self.builder.close(end)?);
        }
        if let Some(span) = self.take_sign('[') {
            self.builder.open_list(0, span, Style::Flow)?;
            let end = self.elements(']', Reader::value)?;
            return Ok(self.builder.close(end)?);
        }
        let node = if self.rest().starts_with('"') { self.string()? } else { self.word()? };
        Ok(self.builder.add(node, 0)?)
    }

    /// Reads what stands between brackets, and gives the place of the closing one.
    fn elements(&mut self, end: char, element: impl Fn(&mut Self) -> Result<(), Stop>) -> Result<Span, Stop> {
        if let Some(span) = self.take_sign(end) {
            return Ok(span);
        }
        loop {
            element(self)?;
            if let Some(span) = self.take_sign(end) {
                return Ok(span);
            }
            self.take_sign(',').ok_or(Stop::NoJson)?;
        }
    }

    fn string(&mut self) -> Result<Node, Stop> {
        let rest = self.rest();
        if !rest.starts_with('"') {
            return Err(Stop::NoJson);
        }
        let mut is_escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        let (text, span) = self.take(end.ok_or(Stop::NoJson)? + 2);
        let text = serde_json::from_str(text).map_err(|_| Stop::NoJson)?;
        Ok(Node { span, style: Style::DoubleQuoted, kind: NodeKind::Text(text) })
    }

    /// Reads a number, a boolean or null.
    fn word(&mut self) -> Result<Node, Stop> {
        let rest = self.rest();
        let length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.')).unwrap_or(rest.len());
        let (word, span) = self.take(length);
        let kind = match word {
            "null" => NodeKind::Null,
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            word => NodeKind::Number(serde_json::from_str::<Number>(word).map_err(|_| Stop::NoJson)?),
        };
        Ok(Node { span, style: Style::Plain, kind })
    }
}
