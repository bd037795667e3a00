//! YAML text to nodes, event by event. What is built of the events is in `build`.
//!
//! A document that can't be read does not keep the next ones from being read.

use granit_parser::{ErrorKind, Event, Marker, Parser, Placement, ScalarStyle, StrInput, StructureStyle, Tag};

use super::build::Builder;
use super::diagnostic::Diagnostic;
use super::node::{Node, NodeKind, Position, Span, Style};
use super::scalar::{self, Wanted};
use super::{Comment, CommentPlace};

/// Errors of one file after which the rest of it is not looked at.
const ERRORS_MAX: usize = 20;

/// What a text holds.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The documents that could be read, without empty ones.
    pub(super) documents: Vec<Document>,
    /// What could not be read.
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// A document: its value, and the comments above and in it.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) node: Node,
    pub(super) comments: Vec<Comment>,
}

/// Reads all documents of a text.
pub(super) fn parse(file: &str, text: &str) -> Read {
    let options = granit_parser::options! {
        // Long headers of comments are common, and each comment is small.
        max_buffered_comment_events: usize::MAX,
    };
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut reader =
        Reader { file, text, builder: Builder::new(file), last_byte: 0, comments: Vec::new(), read: Read::default() };
    loop {
        match reader.read_documents(&mut parser) {
            Ok(()) => return reader.read,
            Err(diagnostic) => reader.read.diagnostics.push(*diagnostic),
        }
        reader.read.diagnostics.append(&mut reader.builder.diagnostics);
        reader.builder = Builder::new(file);
        reader.comments.clear();
        let goes_on = matches!(parser.proceed_next_document(), Ok(true));
        if !goes_on || reader.read.diagnostics.len() >= ERRORS_MAX {
            return reader.read;
        }
    }
}

/// Diagnostics are large, and errors are rare.
pub(super) type Failure = Box<Diagnostic>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    builder: Builder<'a>,
    /// Where the last event ended: the sign of a block scalar lies behind it.
    last_byte: usize,
    /// The comments since the last document.
    comments: Vec<Comment>,
    read: Read,
}

