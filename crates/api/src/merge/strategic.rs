//! Strategic merge patch: maps are merged, lists as their field wants it, and directives say what else.
//!
//! Kubernetes: apimachinery, pkg/util/strategicpatch. How lists are merged is in `lists`, which lists are, in `schema`.

use serde_json::{Map, Value};

use super::PatchError;
use super::lists;
use super::schema::{Strategy, Type};

type Fields = Map<String, Value>;

/// Says what is to be done with the map that it stands in.
pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Lays a patch over an object of a kind, by its group, empty for core.
pub fn strategic_merge_patch(group: &str, kind: &str, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else { return Err(PatchError::NoObject) };
    merge_map(object.clone(), patch.clone(), Type::of_kind(group, kind)).map(Value::Object)
}

/// Lays a patch over a map of a type.
pub(super) fn merge_map(mut object: Fields, mut patch: Fields, type_: Type) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(plain_fields(patch)),
            Some("delete") => Ok(Fields::new()),
            _ => Err(PatchError::directive(directive, &Value::Object(patch.clone()))),
        };
    }
    retain_keys(&mut object, &mut patch)?;
    order_lists(&mut object, &mut patch, type_)?;
    for (name, change) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM) {
            delete_from(&mut object, list, &change)?;
        } else {
            merge_field(&mut object, &name, change, type_)?;
        }
    }
    Ok(object)
}

fn merge_field(object: &mut Fields, name: &str, change: Value, type_: Type) -> Result<(), PatchError> {
    let (strategy, type_) = type_.field(name);
    if change.is_null() {
        object.shift_remove(name);
        return Ok(());
    }
    let merged = match (object.get_mut(name).map(Value::take), change) {
        (Some(Value::Object(under)), Value::Object(change)) if strategy != Strategy::Replace => {
            Some(Value::Object(merge_map(under, change, type_)?))
        }
        (Some(Value::Array(under)), Value::Array(change)) => {
            Some(Value::Array(lists::merge(under, change, strategy, type_)?))
        }
        (_, change) => plain(change),
    };
    match merged {
        Some(merged) => {
            object.insert(name.to_owned(), merged);
        }
        // Nothing is left of a value that was a directive alone.
        None => {
            object.shift_remove(name);
        }
    }
    Ok(())
}

/// `$retainKeys`: the keys of the object that it does not name go, and it must name those that the patch sets.
fn retain_keys(object: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let Some(keys) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or(PatchError::RetainKeys)?;
    let is_kept = |name: &str| keys.iter().any(|key| key == name);
    let sets = |(name, change): (&String, &Value)| {
        !change.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(ELEMENT_ORDER)
    };
    if patch.iter().any(|(name, change)| sets((name, change)) && !is_kept(name)) {
        return Err(PatchError::RetainKeys);
    }
    object.retain(|name, _| is_kept(name));
    Ok(())
}

/// `$setElementOrder/<list>`: merges the list and puts it in order; what is done is taken out of the patch.
fn order_lists(object: &mut Fields, patch: &mut Fields, type_: Type) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.shift_remove(&directive) else { continue };
        let order = as_list(order)?;
        let name = directive.trim_start_matches(ELEMENT_ORDER);
        let (strategy, type_) = type_.field(name);
        // The object keeps the place of the name.
        let old = object.get_mut(name).map(Value::take).map(as_list).transpose()?;
        let change = patch.shift_remove(name).map(as_list).transpose()?;
        if let Some(merged) = lists::merge_in_order(old, change, &order, strategy, type_)? {
            object.insert(name.to_owned(), Value::Array(merged));
        }
    }
    Ok(())
}

fn as_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(PatchError::DirectiveList("setElementOrder")),
    }
}

/// `$deleteFromPrimitiveList/<list>`.
fn delete_from(object: &mut Fields, name: &str, gone: &Value) -> Result<(), PatchError> {
    let gone = gone.as_array().ok_or(PatchError::DirectiveList("primitive"))?;
    if let Some(Value::Array(list)) = object.get_mut(name) {
        list.retain(|value| !gone.contains(value));
    }
    Ok(())
}

/// A value of a patch as it is stored where nothing was: without directives and nulls; `None` if it is itself one to delete.
pub(super) fn plain(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(plain_fields(fields))),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(plain).collect())),
        value => Some(value),
    }
}

fn plain_fields(fields: Fields) -> Fields {
    let is_directive = |name: &str| {
        name == DIRECTIVE || name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(ELEMENT_ORDER)
    };
    let kept = fields.into_iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
    kept.filter_map(|(name, value)| Some((name, plain(value)?))).collect()
}
