//! YAML as the tables use it, to JSON: no anchors, no tags.

use granit_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// Reads the one document of a text.
pub(crate) fn read(text: &str) -> Result<Value, String> {
    let mut open = Vec::new();
    let mut root = Value::Null;
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        match event {
            Event::Scalar(text, style, ..) => add(&mut open, &mut root, scalar(&text, style))?,
            Event::SequenceStart(..) => open.push(Open::List(Vec::new())),
            Event::MappingStart(..) => open.push(Open::Map(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let value = match open.pop() {
                    Some(Open::List(items)) => Value::Array(items),
                    Some(Open::Map(entries, _)) => Value::Object(entries),
                    None => return Err("an end without a beginning".to_owned()),
                };
                add(&mut open, &mut root, value)?;
            }
            _ => {}
        }
    }
    Ok(root)
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "null" | "~" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

fn add(open: &mut [Open], root: &mut Value, value: Value) -> Result<(), String> {
    match open.last_mut() {
        None => *root = value,
        Some(Open::List(items)) => items.push(value),
        Some(Open::Map(entries, key)) => match key.take() {
            None => *key = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            Some(key) => {
                if entries.insert(key.clone(), value).is_some() {
                    return Err(format!("key `{key}` is there twice"));
                }
            }
        },
    }
    Ok(())
}
