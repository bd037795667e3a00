//! A value of a manifest and where it stands.

use serde_json::{Map, Number, Value};

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
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: NodeKind,
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
    /// A map in the order in which it was written; no two keys are equal.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl NodeKind {
    /// What it is, for people.
    pub fn describe(&self) -> &'static str {
        match self {
            NodeKind::Null => "nothing",
            NodeKind::Bool(_) => "a boolean",
            NodeKind::Number(_) => "a number",
            NodeKind::Text(_) => "a string",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "an object",
        }
    }
}

impl Node {
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
