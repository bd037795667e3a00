//! Kubernetes' protobuf bodies, read into the JSON form of the same object.
//!
//! Typed Go clients send these and don't fall back; answers are always JSON, so nothing is written here.
//! Driven by the table of field numbers in `crate::fields`; unknown fields are skipped, as protobuf asks.
//! Bytes from the network never make it panic: every read is checked, and nesting is bounded.

mod special;
mod wire;

use serde_json::{Map, Value};

use wire::{Reader, WireValue};

use crate::fields::{Field, Kind, Schema};

/// The four bytes that every Kubernetes protobuf body begins with.
const MAGIC: &[u8] = b"k8s\0";
/// The kinds served nest about ten deep; more is an attack.
const DEPTH_MAX: usize = 32;

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The body does not begin with the magic bytes.
    #[error("it does not begin with the four bytes of Kubernetes' envelope")]
    Magic,
    /// A field reaches past the end of what holds it.
    #[error("it ends in the middle of a field")]
    Truncated,
    /// A tag, a length or a number that cannot be.
    #[error("it holds a malformed number or tag")]
    Malformed,
    /// A field's wire type is not the one of its number.
    #[error("field {field} has another type than it should")]
    WireType {
        /// The field's JSON name.
        field: String,
    },
    /// Text that is not UTF-8.
    #[error("field {field} is not UTF-8 text")]
    NotText {
        /// The field's JSON name.
        field: String,
    },
    /// Messages within messages without end.
    #[error("it is nested too deep")]
    TooDeep,
    /// A kind that this server does not read.
    #[error("no kind \"{kind}\" is known in \"{api_version}\"")]
    UnknownKind {
        /// As the envelope names it.
        api_version: String,
        /// As the envelope names it.
        kind: String,
    },
    /// The envelope holds something in a form of its own.
    #[error("the envelope's content is encoded as \"{0}\", which is not taken")]
    Encoding(String),
}

/// Reads a body: the envelope and the object in it.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope::read(body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?)?;
    if !envelope.content_encoding.is_empty() {
        return Err(ProtobufError::Encoding(envelope.content_encoding));
    }
    let mut object = if envelope.content_type == "application/json" {
        serde_json::from_slice(envelope.raw).map_err(|_| ProtobufError::Malformed)?
    } else {
        let schema = Schema::get();
        let message = schema.message_of(&envelope.api_version, &envelope.kind).ok_or_else(|| {
            ProtobufError::UnknownKind { api_version: envelope.api_version.clone(), kind: envelope.kind.clone() }
        })?;
        let mut fields = Map::new();
        read_message(schema, message, envelope.raw, &mut fields, 0)?;
        Value::Object(fields)
    };
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), Value::String(envelope.api_version));
        fields.insert("kind".to_owned(), Value::String(envelope.kind));
    }
    Ok(object)
}

/// `runtime.Unknown`.
#[derive(Default)]
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
    content_encoding: String,
    content_type: String,
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        let mut envelope = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some((number, value)) = reader.next()? {
            match (number, value) {
                (1, WireValue::Bytes(type_meta)) => {
                    let mut reader = Reader::new(type_meta);
                    while let Some((number, value)) = reader.next()? {
                        match (number, value) {
                            (1, WireValue::Bytes(text)) => envelope.api_version = plain_text("apiVersion", text)?,
                            (2, WireValue::Bytes(text)) => envelope.kind = plain_text("kind", text)?,
                            _ => {}
                        }
                    }
                }
                (2, WireValue::Bytes(raw)) => envelope.raw = raw,
                (3, WireValue::Bytes(text)) => envelope.content_encoding = plain_text("contentEncoding", text)?,
                (4, WireValue::Bytes(text)) => envelope.content_type = plain_text("contentType", text)?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

/// Reads one message's fields into a JSON map.
fn read_message(
    schema: &Schema,
    message: &str,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::TooDeep);
    }
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        let Some(field) = schema.field(message, number) else { continue };
        read_field(schema, field, value, into, depth)?;
    }
    Ok(())
}

fn read_field(
    schema: &Schema,
    field: &Field,
    value: WireValue<'_>,
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    match &field.kind {
        // In JSON the fields of an inlined message stand among those of the outer one.
        Kind::Inline(message) => read_message(schema, message, value.bytes(&field.name)?, into, depth + 1),
        Kind::List(item) => {
            let list = into.entry(field.name.clone()).or_insert_with(|| Value::Array(Vec::new()));
            let item = read_value(schema, &field.name, item, value, depth)?;
            if let Value::Array(list) = list {
                list.push(item.unwrap_or_else(|| Value::Object(Map::new())));
            }
            Ok(())
        }
        Kind::Map(kind) => {
            let (key, item) = read_entry(schema, &field.name, kind, value.bytes(&field.name)?, depth)?;
            let map = into.entry(field.name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(map) = map {
                map.insert(key, item);
            }
            Ok(())
        }
        kind => {
            if let Some(value) = read_value(schema, &field.name, kind, value, depth)? {
                into.insert(field.name.clone(), value);
            }
            Ok(())
        }
    }
}

/// One entry of a map: a message of key and value.
fn read_entry(
    schema: &Schema,
    name: &str,
    kind: &Kind,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut item) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => key = plain_text(name, value.bytes(name)?)?,
            2 => item = read_value(schema, name, &kind.always(), value, depth)?,
            _ => {}
        }
    }
    // An absent value is the type's zero.
    Ok((key, item.unwrap_or_else(|| kind.zero())))
}

/// One value; `None` for a zero that Go leaves out of JSON.
fn read_value(
    schema: &Schema,
    name: &str,
    kind: &Kind,
    value: WireValue<'_>,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    Ok(match kind {
        Kind::Text { pointer } => {
            let text = plain_text(name, value.bytes(name)?)?;
            (*pointer || !text.is_empty()).then_some(Value::String(text))
        }
        Kind::Bytes => {
            use base64::Engine;
            let bytes = value.bytes(name)?;
            Some(Value::String(base64::engine::general_purpose::STANDARD.encode(bytes)))
        }
        Kind::Integer { pointer } => {
            let number = value.integer(name)?;
            (*pointer || number != 0).then(|| Value::from(number))
        }
        Kind::Boolean { pointer } => {
            let flag = value.integer(name)? != 0;
            (*pointer || flag).then_some(Value::Bool(flag))
        }
        Kind::Float => special::float(name, &value)?,
        Kind::Time => special::time(name, value.bytes(name)?, false)?,
        Kind::MicroTime => special::time(name, value.bytes(name)?, true)?,
        Kind::Quantity => special::text_in_message(name, value.bytes(name)?)?.map(Value::String),
        Kind::IntOrString => Some(special::int_or_string(name, value.bytes(name)?)?),
        Kind::RawJson => special::raw_json(name, value.bytes(name)?)?,
        Kind::TextList => Some(special::text_list(name, value.bytes(name)?)?),
        Kind::Message(message) => {
            let mut fields = Map::new();
            read_message(schema, message, value.bytes(name)?, &mut fields, depth + 1)?;
            Some(Value::Object(fields))
        }
        Kind::Inline(_) | Kind::List(_) | Kind::Map(_) => return Err(ProtobufError::Malformed),
    })
}

fn plain_text(name: &str, bytes: &[u8]) -> Result<String, ProtobufError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotText { field: name.to_owned() })?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
