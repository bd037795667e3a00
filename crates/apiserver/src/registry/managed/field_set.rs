//! Sets of fields, and how `fieldsV1` writes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{ListKind, Shape};

/// Fields that are nobody's: the server's own, and what names the object.
const UNOWNED: &[&[&str]] = &[
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:generateName"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:deletionTimestamp"],
    &["f:metadata", "f:deletionGracePeriodSeconds"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:resourceVersion"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:managedFields"],
];

/// A set of fields: a tree whose nodes may be members themselves.
///
/// Steps are written as in `fieldsV1`: `f:name`, `k:{"name":"c"}`, `v:"text"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) member: bool,
    pub(super) children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// Every field that an object sets.
    pub(super) fn of(shape: &Shape, object: &Value) -> Self {
        let mut set = Self::default();
        set.take(shape, object);
        set.member = false;
        set.drop_unowned()
    }

    fn take(&mut self, shape: &Shape, value: &Value) {
        match value {
            Value::Object(fields) if !shape.is_atomic() && !fields.is_empty() => {
                for (name, value) in fields {
                    self.children.entry(format!("f:{name}")).or_default().take(&shape.field(name), value);
                }
            }
            Value::Array(items) if shape.list() != ListKind::Atomic && !items.is_empty() => {
                for item in items {
                    let Some(step) = step_of(shape.list(), item) else { continue };
                    let child = self.children.entry(step).or_default();
                    if matches!(shape.list(), ListKind::By(_)) {
                        child.take(&shape.item(), item);
                    }
                    // An item of a list is a member besides its fields.
                    child.member = true;
                }
            }
            _ => self.member = true,
        }
    }

    /// The same without what is nobody's.
    pub(super) fn drop_unowned(mut self) -> Self {
        for path in UNOWNED {
            self.remove_path(path);
        }
        self
    }

    fn remove_path(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                self.children.remove(*last);
            }
            [first, rest @ ..] => {
                if let Some(child) = self.children.get_mut(*first) {
                    child.remove_path(rest);
                    if child.is_empty() {
                        self.children.remove(*first);
                    }
                }
            }
        }
    }

    /// Only these top-level fields.
    pub(super) fn only(mut self, names: &[&str]) -> Self {
        self.children.retain(|step, _| names.iter().any(|name| step.strip_prefix("f:") == Some(name)));
        self
    }

    /// All but these top-level fields.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.children.retain(|step, _| !names.iter().any(|name| step.strip_prefix("f:") == Some(name)));
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// What is in either.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut set = self.clone();
        set.member |= other.member;
        for (step, child) in &other.children {
            let merged = set.children.get(step).map_or_else(|| child.clone(), |own| own.union(child));
            set.children.insert(step.clone(), merged);
        }
        set
    }

    /// What is in this and not in the other.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, child)| {
            let rest = other.children.get(step).map_or_else(|| child.clone(), |other| child.minus(other));
            (!rest.is_empty()).then(|| (step.clone(), rest))
        });
        Self { member: self.member && !other.member, children: children.collect() }
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(step, child)| {
            let both = child.intersection(other.children.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self { member: self.member && other.member, children: children.collect() }
    }

    /// The members as paths: `.spec.containers[name="c"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        if self.member {
            paths.push(prefix.to_owned());
        }
        for (step, child) in &self.children {
            child.collect_paths(&format!("{prefix}{}", readable(step)), paths);
        }
    }

    /// As `fieldsV1` writes it.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (step, child) in &self.children {
            map.insert(step.clone(), child.to_json());
        }
        Value::Object(map)
    }

    /// Reads `fieldsV1`.
    pub(super) fn from_json(value: &Value) -> Self {
        let fields = value.as_object();
        let inner = fields.into_iter().flatten().filter(|(step, _)| *step != ".");
        let children: BTreeMap<_, _> = inner.map(|(step, value)| (step.clone(), Self::from_json(value))).collect();
        let member = children.is_empty() || fields.is_some_and(|fields| fields.contains_key("."));
        Self { member, children }
    }
}

/// The step to an item of a list; `None` for an item without its key.
pub(super) fn step_of(list: ListKind, item: &Value) -> Option<String> {
    match list {
        ListKind::Atomic => None,
        ListKind::Set => Some(format!("v:{item}")),
        ListKind::By(keys) => Some(format!("k:{}", Value::from_iter(Shape::key_of(keys, item)?))),
    }
}

fn readable(step: &str) -> String {
    if let Some(name) = step.strip_prefix("f:") {
        return format!(".{name}");
    }
    if let Some(value) = step.strip_prefix("v:") {
        return format!("[={value}]");
    }
    let keys: Map<String, Value> =
        step.strip_prefix("k:").and_then(|keys| serde_json::from_str(keys).ok()).unwrap_or_default();
    let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("[{}]", keys.join(","))
}
