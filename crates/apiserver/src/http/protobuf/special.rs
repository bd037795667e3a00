//! Types that are messages in protobuf and something simpler in JSON.

use jiff::Timestamp;
use serde_json::Value;

use super::wire::{Reader, WireValue};
use super::{ProtobufError, plain_text};

/// `Time` and `MicroTime`: seconds and nanoseconds; both zero is Go's zero time, which JSON leaves out.
pub(super) fn time(name: &str, bytes: &[u8], micro: bool) -> Result<Option<Value>, ProtobufError> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        match number {
            1 => seconds = value.integer(name)?,
            2 => nanoseconds = value.integer(name)?,
            _ => {}
        }
    }
    if (seconds, nanoseconds) == (0, 0) {
        return Ok(None);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| ProtobufError::Malformed)?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| ProtobufError::Malformed)?;
    let form = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(Some(Value::String(time.strftime(form).to_string())))
}

/// `Quantity`: a message with one text.
pub(super) fn text_in_message(name: &str, bytes: &[u8]) -> Result<Option<String>, ProtobufError> {
    let mut text = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == 1 {
            text = Some(plain_text(name, value.bytes(name)?)?);
        }
    }
    Ok(text)
}

/// `IntOrString`: which of the two, the number, the text.
pub(super) fn int_or_string(name: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, value)) = reader.next()? {
        match field {
            1 => is_text = value.integer(name)? == 1,
            2 => number = value.integer(name)?,
            3 => text = plain_text(name, value.bytes(name)?)?,
            _ => {}
        }
    }
    Ok(if is_text { Value::String(text) } else { Value::from(number) })
}

/// `FieldsV1` and `RawExtension`: JSON as bytes.
pub(super) fn raw_json(name: &str, bytes: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let mut json = None;
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == 1 {
            let raw = value.bytes(name)?;
            json = if raw.is_empty() {
                None
            } else {
                Some(serde_json::from_slice(raw).map_err(|_| ProtobufError::Malformed)?)
            };
        }
    }
    Ok(json)
}

/// A named list of texts: a message with one repeated field.
pub(super) fn text_list(name: &str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut texts = Vec::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.next()? {
        if number == 1 {
            texts.push(Value::String(plain_text(name, value.bytes(name)?)?));
        }
    }
    Ok(Value::Array(texts))
}

/// A double; zero is left out.
pub(super) fn float(name: &str, value: &WireValue<'_>) -> Result<Option<Value>, ProtobufError> {
    let WireValue::Fixed64(bytes) = value else {
        return Err(ProtobufError::WireType { field: name.to_owned() });
    };
    let number = f64::from_le_bytes(*bytes);
    Ok(serde_json::Number::from_f64(number).filter(|_| number != 0.0).map(Value::Number))
}
