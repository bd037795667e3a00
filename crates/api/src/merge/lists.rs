//! How two lists become one.

use serde_json::Value;

use super::PatchError;
use super::schema::{Strategy, Type};
use super::strategic::{DIRECTIVE, merge_map, plain};

/// Lays a list of a patch over a list.
pub(super) fn merge(
    old: Vec<Value>,
    change: Vec<Value>,
    strategy: Strategy,
    type_: Type,
) -> Result<Vec<Value>, PatchError> {
    let order = change.clone();
    match strategy {
        Strategy::Default | Strategy::Replace => Ok(change.into_iter().filter_map(plain).collect()),
        Strategy::Set => {
            let before = old.clone();
            Ok(in_order(union(old, change), &order, &before, Value::clone))
        }
        Strategy::By(key) => {
            let replaces =
                change.iter().any(|element| element.get(DIRECTIVE).is_some_and(|directive| directive == "replace"));
            let merged = merge_by(old.clone(), change, key, type_)?;
            // A list that is replaced has the patch's order already.
            let before = if replaces { merged.clone() } else { old };
            Ok(in_order(merged, &order, &before, |element| value_of(element, key)))
        }
    }
}

/// Lays a list of a patch over a list, and puts the result in the order that the patch asks for.
///
/// Either list may be absent; if both are, so is the result.
pub(super) fn merge_in_order(
    old: Option<Vec<Value>>,
    change: Option<Vec<Value>>,
    order: &[Value],
    strategy: Strategy,
    type_: Type,
) -> Result<Option<Vec<Value>>, PatchError> {
    let key = match strategy {
        Strategy::By(key) => Some(key),
        Strategy::Default | Strategy::Replace | Strategy::Set => None,
    };
    let identity = |element: &Value| key.map_or_else(|| element.clone(), |key| value_of(element, key));
    check_order(change.as_deref().unwrap_or_default(), order, identity)?;
    let before = old.clone().unwrap_or_default();
    let merged = match (old, change) {
        (None, None) => return Ok(None),
        (Some(old), None) => old,
        (None, Some(change)) => change.into_iter().filter_map(plain).collect(),
        (Some(old), Some(change)) => merge(old, change, strategy, type_)?,
    };
    if let Some(key) = key {
        merged.iter().chain(order).try_for_each(|element| check_key(element, key))?;
    }
    Ok(Some(in_order(merged, order, &before, identity)))
}

/// Merges lists of objects: those with the same key are merged, others appended, those with a directive deleted.
fn merge_by(old: Vec<Value>, change: Vec<Value>, key: &'static str, type_: Type) -> Result<Vec<Value>, PatchError> {
    let mut merged = old;
    merged.iter().try_for_each(check_object)?;
    let mut replaces = false;
    let mut rest = Vec::new();
    for element in change {
        match element.get(DIRECTIVE) {
            None => rest.push(element),
            Some(directive) if directive == "replace" => replaces = true,
            Some(directive) if directive == "delete" => {
                check_key(&element, key)?;
                merged.retain(|other| value_of(other, key) != value_of(&element, key));
            }
            Some(directive) => {
                return Err(PatchError::directive(directive, &element));
            }
        }
    }
    if replaces {
        return Ok(rest.into_iter().filter_map(plain).collect());
    }
    for element in rest {
        check_key(&element, key)?;
        let found = merged.iter_mut().find(|other| value_of(other, key) == value_of(&element, key));
        match (found, element) {
            (Some(Value::Object(under)), Value::Object(change)) => {
                *under = merge_map(std::mem::take(under), change, type_)?;
            }
            (_, element) => merged.extend(plain(element)),
        }
    }
    Ok(merged)
}

fn union(old: Vec<Value>, change: Vec<Value>) -> Vec<Value> {
    let mut union: Vec<Value> = Vec::new();
    for value in old.into_iter().chain(change) {
        if !union.contains(&value) {
            union.push(value);
        }
    }
    union
}

/// Puts elements in order: those that `wanted` names as it has them, the others as they stood `before`, and in between by `before`.
fn in_order(
    elements: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    identity: impl Fn(&Value) -> Value,
) -> Vec<Value> {
    let place = |list: &[Value], element: &Value| {
        let identity_of_element = identity(element);
        list.iter().position(|other| identity(other) == identity_of_element)
    };
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        elements.into_iter().partition(|element| place(wanted, element).is_some());
    named.sort_by_key(|element| place(wanted, element));
    others.sort_by_key(|element| place(before, element));
    let mut named = named.into_iter().peekable();
    let mut others = others.into_iter().peekable();
    let mut ordered = Vec::new();
    while let (Some(other), Some(next)) = (others.peek(), named.peek()) {
        let stood_before = matches!((place(before, other), place(before, next)), (Some(one), Some(two)) if one < two);
        ordered.extend(if stood_before { others.next() } else { named.next() });
    }
    ordered.extend(named);
    ordered.extend(others);
    ordered
}

/// The elements of a patch's list must stand in the order that the patch asks for, and be named in it.
fn check_order(list: &[Value], order: &[Value], identity: impl Fn(&Value) -> Value) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in list.iter().filter(|element| element.get(DIRECTIVE).is_none()) {
        let wanted = identity(element);
        if !rest.any(|other| identity(other) == wanted) {
            let shown = |list: &[Value]| Value::from(list.to_vec()).to_string();
            return Err(PatchError::ElementOrder { list: shown(list), order: shown(order) });
        }
    }
    Ok(())
}

fn check_object(element: &Value) -> Result<(), PatchError> {
    if element.is_object() { Ok(()) } else { Err(PatchError::MixedList(element.to_string())) }
}

fn check_key(element: &Value, key: &'static str) -> Result<(), PatchError> {
    check_object(element)?;
    if element.get(key).is_none() {
        return Err(PatchError::NoMergeKey { map: element.to_string(), key });
    }
    Ok(())
}

fn value_of(element: &Value, key: &str) -> Value {
    element.get(key).cloned().unwrap_or_default()
}
