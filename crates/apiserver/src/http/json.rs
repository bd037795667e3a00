//! JSON as clients send it, with the keys that stand twice.
//!
//! The last of two equal keys wins, as in Go; `fieldValidation=Strict` refuses them (A-147, A-150).

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A value and the paths of the keys that stood twice.
#[derive(Debug, PartialEq)]
pub(super) struct Document {
    /// The value.
    pub(super) value: Value,
    /// Paths as in `spec.containers[0].name`.
    pub(super) duplicates: Vec<String>,
}

/// Reads one JSON text.
pub(super) fn read(text: &[u8]) -> Result<Document, serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node { path: String::new(), duplicates: &duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Document { value, duplicates: duplicates.into_inner() })
}

/// Builds one value and knows where it stands.
struct Node<'a> {
    path: String,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match items.next_element_seed(Node { path, duplicates: self.duplicates })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            let value = fields.next_value_seed(Node { path: path.clone(), duplicates: self.duplicates })?;
            if map.insert(name, value).is_some() {
                self.duplicates.borrow_mut().push(path);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_150_the_last_of_two_keys_wins_and_is_named() -> Result<(), serde_json::Error> {
        let document = read(br#"{"a": [{"b": 1, "b": 2}], "c": null, "c": 1.5}"#)?;
        assert_eq!(document.value, json!({"a": [{"b": 2}], "c": 1.5}));
        assert_eq!(document.duplicates, ["a[0].b", "c"]);
        Ok(())
    }

    #[test]
    fn what_follows_the_value_is_refused() {
        assert!(read(b"{} {}").is_err());
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }
}
