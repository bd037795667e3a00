//! Reading and writing fields of JSON objects by path, without panics.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty text counts as absent, as in Go.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The integer at a JSON pointer.
pub fn integer(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// True if something other than null stands at the pointer.
pub fn is_set(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|value| !value.is_null())
}

/// The texts of the list at a JSON pointer.
pub fn texts(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Sets the field at a path of names, making the maps on the way.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut place = object;
    for name in parents {
        let map = as_map(place);
        place = map.entry(*name).or_insert_with(|| Value::Object(Map::new()));
    }
    as_map(place).insert((*last).to_owned(), value);
}

/// Removes the field at a path of names and gives it back.
pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut place = object;
    for name in parents {
        place = place.as_object_mut()?.get_mut(*name)?;
    }
    place.as_object_mut()?.shift_remove(*last)
}

/// Makes the field at a path the same as in another object: copies it, or removes it if it is absent there.
pub fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let pointer = format!("/{}", path.join("/"));
    match from.pointer(&pointer) {
        Some(value) if !value.is_null() => set(to, path, value.clone()),
        _ => {
            remove(to, path);
        }
    }
}

/// Takes every null out of maps: to a client it means the same as leaving the field out.
pub fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The value as a map; anything else is replaced by an empty one.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the line above has made it an object")
}
