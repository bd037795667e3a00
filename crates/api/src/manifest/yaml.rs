//! YAML text to nodes: anchors, aliases, merge keys, and every limit that hostile text needs.

use std::collections::BTreeMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::diagnostic::Diagnostic;
use super::node::{Entry, Node, NodeKind, Position, Span};
use super::scalar;

/// Values that a document may have once its aliases are unfolded.
const VALUES_MAX: usize = 1_000_000;
/// How deep values may be nested.
const DEPTH_MAX: usize = 100;
/// A larger text is no manifest; the API server takes 3 MiB.
const BYTES_MAX: usize = 64 << 20;

/// Reads all documents of a text; what can't be read comes as diagnostics.
pub(super) fn parse(file: &str, text: &str) -> (Vec<Node>, Vec<Diagnostic>) {
    if text.len() > BYTES_MAX {
        let message = format!("the file has {} bytes, and at most {BYTES_MAX} are read", text.len());
        return (Vec::new(), vec![Diagnostic::error(file, message).hint("split it into several files")]);
    }
    // A document that says it is JSON is read by JSON's rules, which differ in strings.
    if text.trim_start().starts_with('{')
        && !serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>().all(|one| one.is_ok())
    {
        return broken_json(file, text);
    }
    let mut reader = Reader { file, text, documents: Vec::new(), builder: Builder::default() };
    match reader.read_all() {
        Ok(()) => (reader.documents, Vec::new()),
        Err(diagnostic) => (reader.documents, vec![*diagnostic]),
    }
}

