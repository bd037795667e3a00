//! The table of fields: which field of which Kubernetes type is what, in JSON and in protobuf.
//!
//! `fields.txt` has one line a message: its name, then `jsonName=number:type` for each field. Types are:
//! `s` text, `b` bytes, `i` integer, `B` boolean, `d` float, `T` Time, `U` MicroTime, `Q` Quantity, `I` IntOrString,
//! `F` and `R` JSON text, `L` a list of texts in a message, else another message.
//! Before it stand `*` for a list, `m` for a map from text, `?` for a pointer in Go (its zero is sent and means something),
//! `^` for a message whose fields stand among the outer ones in JSON.
//! `hack/protobuf-fields.py` writes the table from Kubernetes' Go types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

/// What a field's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text { pointer: bool },
    Bytes,
    Integer { pointer: bool },
    Boolean { pointer: bool },
    Float,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    RawJson,
    TextList,
    Message(String),
    Inline(String),
    List(Box<Kind>),
    Map(Box<Kind>),
}

impl Kind {
    fn parse(code: &str) -> Option<Self> {
        Some(match code.split_at_checked(1)? {
            ("*", item) => Self::List(Box::new(Self::parse(item)?.always())),
            ("^", message) => Self::Inline(message.to_owned()),
            ("?", scalar) => Self::parse(scalar)?.always(),
            ("m", item) if !item.contains('.') || item.len() == 1 => Self::Map(Box::new(Self::parse(item)?)),
            ("s", "") => Self::Text { pointer: false },
            ("b", "") => Self::Bytes,
            ("i", "") => Self::Integer { pointer: false },
            ("B", "") => Self::Boolean { pointer: false },
            ("d", "") => Self::Float,
            ("T", "") => Self::Time,
            ("U", "") => Self::MicroTime,
            ("Q", "") => Self::Quantity,
            ("I", "") => Self::IntOrString,
            ("F" | "R", "") => Self::RawJson,
            ("L", "") => Self::TextList,
            _ if code.contains('.') => Self::Message(code.to_owned()),
            _ => return None,
        })
    }

    /// The same, where a zero is a value of its own: in lists, maps, and behind pointers.
    pub(crate) fn always(&self) -> Self {
        match self {
            Self::Text { .. } => Self::Text { pointer: true },
            Self::Integer { .. } => Self::Integer { pointer: true },
            Self::Boolean { .. } => Self::Boolean { pointer: true },
            kind => kind.clone(),
        }
    }

    /// The zero of the type, for entries of maps without a value.
    pub(crate) fn zero(&self) -> Value {
        match self {
            Self::Integer { .. } | Self::Float => Value::from(0),
            Self::Boolean { .. } => Value::Bool(false),
            Self::List(_) | Self::TextList => Value::Array(Vec::new()),
            Self::Message(_) | Self::Inline(_) | Self::Map(_) => Value::Object(Map::new()),
            _ => Value::String(String::new()),
        }
    }
}

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub(crate) name: String,
    /// What it is.
    pub(crate) kind: Kind,
}

/// The whole table.
pub(crate) struct Schema {
    messages: BTreeMap<String, BTreeMap<u64, Field>>,
}

impl Schema {
    /// The table that the program was built with.
    pub(crate) fn get() -> &'static Self {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("fields.txt")));
        &SCHEMA
    }

    fn parse(text: &str) -> Self {
        let messages = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            Some((name, words.filter_map(parse_field).collect()))
        });
        Self { messages: messages.collect() }
    }

    /// The field of that number, if it is known.
    pub(crate) fn field(&self, message: &str, number: u64) -> Option<&Field> {
        self.messages.get(message)?.get(&number)
    }

    /// The field of that JSON name, looked for among inlined messages too.
    pub(crate) fn field_named(&self, message: &str, name: &str) -> Option<&Field> {
        let fields = self.messages.get(message)?;
        let inlined = || {
            fields.values().find_map(|field| match &field.kind {
                Kind::Inline(inner) => self.field_named(inner, name),
                _ => None,
            })
        };
        fields.values().find(|field| field.name == name && !matches!(field.kind, Kind::Inline(_))).or_else(inlined)
    }

    /// The message of a kind.
    pub(crate) fn message_of(&self, api_version: &str, kind: &str) -> Option<&str> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        // Delete options are the same in every group.
        let package = match group.split('.').next() {
            _ if kind == "DeleteOptions" => "meta",
            Some("") | None => "core",
            Some(package) => package,
        };
        self.messages.get_key_value(&format!("{package}.{kind}")).map(|(name, _)| name.as_str())
    }
}

fn parse_field(word: &str) -> Option<(u64, Field)> {
    let (name, rest) = word.split_once('=')?;
    let (number, code) = rest.split_once(':')?;
    Some((number.parse().ok()?, Field { name: name.to_owned(), kind: Kind::parse(code)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_and_every_message_is_there() {
        let schema = Schema::get();
        let fields: usize = include_str!("fields.txt").lines().map(|line| line.split(' ').count() - 1).sum();
        assert_eq!(schema.messages.values().map(BTreeMap::len).sum::<usize>(), fields);
        for field in schema.messages.values().flat_map(BTreeMap::values) {
            let message = match &field.kind {
                Kind::Message(message) | Kind::Inline(message) => Some(message),
                Kind::List(item) | Kind::Map(item) => match item.as_ref() {
                    Kind::Message(message) => Some(message),
                    _ => None,
                },
                _ => None,
            };
            assert!(message.is_none_or(|message| schema.messages.contains_key(message)), "{field:?}");
        }
    }
}
