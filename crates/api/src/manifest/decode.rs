//! Nodes to Kubernetes' types: a deserializer that knows where everything stands.
//!
//! The types' own implementation of `Deserialize` tells the names of their fields; so unknown fields are found while decoding, with the nearest known name.

use std::cell::RefCell;
use std::fmt;

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};

use super::diagnostic::Diagnostic;
use super::node::{Entry, Node, NodeKind, Span};

/// What does not fit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) hint: Option<String>,
    /// The object could not be decoded; otherwise a field is in excess.
    pub(super) fatal: bool,
}

impl Problem {
    pub(super) fn into_diagnostic(self, file: &str) -> Diagnostic {
        let diagnostic = Diagnostic::error(file, self.message).at(self.span).field(self.path);
        match self.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// Decodes a node as a type, and finds everything that does not fit.
pub(super) fn check<T: DeserializeOwned>(node: &Node) -> Vec<Problem> {
    let problems = RefCell::new(Vec::new());
    let context = Context { problems: &problems, path: Path::default() };
    let decoded = T::deserialize(NodeDeserializer { node, context });
    let mut found = problems.into_inner();
    if let Err(mut error) = decoded {
        if error.0.span == Span::default() {
            error.0.span = node.span.start_only();
        }
        found.push(error.0);
    }
    found
}

/// Where the deserializer is, as the API server writes paths.
#[derive(Clone, Default)]
struct Path(String);

impl Path {
    fn child(&self, name: &str) -> Path {
        Path(if self.0.is_empty() { name.to_owned() } else { format!("{}.{name}", self.0) })
    }

    fn index(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }
}

#[derive(Clone)]
struct Context<'a> {
    problems: &'a RefCell<Vec<Problem>>,
    path: Path,
}

/// An error with its place; serde makes it without one, and the nearest deserializer adds it.
#[derive(Debug)]
struct DecodeError(Problem);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        DecodeError(Problem { message, path: String::new(), span: Span::default(), hint: None, fatal: true })
    }
}

struct NodeDeserializer<'a> {
    node: &'a Node,
    context: Context<'a>,
}

impl<'a> NodeDeserializer<'a> {
    /// Adds the place to an error that has none yet.
    fn place<T>(&self, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
        result.map_err(|mut error| {
            if error.0.span == Span::default() {
                error.0.span = self.node.span;
                error.0.path.clone_from(&self.context.path.0);
            }
            error
        })
    }

    fn expected(&self, what: &str) -> DecodeError {
        DecodeError(Problem {
            message: format!("expected {what}, found {}", self.node.kind.describe()),
            path: self.context.path.0.clone(),
            span: self.node.span,
            hint: self.quoting_hint(what),
            fatal: true,
        })
    }

    fn quoting_hint(&self, what: &str) -> Option<String> {
        let bare = matches!(self.node.kind, NodeKind::Bool(_) | NodeKind::Number(_));
        (what == "a string" && bare)
            .then(|| "put it in quotes: YAML reads it as something else without them".to_owned())
    }

    /// Fields that the type does not have.
    fn note_unknown(&self, fields: &'static [&'static str]) {
        for entry in self.node.entries() {
            if fields.contains(&entry.key.as_str()) || is_type_field(&self.context.path, &entry.key) {
                continue;
            }
            let path = self.context.path.child(&entry.key).0;
            self.context.problems.borrow_mut().push(Problem {
                message: format!("unknown field `{path}`"),
                path,
                span: entry.key_span,
                hint: nearest(&entry.key, fields),
                fatal: false,
            });
        }
    }

    fn visit<V: Visitor<'a>>(&self, visitor: V) -> Result<V::Value, DecodeError> {
        let result = match &self.node.kind {
            NodeKind::Null => visitor.visit_unit(),
            NodeKind::Bool(value) => visitor.visit_bool(*value),
            NodeKind::Text(text) => visitor.visit_str(text),
            NodeKind::List(elements) => {
                visitor.visit_seq(Elements { elements, index: 0, context: self.context.clone() })
            }
            NodeKind::Map(entries) => {
                visitor.visit_map(Entries { entries, value: None, context: self.context.clone() })
            }
            NodeKind::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), _, _) => visitor.visit_i64(value),
                (_, Some(value), _) => visitor.visit_u64(value),
                (_, _, value) => visitor.visit_f64(value.unwrap_or_default()),
            },
        };
        self.place(result)
    }
}

