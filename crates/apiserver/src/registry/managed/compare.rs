//! Which fields two objects differ in, one object laid over another, and fields taken out.

use serde_json::{Map, Value};

use super::field_set::{FieldSet, step_of};
use super::shape::{ListKind, Shape};

/// What a write did.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// Fields that were added or changed.
    pub(super) changed: FieldSet,
    /// Fields that went.
    pub(super) removed: FieldSet,
}

/// Compares two objects; what is nobody's is left out.
pub(super) fn difference(shape: &Shape, old: &Value, new: &Value) -> Difference {
    let (before, after) = (FieldSet::of(shape, old), FieldSet::of(shape, new));
    let removed = before.minus(&after);
    let mut changed = after.minus(&before);
    let both = after.intersection(&before);
    if let Some(modified) = modified(shape, old, new, &both) {
        changed = changed.union(&modified);
    }
    Difference { changed, removed }
}

/// The members of `both` whose values differ.
fn modified(shape: &Shape, old: &Value, new: &Value, both: &FieldSet) -> Option<FieldSet> {
    // An item of a list is a member besides its fields; it changes only through them.
    let member = both.member && both.children.is_empty() && old != new;
    let mut set = FieldSet { member, ..FieldSet::default() };
    for (step, inner) in &both.children {
        let (Some((shape, old)), Some((_, new))) = (descend(shape, old, step), descend(shape, new, step)) else {
            continue;
        };
        if let Some(found) = modified(&shape, old, new, inner) {
            set.children.insert(step.clone(), found);
        }
    }
    (!set.is_empty()).then_some(set)
}

/// The value a step leads to, with its shape.
fn descend<'a>(shape: &Shape, value: &'a Value, step: &str) -> Option<(Shape, &'a Value)> {
    if let Some(name) = step.strip_prefix("f:") {
        return Some((shape.field(name), value.get(name)?));
    }
    let items = value.as_array()?;
    let item = items.iter().find(|item| step_of(shape.list(), item).as_deref() == Some(step))?;
    Some((shape.item(), item))
}

/// Lays an applied configuration over an object: maps and keyed lists are merged, everything else replaced.
pub(super) fn lay_over(shape: &Shape, under: &Value, over: &Value) -> Value {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) if !shape.is_atomic() => {
            let mut merged = under.clone();
            for (name, value) in over {
                let below = merged.get(name).cloned().unwrap_or(Value::Null);
                merged.insert(name.clone(), lay_over(&shape.field(name), &below, value));
            }
            Value::Object(merged)
        }
        (Value::Array(under), Value::Array(over)) if shape.list() != ListKind::Atomic => lay_list(shape, under, over),
        // An absent map is merged as an empty one, so that nested keyed lists are treated alike.
        (Value::Null, Value::Object(over)) if !shape.is_atomic() => {
            let fields =
                over.iter().map(|(name, value)| (name.clone(), lay_over(&shape.field(name), &Value::Null, value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => over.clone(),
    }
}

/// Items keep their order; new ones come last.
fn lay_list(shape: &Shape, under: &[Value], over: &[Value]) -> Value {
    let mut merged = under.to_vec();
    for item in over {
        let step = step_of(shape.list(), item);
        let place = merged.iter_mut().find(|old| step.is_some() && step_of(shape.list(), old) == step);
        match place {
            Some(old) => *old = lay_over(&shape.item(), old, item),
            None => merged.push(item.clone()),
        }
    }
    Value::Array(merged)
}

/// Takes fields out of an object; what becomes empty by that goes too.
pub(super) fn prune(shape: &Shape, object: &mut Value, fields: &FieldSet) {
    for (step, inner) in &fields.children {
        match object {
            Value::Object(map) => prune_field(shape, map, step, inner),
            Value::Array(items) => prune_item(shape, items, step, inner),
            _ => {}
        }
    }
}

fn prune_field(shape: &Shape, map: &mut Map<String, Value>, step: &str, inner: &FieldSet) {
    let Some(name) = step.strip_prefix("f:") else { return };
    let Some(value) = map.get_mut(name) else { return };
    if !inner.member {
        prune(&shape.field(name), value, inner);
    }
    let emptied = value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    // Who set an empty map does not own what the server has put into it since.
    let filled = value.is_object() && !emptied && !shape.field(name).is_atomic();
    if emptied || (inner.member && !filled) {
        map.shift_remove(name);
    }
}

fn prune_item(shape: &Shape, items: &mut Vec<Value>, step: &str, inner: &FieldSet) {
    let Some(index) = items.iter().position(|item| step_of(shape.list(), item).as_deref() == Some(step)) else {
        return;
    };
    if inner.member {
        items.remove(index);
    } else if let Some(item) = items.get_mut(index) {
        prune(&shape.item(), item, inner);
    }
}
