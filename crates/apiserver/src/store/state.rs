//! What is stored, and the last events of each resource.
//!
//! Pure: a write is planned against the state ([`State::plan`]) and then applied ([`State::apply`]);
//! between the two the journal puts it on the disk.
//! Lists at a past revision are made by undoing the events that came after it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::{
    Change, Event, Expected, ListQuery, ObjectKey, Snapshot, StoreError, StoreOptions, StoredObject, Write, Written,
};

/// Everything that is stored.
pub(super) struct State {
    revision: u64,
    /// The revision at which this process began: there is no history before it.
    opened_at: u64,
    options: StoreOptions,
    resources: BTreeMap<String, ResourceState>,
}

/// The objects of one resource and its last events.
struct ResourceState {
    objects: BTreeMap<(String, String), StoredObject>,
    history: VecDeque<Arc<Event>>,
    /// The history holds every event after this revision.
    compacted: u64,
    /// Tells watches the revision of the resource's last event.
    written: watch::Sender<u64>,
}

/// A write that can be applied: what it does, at which revision.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Nothing changes.
    Unchanged(StoredObject),
    /// An event to be applied.
    Event(Arc<Event>),
}

impl Step {
    /// The state of the object after the step: `None` if it is gone.
    fn after(&self) -> Option<StoredObject> {
        match self {
            Self::Unchanged(object) => Some(object.clone()),
            Self::Event(event) => match event.change {
                Change::Deleted => None,
                Change::Added | Change::Modified => {
                    Some(StoredObject { revision: event.revision, object: Arc::clone(&event.object) })
                }
            },
        }
    }
}

/// Steps that are planned but not applied yet, so that later writes of the same batch see them.
#[derive(Default)]
pub(super) struct Pending {
    revision: Option<u64>,
    objects: BTreeMap<ObjectKey, Option<StoredObject>>,
}

impl State {
    pub(super) fn new(revision: u64, options: StoreOptions) -> Self {
        Self { revision, opened_at: revision, options, resources: BTreeMap::new() }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.resources.get(&key.resource)?.objects.get(&(key.namespace.clone(), key.name.clone()))
    }

    pub(super) fn count(&self, resource: &str) -> usize {
        self.resources.get(resource).map_or(0, |state| state.objects.len())
    }

    /// Puts an object in place as it was read from the disk: no event, no new revision.
    pub(super) fn restore(&mut self, key: ObjectKey, stored: StoredObject) {
        self.resource_mut(&key.resource).objects.insert((key.namespace, key.name), stored);
    }

    /// Checks a write against the state (and the batch before it) and says what it does.
    pub(super) fn plan(&self, write: Write, pending: Option<&mut Pending>) -> Result<Step, StoreError> {
        let mut none = Pending::default();
        let pending = pending.unwrap_or(&mut none);
        let revision = pending.revision.unwrap_or(self.revision) + 1;
        let key = match &write {
            Write::Put { key, .. } | Write::Delete { key, .. } => key.clone(),
        };
        let current = match pending.objects.get(&key) {
            Some(planned) => planned.clone(),
            None => self.get(&key).cloned(),
        };
        let step = match write {
            Write::Put { key, object, expected } => plan_put(key, object, expected, current, revision)?,
            Write::Delete { key, revision: expected } => plan_delete(key, expected, current, revision)?,
        };
        if matches!(step, Step::Event(_)) {
            pending.revision = Some(revision);
            pending.objects.insert(key, step.after());
        }
        Ok(step)
    }

    /// Applies a planned step and wakes the watches.
    pub(super) fn apply(&mut self, step: Step) -> Written {
        let event = match step {
            Step::Unchanged(object) => return Written::Stored(object),
            Step::Event(event) => event,
        };
        self.revision = event.revision;
        let limit = self.options.history_events.max(1);
        let stored = StoredObject { revision: event.revision, object: Arc::clone(&event.object) };
        let resource = self.resource_mut(&event.key.resource);
        let name = (event.key.namespace.clone(), event.key.name.clone());
        let written = match event.change {
            Change::Deleted => {
                resource.objects.remove(&name);
                Written::Deleted(stored)
            }
            Change::Added | Change::Modified => {
                resource.objects.insert(name, stored.clone());
                Written::Stored(stored)
            }
        };
        resource.remember(event, limit);
        written
    }

    pub(super) fn list(&self, query: ListQuery<'_>) -> Result<Snapshot, StoreError> {
        let at = query.at.unwrap_or(self.revision);
        self.check_revision(query.resource, at)?;
        let Some(resource) = self.resources.get(query.resource) else {
            return Ok(Snapshot { revision: at, objects: Vec::new() });
        };
        let objects = if at == self.revision {
            resource
                .objects
                .iter()
                .filter(|(name, _)| selects(&query, name))
                .map(|(_, stored)| stored.clone())
                .collect()
        } else {
            resource
                .objects_at(at)
                .into_iter()
                .filter(|(name, _)| selects(&query, name))
                .map(|(_, stored)| stored)
                .collect()
        };
        Ok(Snapshot { revision: at, objects })
    }

