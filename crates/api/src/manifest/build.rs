//! Builds one document's tree: anchors, aliases, merge keys, and every limit that hostile text needs.
//!
//! Merge keys and keys are read as kubectl reads them, but for keys that stand twice: one of the two would be lost without a word.

use std::collections::BTreeMap;

use super::diagnostic::Diagnostic;
use super::node::{Entry, Node, NodeKind, Position, Span, Style};
use super::yaml::Failure;

/// Values that a document may have once its aliases are unfolded.
const VALUES_MAX: usize = 1_000_000;
/// Values that all anchors together may stand for: each one is kept for its aliases.
const ANCHORED_MAX: usize = 1_000_000;
/// How deep values may be nested.
const DEPTH_MAX: usize = 100;

/// The tree of a document as far as it has been read.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    file: &'a str,
    /// The value of the whole document.
    pub(super) root: Option<Node>,
    /// What is wrong, yet does not keep the document from being read.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Lists and maps that are not yet closed.
    open: Vec<Open>,
    anchors: BTreeMap<usize, Anchored>,
    anchored_values: usize,
    values: usize,
}

/// What an anchor stands for, with the number of values in it and its depth.
#[derive(Debug)]
struct Anchored {
    node: Node,
    values: usize,
    depth: usize,
}

/// A list or map that is not yet closed.
#[derive(Debug)]
struct Open {
    kind: OpenKind,
    anchor: usize,
    span: Span,
    style: Style,
    /// The number of values before it.
    values_before: usize,
    /// The depth of what is in it.
    depth_below: usize,
}

#[derive(Debug)]
enum OpenKind {
    List(Vec<Node>),
    Map(OpenMap),
}

/// Entries, where each key is among them, and a key that waits for its value.
#[derive(Debug, Default)]
struct OpenMap {
    entries: Vec<Entry>,
    places: BTreeMap<String, usize>,
    key: Option<Key>,
}

#[derive(Debug)]
struct Key {
    text: String,
    span: Span,
    is_merge: bool,
}

impl<'a> Builder<'a> {
    /// An empty document.
    pub(super) fn new(file: &'a str) -> Builder<'a> {
        Builder {
            file,
            root: None,
            diagnostics: Vec::new(),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            anchored_values: 0,
            values: 0,
        }
    }

    pub(super) fn open_list(&mut self, anchor: usize, span: Span, style: Style) -> Result<(), Failure> {
        self.open(OpenKind::List(Vec::new()), anchor, span, style)
    }

    pub(super) fn open_map(&mut self, anchor: usize, span: Span, style: Style) -> Result<(), Failure> {
        self.open(OpenKind::Map(OpenMap::default()), anchor, span, style)
    }

    /// Closes the innermost list or map.
    pub(super) fn close(&mut self, end: Span) -> Result<(), Failure> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let kind = match open.kind {
            OpenKind::List(elements) => NodeKind::List(elements),
            OpenKind::Map(map) => NodeKind::Map(map.entries),
        };
        // The end of a block is where the next thing begins; its own end is that of the last value in it.
        let end = if open.style == Style::Flow { end.end } else { last_end(&kind).unwrap_or(open.span.end) };
        let node = Node { span: Span { start: open.span.start, end }, style: open.style, kind };
        let values = self.values - open.values_before + 1;
        self.place(node, open.anchor, values, open.depth_below + 1)
    }

    /// Adds a scalar.
    pub(super) fn add(&mut self, node: Node, anchor: usize) -> Result<(), Failure> {
        self.place(node, anchor, 1, 0)
    }

    /// Adds what an anchor stands for.
    pub(super) fn add_alias(&mut self, anchor: usize, span: Span) -> Result<(), Failure> {
        let Some(Anchored { node, values, depth }) = self.anchors.get(&anchor) else {
            return Err(self.error(span, "an alias of a value that it is part of").hinted("name another value"));
        };
        let (values, depth) = (*values, *depth);
        self.check_size(span, values)?;
        if self.open.len() + depth > DEPTH_MAX {
            return Err(self.too_deep(span));
        }
        let node = Node { span, style: Style::Alias, kind: node.kind.clone() };
        self.values += values - 1;
        self.place(node, 0, values, depth)
    }