/// `apiVersion` and `kind` stand in every object, and types that are not top-level do not name them.
fn is_type_field(path: &Path, key: &str) -> bool {
    path.0.is_empty() && matches!(key, "apiVersion" | "kind")
}

fn nearest(name: &str, known: &[&str]) -> Option<String> {
    let score =
        |candidate: &&&str| (strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase()) * 1000.0) as u32;
    let best = known.iter().max_by_key(score)?;
    (score(&best) > 800).then(|| format!("did you mean `{best}`?"))
}

macro_rules! deserialize_checked {
    ($($method:ident: $pattern:pat => $what:literal,)*) => {
        $(fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            match &self.node.kind {
                $pattern => self.visit(visitor),
                _ => Err(self.expected($what)),
            }
        })*
    };
}

impl<'a> de::Deserializer<'a> for NodeDeserializer<'a> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit(visitor)
    }

    deserialize_checked! {
        deserialize_bool: NodeKind::Bool(_) => "a boolean",
        deserialize_i8: NodeKind::Number(_) => "a number",
        deserialize_i16: NodeKind::Number(_) => "a number",
        deserialize_i32: NodeKind::Number(_) => "a number",
        deserialize_i64: NodeKind::Number(_) => "a number",
        deserialize_u8: NodeKind::Number(_) => "a number",
        deserialize_u16: NodeKind::Number(_) => "a number",
        deserialize_u32: NodeKind::Number(_) => "a number",
        deserialize_u64: NodeKind::Number(_) => "a number",
        deserialize_f32: NodeKind::Number(_) => "a number",
        deserialize_f64: NodeKind::Number(_) => "a number",
        deserialize_char: NodeKind::Text(_) => "a string",
        deserialize_str: NodeKind::Text(_) => "a string",
        deserialize_string: NodeKind::Text(_) => "a string",
        deserialize_bytes: NodeKind::Text(_) => "a string",
        deserialize_byte_buf: NodeKind::Text(_) => "a string",
        deserialize_seq: NodeKind::List(_) => "a list",
        deserialize_map: NodeKind::Map(_) => "an object",
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.node.kind {
            NodeKind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        // Kubernetes takes a bare number for a quantity, as in `cpu: 1`.
        if let ("Quantity", NodeKind::Number(number)) = (name, &self.node.kind) {
            let text: de::value::StringDeserializer<DecodeError> = number.to_string().into_deserializer();
            return visitor.visit_newtype_struct(text);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            NodeKind::Map(_) => {
                self.note_unknown(fields);
                self.visit(visitor)
            }
            // Nothing is an empty object to the API server, as in `emptyDir:`.
            NodeKind::Null => visitor.visit_map(Entries { entries: &[], value: None, context: self.context.clone() }),
            _ => Err(self.expected("an object")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <W: Visitor<'a>>
        i128 u128 unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Elements<'a> {
    elements: &'a [Node],
    index: usize,
    context: Context<'a>,
}

impl<'a> SeqAccess<'a> for Elements<'a> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let Some(node) = self.elements.get(self.index) else { return Ok(None) };
        let path = self.context.path.index(self.index);
        self.index += 1;
        seed.deserialize(NodeDeserializer { node, context: Context { path, ..self.context.clone() } }).map(Some)
    }
}

struct Entries<'a> {
    entries: &'a [Entry],
    value: Option<&'a Entry>,
    context: Context<'a>,
}

impl<'a> MapAccess<'a> for Entries<'a> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((entry, rest)) = self.entries.split_first() else { return Ok(None) };
        self.entries = rest;
        self.value = Some(entry);
        let key: de::value::StrDeserializer<'_, DecodeError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let entry = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        let path = self.context.path.child(&entry.key);
        seed.deserialize(NodeDeserializer { node: &entry.value, context: Context { path, ..self.context.clone() } })
    }
}
