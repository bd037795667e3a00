//! Fields of JSON objects by path: `spec.containers[0].image`, `metadata.labels[app.kubernetes.io/name]`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

enum Step {
    Name(String),
    Index(usize),
}

/// Sets the field at a path, making what is around it; null removes the field.
pub(crate) fn set(object: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let steps = steps(path);
    let Some((last, front)) = steps.split_last() else { return Err("an empty path".to_owned()) };
    let mut place = object;
    for step in front {
        place = enter(place, step).ok_or_else(|| format!("no place for `{path}`"))?;
    }
    match (last, value) {
        (Step::Name(name), Value::Null) => {
            place.as_object_mut().map(|map| map.remove(name));
        }
        (Step::Index(index), Value::Null) => {
            let list = place.as_array_mut().filter(|list| *index < list.len());
            list.map(|list| list.remove(*index)).ok_or_else(|| format!("nothing at `{path}`"))?;
        }
        _ => *enter(place, last).ok_or_else(|| format!("no place for `{path}`"))? = value.clone(),
    }
    Ok(())
}

/// Every value that has no parts, by its path.
pub(crate) fn leaves(object: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(object, "", &mut found);
    found
}

fn collect(value: &Value, path: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let is_plain = !key.contains(['.', '/']);
                let path = match (is_plain, path.is_empty()) {
                    (true, true) => key.clone(),
                    (true, false) => format!("{path}.{key}"),
                    _ => format!("{path}[{key}]"),
                };
                collect(value, &path, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{path}[{index}]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned(), value.clone());
        }
    }
}

fn enter<'a>(place: &'a mut Value, step: &Step) -> Option<&'a mut Value> {
    if place.is_null() {
        *place = match step {
            Step::Name(_) => Value::Object(Map::new()),
            Step::Index(_) => Value::Array(Vec::new()),
        };
    }
    match step {
        Step::Name(name) => Some(place.as_object_mut()?.entry(name.as_str()).or_insert(Value::Null)),
        Step::Index(index) => {
            let list = place.as_array_mut()?;
            if *index == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(*index)
        }
    }
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some((inside, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            steps.push(inside.parse().map_or_else(|_| Step::Name(inside.to_owned()), Step::Index));
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            steps.push(Step::Name(name.to_owned()));
            rest = after;
        }
    }
    steps
}