    fn open(&mut self, kind: OpenKind, anchor: usize, span: Span, style: Style) -> Result<(), Failure> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.too_deep(span));
        }
        self.open.push(Open { kind, anchor, span, style, values_before: self.values, depth_below: 0 });
        Ok(())
    }

    /// Puts a value where it belongs: into the innermost open list or map, or at the root.
    fn place(&mut self, node: Node, anchor: usize, values: usize, depth: usize) -> Result<(), Failure> {
        self.check_size(node.span, 1)?;
        self.values += 1;
        if anchor != 0 {
            self.keep(anchor, Anchored { node: node.clone(), values, depth })?;
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.depth_below = open.depth_below.max(depth);
        match &mut open.kind {
            OpenKind::List(elements) => elements.push(node),
            OpenKind::Map(map) => match map.key.take() {
                None => map.key = Some(key_of(self.file, &node)?),
                Some(key) if key.is_merge => map.merge(self.file, &node)?,
                Some(key) => self.diagnostics.extend(map.insert(self.file, key, node)),
            },
        }
        Ok(())
    }

    /// Keeps a value for the aliases of its anchor.
    fn keep(&mut self, anchor: usize, anchored: Anchored) -> Result<(), Failure> {
        self.anchored_values += anchored.values;
        if self.anchored_values > ANCHORED_MAX {
            let message = format!("the anchors of a document stand for more than {ANCHORED_MAX} values");
            return Err(self.error(anchored.node.span, &message).hinted("put anchors at smaller values only"));
        }
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn check_size(&self, span: Span, more: usize) -> Result<(), Failure> {
        if self.values.saturating_add(more) <= VALUES_MAX {
            return Ok(());
        }
        let message = format!("a document has more than {VALUES_MAX} values");
        Err(self.error(span, &message).hinted("split it, and use fewer aliases of large values"))
    }

    fn too_deep(&self, span: Span) -> Failure {
        let message = format!("values are nested deeper than {DEPTH_MAX}");
        self.error(span, &message).hinted("no Kubernetes object is so deep: look at the indentation")
    }

    fn error(&self, span: Span, message: &str) -> Failure {
        Box::new(Diagnostic::error(self.file, message).at(span))
    }
}

/// Adds what to do to an error.
trait Hinted {
    fn hinted(self, hint: &str) -> Failure;
}

impl Hinted for Failure {
    fn hinted(self, hint: &str) -> Failure {
        Box::new(self.hint(hint))
    }
}

/// A key as JSON has it: always text.
fn key_of(file: &str, node: &Node) -> Result<Key, Failure> {
    let text = match &node.kind {
        NodeKind::Text(text) => text.clone(),
        NodeKind::Bool(value) => value.to_string(),
        NodeKind::Number(number) => number.to_string(),
        NodeKind::Null | NodeKind::List(_) | NodeKind::Map(_) => {
            let message = format!("the key of an entry must be a text, found {}", node.describe());
            let hint = "write a name before the colon, in quotes if need be";
            return Err(Box::new(Diagnostic::error(file, message).at(node.span)).hinted(hint));
        }
    };
    let is_merge = text == "<<" && node.style == Style::Plain;
    Ok(Key { text, span: node.span, is_merge })
}

impl OpenMap {
    /// Adds an entry; one whose key is there already is told, and takes the first one's place as in kubectl.
    fn insert(&mut self, file: &str, key: Key, value: Node) -> Option<Diagnostic> {
        let first = self.put(Entry { key: key.text, key_span: key.span, is_merged: false, value })?;
        if first.is_merged {
            return None;
        }
        let message = format!("key `{}` is written twice in one map", first.key);
        let diagnostic =
            Diagnostic::error(file, message).at(key.span).note("the first one is here", Some(first.key_span));
        Some(diagnostic.hint("remove one of the two: only one value can hold"))
    }

    /// Unfolds a merge key: its entries win over those before it, and those of an earlier map in its list over later ones.
    fn merge(&mut self, file: &str, value: &Node) -> Result<(), Failure> {
        let sources = match &value.kind {
            NodeKind::Map(_) => std::slice::from_ref(value),
            NodeKind::List(elements) => elements,
            _ => &[],
        };
        if sources.is_empty() || !sources.iter().all(|source| matches!(source.kind, NodeKind::Map(_))) {
            let message = format!("a merge key needs a map or a list of maps, found {}", value.describe());
            let diagnostic = Diagnostic::error(file, message).at(value.span);
            return Err(Box::new(diagnostic).hinted("write `<<: *name` with the name of a map"));
        }
        for entry in sources.iter().rev().flat_map(Node::entries) {
            self.put(Entry { is_merged: true, ..entry.clone() });
        }
        Ok(())
    }

    /// Puts an entry in the place of the one with the same key, which it returns, or at the end.
    fn put(&mut self, entry: Entry) -> Option<Entry> {
        if let Some(first) = self.places.get(&entry.key).and_then(|place| self.entries.get_mut(*place)) {
            return Some(std::mem::replace(first, entry));
        }
        self.places.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
        None
    }
}

/// Where the last value of a list or map ends; an empty value ends behind its key.
fn last_end(kind: &NodeKind) -> Option<Position> {
    match kind {
        NodeKind::List(elements) => elements.last().map(|element| element.span.end),
        NodeKind::Map(entries) => {
            let written = entries.iter().filter(|entry| !entry.is_merged);
            written.map(|entry| entry.value.span.end.max(entry.key_span.end)).max()
        }
        _ => None,
    }
}