impl<'a> Reader<'a> {
    fn read_documents(&mut self, parser: &mut Parser<'a, StrInput<'a>>) -> Result<(), Failure> {
        for event in parser {
            let (event, span) = event.map_err(|error| self.syntax_error(&error))?;
            let span = span_of(&span);
            let is_comment = matches!(event, Event::Comment(..));
            self.take(event, span)?;
            if !is_comment {
                self.last_byte = span.end.byte;
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Failure> {
        match event {
            Event::DocumentStart(..) => self.builder = Builder::new(self.file),
            Event::DocumentEnd => {
                self.read.diagnostics.append(&mut self.builder.diagnostics);
                // A document with nothing in it is no object, as `---` at the end of a file.
                let comments = std::mem::take(&mut self.comments);
                let node = self.builder.root.take().filter(|node| node.kind != NodeKind::Null);
                self.read.documents.extend(node.map(|node| Document { node, comments }));
            }
            Event::Comment(text, placement) => {
                let place = match placement {
                    Placement::Right => CommentPlace::Right,
                    _ => CommentPlace::OwnLine,
                };
                self.comments.push(Comment { span, text: text.into_owned(), place });
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.meaning(&text, style, tag.as_deref(), span)?;
                let (span, style) = self.extent(span, style);
                self.builder.add(Node { span, style, kind }, anchor)?;
            }
            Event::SequenceStart(style, anchor, _) => self.builder.open_list(anchor, span, style_of(style))?,
            Event::MappingStart(style, anchor, _) => self.builder.open_map(anchor, span, style_of(style))?,
            Event::SequenceEnd | Event::MappingEnd => self.builder.close(span)?,
            Event::Alias(anchor) => self.builder.add_alias(anchor, span)?,
            _ => {}
        }
        Ok(())
    }

    fn meaning(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<NodeKind, Failure> {
        if tag.is_none() && style != ScalarStyle::Plain {
            return Ok(NodeKind::Text(text.to_owned()));
        }
        let wanted = match tag.map(yaml_tag) {
            None => Wanted::Anything,
            Some(Some("bool")) => Wanted::Bool,
            Some(Some("int")) => Wanted::Int,
            Some(Some("float")) => Wanted::Float,
            Some(Some("null")) => Wanted::Null,
            Some(Some("binary")) => Wanted::Binary,
            Some(_) => Wanted::Text,
        };
        // The parser writes a tilde for a value that is not there.
        let text = if span.start == span.end { "" } else { text };
        scalar::resolve(text, wanted).map_err(|error| {
            let hint = "put it in quotes and remove its tag, if it is a text";
            Box::new(Diagnostic::error(self.file, error.to_string()).at(span).hint(hint))
        })
    }

    /// Where a scalar really stands: the parser begins a block scalar at its first line, and ends it at the next token.
    fn extent(&self, span: Span, style: ScalarStyle) -> (Span, Style) {
        let (style, sign) = match style {
            ScalarStyle::SingleQuoted => return (span, Style::SingleQuoted),
            ScalarStyle::DoubleQuoted => return (span, Style::DoubleQuoted),
            ScalarStyle::Literal => (Style::Literal, '|'),
            ScalarStyle::Folded => (Style::Folded, '>'),
            _ => return (span, Style::Plain),
        };
        let before = self.text.get(self.last_byte..span.start.byte).unwrap_or_default();
        let start = before.find(sign).map_or(span.start, |offset| back(self.text, span.start, self.last_byte + offset));
        let content = self.text.get(start.byte..span.end.byte).unwrap_or_default().trim_end();
        (Span { start, end: forth(start, content) }, style)
    }

    /// What the parser could not read, and why people write it so.
    fn syntax_error(&self, error: &granit_parser::ScanError) -> Failure {
        let at = position(error.marker());
        if let Some(tab) = tab_before(self.text, at.line) {
            let message = "a tab is used for indentation, and YAML is indented with spaces only";
            let hint = "replace the tab by spaces, as many as the lines around it have";
            return Box::new(Diagnostic::error(self.file, message).at(tab).hint(hint));
        }
        let hint = match error.kind() {
            ErrorKind::UnknownAnchor => {
                "write `&name` before the value that `*name` means, further up in the same document"
            }
            _ => "look at this line and the one before it: brackets, quotes, colons, indentation",
        };
        let span = Span { start: at, end: at };
        Box::new(Diagnostic::error(self.file, format!("broken YAML: {}", error.info())).at(span).hint(hint))
    }
}

/// The name of one of YAML's own tags.
fn yaml_tag(tag: &Tag) -> Option<&str> {
    tag.core_suffix().or_else(|| (tag.handle() == "tag:yaml.org,2002:").then(|| tag.suffix()))
}

fn style_of(style: StructureStyle) -> Style {
    match style {
        StructureStyle::Flow => Style::Flow,
        _ => Style::Block,
    }
}

/// A tab in the indentation of a line or of the one before it.
fn tab_before(text: &str, line: usize) -> Option<Span> {
    let mut byte = 0;
    for (number, content) in (1..).zip(text.split_inclusive('\n')) {
        if number + 1 >= line && number <= line {
            let indentation = content.len() - content.trim_start_matches([' ', '\t']).len();
            if let Some(tab) = content.get(..indentation).and_then(|indentation| indentation.find('\t')) {
                let start = Position { byte: byte + tab, line: number, column: tab + 1 };
                return Some(Span { start, end: Position { byte: start.byte + 1, column: start.column + 1, ..start } });
            }
        }
        byte += content.len();
    }
    None
}

/// The position of a byte before another position.
fn back(text: &str, from: Position, byte: usize) -> Position {
    let lines = text.get(byte..from.byte).unwrap_or_default().matches('\n').count();
    let before = text.get(..byte).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = 1 + before.get(line_start..).unwrap_or_default().chars().count();
    Position { byte, line: from.line - lines.min(from.line - 1), column }
}

/// The position behind a text that begins at a position.
pub(super) fn forth(from: Position, text: &str) -> Position {
    let byte = from.byte + text.len();
    match text.rsplit_once('\n') {
        Some((_, last)) => {
            Position { byte, line: from.line + text.matches('\n').count(), column: 1 + last.chars().count() }
        }
        None => Position { byte, column: from.column + text.chars().count(), ..from },
    }
}

fn span_of(span: &granit_parser::Span) -> Span {
    Span { start: position(&span.start), end: position(&span.end) }
}

fn position(marker: &Marker) -> Position {
    Position {
        byte: marker.byte_offset().unwrap_or_else(|| marker.index()),
        line: marker.line(),
        column: marker.col() + 1,
    }
}