/// YAML in braces is no error; only what neither reads is.
fn broken_json(file: &str, text: &str) -> (Vec<Node>, Vec<Diagnostic>) {
    let mut reader = Reader { file, text, documents: Vec::new(), builder: Builder::default() };
    match reader.read_all() {
        Ok(()) => (reader.documents, Vec::new()),
        Err(diagnostic) => (Vec::new(), vec![*diagnostic]),
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    documents: Vec<Node>,
    builder: Builder,
}

type Failure = Box<Diagnostic>;

impl Reader<'_> {
    fn read_all(&mut self) -> Result<(), Failure> {
        let text = self.text;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| self.syntax_error(&error))?;
            self.take(event, span_of(&span))?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Failure> {
        match event {
            Event::DocumentStart(..) => self.builder = Builder::default(),
            Event::DocumentEnd => {
                // A document with nothing in it is no object, as `---` at the end of a file.
                self.documents.extend(self.builder.root.take().filter(|node| node.kind != NodeKind::Null));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = self.scalar(&text, style, tag.as_deref(), span)?;
                self.add(Node { span, kind }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => self.open(Open::List(Vec::new()), anchor, span)?,
            Event::MappingStart(_, anchor, _) => self.open(Open::Map(Vec::new(), None), anchor, span)?,
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            Event::Alias(anchor) => {
                let target = self.builder.anchors.get(&anchor).cloned();
                let node = target.ok_or_else(|| self.error(span, "an alias of a value that it is part of"))?;
                self.builder.values += count(&node);
                self.check_size(span)?;
                self.add(Node { span, ..node }, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<NodeKind, Failure> {
        let is_text = tag.is_some_and(|tag| matches!(tag.core_suffix(), Some("str" | "binary" | "timestamp")));
        if is_text || (style != ScalarStyle::Plain && tag.is_none()) {
            return Ok(NodeKind::Text(text.to_owned()));
        }
        scalar::resolve(text).ok_or_else(|| {
            let message = format!("`{text}` is a number that JSON has no word for");
            Box::new(Diagnostic::error(self.file, message).at(span).hint("put it in quotes if it is a text"))
        })
    }

    fn open(&mut self, open: Open, anchor: usize, span: Span) -> Result<(), Failure> {
        if self.builder.open.len() >= DEPTH_MAX {
            return Err(self.error(span, &format!("values are nested deeper than {DEPTH_MAX}")));
        }
        self.builder.open.push((open, anchor, span));
        Ok(())
    }

    fn close(&mut self, end: Span) -> Result<(), Failure> {
        let Some((open, anchor, start)) = self.builder.open.pop() else { return Ok(()) };
        let kind = match open {
            Open::List(elements) => NodeKind::List(elements),
            Open::Map(entries, _) => NodeKind::Map(self.merged(entries)?),
        };
        self.add(Node { span: Span { start: start.start, end: end.end }, kind }, anchor)
    }

    /// Puts a value where it belongs: into the innermost open list or map, or at the root.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Failure> {
        self.builder.values += 1;
        self.check_size(node.span)?;
        if anchor != 0 {
            self.builder.anchors.insert(anchor, node.clone());
        }
        let mut duplicate = None;
        match self.builder.open.last_mut() {
            None => self.builder.root = Some(node),
            Some((Open::List(elements), ..)) => elements.push(node),
            Some((Open::Map(entries, key), ..)) => match key.take() {
                None => *key = Some((key_text(&node), node.span)),
                Some((key, key_span)) => {
                    let entry = Entry { key, key_span, value: node };
                    duplicate = entries.iter().find(|other| other.key == entry.key && other.key != "<<").cloned();
                    entries.push(entry);
                }
            },
        }
        match duplicate {
            Some(first) => Err(self.duplicate(&first)),
            None => Ok(()),
        }
    }

    /// The entries of a map with `<<` unfolded: own keys win over merged ones, earlier ones over later ones.
    fn merged(&self, entries: Vec<Entry>) -> Result<Vec<Entry>, Failure> {
        let (merges, mut own): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.key == "<<");
        for merge in merges {
            let sources = match &merge.value.kind {
                NodeKind::Map(_) => std::slice::from_ref(&merge.value),
                NodeKind::List(elements) => elements,
                _ => return Err(self.error(merge.value.span, "a merge key needs a map or a list of maps")),
            };
            for entry in sources.iter().flat_map(Node::entries) {
                if !own.iter().any(|other| other.key == entry.key) {
                    own.push(entry.clone());
                }
            }
        }
        Ok(own)
    }

    fn check_size(&self, span: Span) -> Result<(), Failure> {
        if self.builder.values > VALUES_MAX {
            return Err(self.error(span, &format!("a document has more than {VALUES_MAX} values")));
        }
        Ok(())
    }

    fn error(&self, span: Span, message: &str) -> Failure {
        Box::new(Diagnostic::error(self.file, message).at(span))
    }

    fn duplicate(&self, first: &Entry) -> Failure {
        let again = self.builder.open.last().and_then(|(open, ..)| match open {
            Open::Map(entries, _) => entries.last().map(|entry| entry.key_span),
            Open::List(_) => None,
        });
        let message =
            format!("key `{}` is written twice in one map, first in line {}", first.key, first.key_span.start.line);
        Box::new(
            Diagnostic::error(self.file, message)
                .at(again.unwrap_or(first.key_span))
                .hint("remove one of the two: only one value can hold"),
        )
    }

    /// What the parser could not read, and why people write it so.
    fn syntax_error(&self, error: &granit_parser::ScanError) -> Failure {
        let at = position(error.marker());
        if let Some(tab) = tab_before(self.text, at.line) {
            let message = "a tab is used for indentation, and YAML is indented with spaces only";
            return Box::new(
                Diagnostic::error(self.file, message)
                    .at(tab)
                    .hint("replace the tab by spaces, as many as the lines around it have"),
            );
        }
        let span = Span { start: at, end: at };
        let diagnostic = Diagnostic::error(self.file, format!("broken YAML: {}", error.info())).at(span);
        Box::new(diagnostic.hint("look at this line and the one before it: brackets, quotes, colons, indentation"))
    }
}

/// What is being built of a document.
#[derive(Default)]
struct Builder {
    root: Option<Node>,
    /// Lists and maps that are not yet closed, with their anchor and their place.
    open: Vec<(Open, usize, Span)>,
    anchors: BTreeMap<usize, Node>,
    values: usize,
}

enum Open {
    List(Vec<Node>),
    /// Entries, and a key that waits for its value.
    Map(Vec<Entry>, Option<(String, Span)>),
}

/// A key as JSON has it: always text.
fn key_text(node: &Node) -> String {
    match &node.kind {
        NodeKind::Text(text) => text.clone(),
        NodeKind::Null => "null".to_owned(),
        _ => node.to_json().to_string(),
    }
}

fn count(node: &Node) -> usize {
    let below: usize = node.entries().iter().map(|entry| count(&entry.value)).sum();
    1 + below + node.elements().iter().map(count).sum::<usize>()
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
