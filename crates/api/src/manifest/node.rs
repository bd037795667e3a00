//! A value of a manifest, where it stands and how it is written.

use serde_json::{Map, Number, Value};

use crate::decode::{Tree, View};

/// A place in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Offset in bytes.
    pub byte: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A range of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Its first character.
    pub start: Position,
    /// Behind its last character.
    pub end: Position,
}

impl Span {
    /// The place where the range begins.
    #[must_use]
    pub fn start_only(self) -> Span {
        Span { start: self.start, end: self.start }
    }
}

/// A value with its place.
///
/// What came in by an alias or a merge key has the place of what it came from, but for the alias itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands: without an anchor or a tag, and with the quotes, the brackets or the sign of a block scalar.
    pub span: Span,
    /// How it is written.
    pub style: Style,
    /// What it is.
    pub kind: NodeKind,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A scalar without quotes, or nothing at all.
    Plain,
    /// A scalar in single quotes.
    SingleQuoted,
    /// A scalar in double quotes.
    DoubleQuoted,
    /// A scalar after `|`.
    Literal,
    /// A scalar after `>`.
    Folded,
    /// A list or map by indentation.
    Block,
    /// A list or map in brackets.
    Flow,
    /// A name of something written elsewhere: `*name`.
    Alias,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order in which it was written, with merge keys unfolded; no two keys are equal.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// True if it is not written in this map: a merge key (`<<`) brought it in, or it follows from the list around it.
    pub is_merged: bool,
    /// The value.
    pub value: Node,
}

impl Entry {
    /// An entry that nobody wrote, and that follows from the place given.
    pub(super) fn implied(key: &str, text: &str, span: Span) -> Entry {
        let value = Node { span, style: Style::Plain, kind: NodeKind::Text(text.to_owned()) };
        Entry { key: key.to_owned(), key_span: span, is_merged: true, value }
    }
}

impl Node {
    /// True for everything but lists and maps.
    pub fn is_scalar(&self) -> bool {
        !matches!(self.kind, NodeKind::List(_) | NodeKind::Map(_))
    }

    /// The entries of a map; none if it is no map.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            NodeKind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list; none if it is no list.
    pub fn elements(&self) -> &[Node] {
        match &self.kind {
            NodeKind::List(elements) => elements,
            _ => &[],
        }
    }

    /// The entry of a map.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of a map's entry.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a map's entry.
    pub fn text_at(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// What it is, for people: `a number`, `an object`.
    pub fn describe(&self) -> &'static str {
        self.view().describe()
    }

    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            NodeKind::Null => Value::Null,
            NodeKind::Bool(value) => Value::Bool(*value),
            NodeKind::Number(number) => Value::Number(number.clone()),
            NodeKind::Text(text) => Value::String(text.clone()),
            NodeKind::List(elements) => elements.iter().map(Node::to_json).collect(),
            NodeKind::Map(entries) => {
                let members: Map<String, Value> =
                    entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect();
                Value::Object(members)
            }
        }
    }
}

/// The entries of a map, as names and values.
type NodeMembers<'t> = std::iter::Map<std::slice::Iter<'t, Entry>, fn(&'t Entry) -> (&'t str, &'t Node)>;

fn member(entry: &Entry) -> (&str, &Node) {
    (&entry.key, &entry.value)
}

impl Tree for Node {
    type Members<'t> = NodeMembers<'t>;

    fn view(&self) -> View<'_, Node> {
        match &self.kind {
            NodeKind::Null => View::Null,
            NodeKind::Bool(value) => View::Bool(*value),
            NodeKind::Number(number) => View::Number(number),
            NodeKind::Text(text) => View::Text(text),
            NodeKind::List(elements) => View::List(elements),
            NodeKind::Map(entries) => View::Map(entries.iter().map(member as fn(_) -> _)),
        }
    }
}