    /// Fails if the resource's history does not reach back to the revision, or it has not happened.
    pub(super) fn check_revision(&self, resource: &str, revision: u64) -> Result<(), StoreError> {
        if revision > self.revision {
            return Err(StoreError::Future { requested: revision, current: self.revision });
        }
        let oldest = self.resources.get(resource).map_or(self.opened_at, |state| state.compacted);
        if revision < oldest {
            return Err(StoreError::Compacted { requested: revision, oldest });
        }
        Ok(())
    }

    /// The events of the resource after the revision, oldest first, and the revision up to which they are complete.
    pub(super) fn events_after(&self, resource: &str, after: u64) -> Result<(Vec<Arc<Event>>, u64), StoreError> {
        self.check_revision(resource, after)?;
        let events = self.resources.get(resource).map_or_else(Vec::new, |state| {
            let first = state.history.partition_point(|event| event.revision <= after);
            state.history.iter().skip(first).cloned().collect()
        });
        Ok((events, self.revision))
    }

    /// What tells that the resource was written.
    pub(super) fn subscribe(&mut self, resource: &str) -> watch::Receiver<u64> {
        self.resource_mut(resource).written.subscribe()
    }

    fn resource_mut(&mut self, resource: &str) -> &mut ResourceState {
        let opened_at = self.opened_at;
        self.resources.entry(resource.to_owned()).or_insert_with(|| ResourceState {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            compacted: opened_at,
            written: watch::Sender::new(opened_at),
        })
    }
}

impl ResourceState {
    fn remember(&mut self, event: Arc<Event>, limit: usize) {
        let revision = event.revision;
        self.history.push_back(event);
        while self.history.len() > limit {
            if let Some(dropped) = self.history.pop_front() {
                self.compacted = dropped.revision;
            }
        }
        self.written.send_replace(revision);
    }

    /// The objects as they were at a revision that the history reaches.
    fn objects_at(&self, revision: u64) -> BTreeMap<(String, String), StoredObject> {
        let mut objects = self.objects.clone();
        for event in self.history.iter().rev().take_while(|event| event.revision > revision) {
            let name = (event.key.namespace.clone(), event.key.name.clone());
            match &event.previous {
                Some(previous) => objects.insert(name, previous.clone()),
                None => objects.remove(&name),
            };
        }
        objects
    }
}

fn selects(query: &ListQuery<'_>, (namespace, name): &(String, String)) -> bool {
    query.namespace.is_none_or(|wanted| wanted == namespace)
        && query.after.is_none_or(|after| (namespace.as_str(), name.as_str()) > after)
}

fn plan_put(
    key: ObjectKey,
    mut object: Value,
    expected: Expected,
    current: Option<StoredObject>,
    revision: u64,
) -> Result<Step, StoreError> {
    check_expected(&key, expected, current.as_ref())?;
    if let Some(current) = &current {
        set_resource_version(&mut object, current.revision);
        if object == *current.object {
            return Ok(Step::Unchanged(current.clone()));
        }
    }
    set_resource_version(&mut object, revision);
    let change = if current.is_some() { Change::Modified } else { Change::Added };
    Ok(Step::Event(Arc::new(Event { revision, change, key, object: Arc::new(object), previous: current })))
}

fn plan_delete(
    key: ObjectKey,
    expected: u64,
    current: Option<StoredObject>,
    revision: u64,
) -> Result<Step, StoreError> {
    check_expected(&key, Expected::Revision(expected), current.as_ref())?;
    let Some(current) = current else { return Err(StoreError::NotFound(key)) };
    let mut object = Value::clone(&current.object);
    set_resource_version(&mut object, revision);
    Ok(Step::Event(Arc::new(Event {
        revision,
        change: Change::Deleted,
        key,
        object: Arc::new(object),
        previous: Some(current),
    })))
}

fn check_expected(key: &ObjectKey, expected: Expected, current: Option<&StoredObject>) -> Result<(), StoreError> {
    match (expected, current) {
        (Expected::Absent, None) => Ok(()),
        (Expected::Absent, Some(_)) => Err(StoreError::AlreadyExists(key.clone())),
        (Expected::Revision(_), None) => Err(StoreError::NotFound(key.clone())),
        (Expected::Revision(expected), Some(current)) if expected == current.revision => Ok(()),
        (Expected::Revision(expected), Some(current)) => {
            Err(StoreError::Conflict { key: key.clone(), expected, actual: current.revision })
        }
    }
}

/// Sets `metadata.resourceVersion`; an object without a metadata map gets one.
fn set_resource_version(object: &mut Value, revision: u64) {
    let Value::Object(fields) = object else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
}
