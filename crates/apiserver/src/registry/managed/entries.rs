//! The entries of `metadata.managedFields`.

use serde_json::{Value, json};

use super::field_set::FieldSet;
use crate::value;

/// Entries that are kept for updates; older ones of them are merged into one (as Kubernetes does from eleven on).
const UPDATE_ENTRIES_MAX: usize = 10;

/// The manager that merged entries have.
const ANCIENT: &str = "ancient-changes";

/// Who owns, and through what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    owner: Owner,
    time: String,
    set: FieldSet,
}

/// Every entry of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entries {
    /// Reads an object's entries.
    pub(super) fn of(object: &Value) -> Self {
        let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let entries = list.into_iter().flatten().map(|entry| {
            let text = |pointer: &str| value::text(entry, pointer).unwrap_or_default().to_owned();
            let owner = Owner {
                manager: text("/manager"),
                operation: text("/operation"),
                api_version: text("/apiVersion"),
                subresource: text("/subresource"),
            };
            let set = entry.get("fieldsV1").map(FieldSet::from_json).unwrap_or_default();
            Entry { owner, time: text("/time"), set }
        });
        Self(entries.filter(|entry| !entry.owner.operation.is_empty()).collect())
    }

    pub(super) fn set_of(&self, owner: &Owner) -> Option<&FieldSet> {
        self.0.iter().find(|entry| entry.owner == *owner).map(|entry| &entry.set)
    }

    /// What anybody else owns.
    pub(super) fn union_of_others(&self, owner: &Owner) -> FieldSet {
        let others = self.0.iter().filter(|entry| entry.owner != *owner);
        others.fold(FieldSet::default(), |union, entry| union.union(&entry.set))
    }

    /// Who else owns which of the fields.
    pub(super) fn conflicts(&self, owner: &Owner, fields: &FieldSet) -> Vec<(Owner, Vec<String>)> {
        let others = self.0.iter().filter(|entry| entry.owner != *owner);
        let conflicts = others.map(|entry| (entry.owner.clone(), entry.set.intersection(fields).paths()));
        conflicts.filter(|(_, paths)| !paths.is_empty()).collect()
    }

    pub(super) fn remove_from_others(&mut self, owner: &Owner, fields: &FieldSet) {
        self.0.iter_mut().filter(|entry| entry.owner != *owner).for_each(|entry| entry.set = entry.set.minus(fields));
    }

    pub(super) fn remove_from_all(&mut self, fields: &FieldSet) {
        self.0.iter_mut().for_each(|entry| entry.set = entry.set.minus(fields));
    }

    /// Gives fields to an owner besides those it has.
    pub(super) fn add(&mut self, owner: Owner, fields: FieldSet, time: &str) {
        let union = self.set_of(&owner).map_or_else(|| fields.clone(), |set| set.union(&fields));
        self.0.retain(|entry| entry.owner != owner);
        self.0.push(Entry { owner, time: time.to_owned(), set: union });
        self.merge_old_updates();
    }

    /// Gives an owner exactly these fields; the time moves only if they are others than before.
    pub(super) fn set(&mut self, owner: Owner, fields: FieldSet, time: &str) {
        match self.0.iter_mut().find(|entry| entry.owner == owner) {
            Some(entry) if entry.set == fields => {}
            Some(entry) => {
                entry.set = fields;
                entry.time = time.to_owned();
            }
            None => self.0.push(Entry { owner, time: time.to_owned(), set: fields }),
        }
    }

    fn merge_old_updates(&mut self) {
        let is_update = |entry: &Entry| entry.owner.operation == "Update";
        while self.0.iter().filter(|entry| is_update(entry)).count() > UPDATE_ENTRIES_MAX {
            let oldest = self.0.iter().position(|entry| is_update(entry) && entry.owner.manager != ANCIENT);
            let Some(oldest) = oldest else { return };
            let old = self.0.remove(oldest);
            let ancient = Owner { manager: ANCIENT.to_owned(), ..old.owner };
            let union = self.set_of(&ancient).map_or_else(|| old.set.clone(), |set| set.union(&old.set));
            self.0.retain(|entry| entry.owner != ancient);
            self.0.insert(0, Entry { owner: ancient, time: old.time, set: union });
        }
    }

    /// Writes the entries into an object; empty ones vanish.
    pub(super) fn write_into(&self, object: &mut Value) {
        let entries = self.0.iter().filter(|entry| !entry.set.is_empty()).map(|entry| {
            let Owner { manager, operation, api_version, subresource } = &entry.owner;
            let mut json = json!({"manager": manager, "operation": operation, "apiVersion": api_version,
                "fieldsType": "FieldsV1", "fieldsV1": entry.set.to_json()});
            for (name, text) in [("time", &entry.time), ("subresource", subresource)] {
                if !text.is_empty() {
                    value::set(&mut json, &[name], json!(text));
                }
            }
            json
        });
        let entries: Vec<Value> = entries.collect();
        if entries.is_empty() {
            value::remove(object, &["metadata", "managedFields"]);
        } else {
            value::set(object, &["metadata", "managedFields"], Value::Array(entries));
        }
    }
}
