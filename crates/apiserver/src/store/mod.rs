//! The store: every object of the API, one revision counter, watches that resume.
//!
//! All objects live in memory; reads never touch the disk.
//! [`Store::open`] keeps a redb database beside them and answers a write only when it is on the disk (`journal`);
//! [`Store::in_memory`] is the same store without that database.
//! Each resource has a bounded history of events (`state`), which serves watches from a revision and lists at a past revision.
//! What fell out of the history is compacted: asking for it gives [`StoreError::Compacted`].
//!
//! The store knows keys and revisions, not Kubernetes: the one field it writes is `metadata.resourceVersion`.
//! Rules about objects live in [`crate::registry`].

mod journal;
mod state;
mod watch;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;

use journal::Journal;
use state::State;

pub use watch::{Cursor, Progress};

/// Names one object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The resource with its group, as in `pods` or `jobs.batch`.
    pub resource: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} \"{}\"", self.resource, self.name)
        } else {
            write!(f, "{} \"{}/{}\"", self.resource, self.namespace, self.name)
        }
    }
}

/// An object as it was stored by the write of `revision`.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObject {
    /// The revision of the write that made this state; equals `metadata.resourceVersion`.
    pub revision: u64,
    /// The object, shared by all who read it.
    pub object: Arc<Value>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed; the event's object is its last state with the revision of the removal.
    Deleted,
}

/// One write, as watches see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The revision of the write.
    pub revision: u64,
    /// What happened.
    pub change: Change,
    /// To which object.
    pub key: ObjectKey,
    /// The new state, or for a removal the last one.
    pub object: Arc<Value>,
    /// The state before; absent for `Added`.
    pub previous: Option<StoredObject>,
}

/// What the stored state must be for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// There is no such object.
    Absent,
    /// The object stands at this revision.
    Revision(u64),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Creates or replaces an object.
    Put {
        /// Which object.
        key: ObjectKey,
        /// The new state. Its `metadata.resourceVersion` is set by the store.
        object: Value,
        /// The condition.
        expected: Expected,
    },
    /// Removes an object that stands at the revision given.
    Delete {
        /// Which object.
        key: ObjectKey,
        /// The revision it must have.
        revision: u64,
    },
}

/// What a write did.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// The object is stored so. Its revision is that of the write, or the old one if the write changed nothing.
    Stored(StoredObject),
    /// The object is gone; this was its last state, with the revision of the removal.
    Deleted(StoredObject),
}

impl Written {
    /// The object, stored or gone.
    pub fn into_object(self) -> StoredObject {
        match self {
            Self::Stored(object) | Self::Deleted(object) => object,
        }
    }
}

/// The objects of one resource at one revision, in the order of namespace and name.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The revision: a watch from here brings every later change, none twice.
    pub revision: u64,
    /// The objects.
    pub objects: Vec<StoredObject>,
}

/// Which objects [`Store::list`] gives.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListQuery<'a> {
    /// The resource with its group.
    pub resource: &'a str,
    /// One namespace, or all.
    pub namespace: Option<&'a str>,
    /// Only what comes after this namespace and name.
    pub after: Option<(&'a str, &'a str)>,
    /// The state at this revision; the newest if absent.
    pub at: Option<u64>,
}

/// Why the store refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A write expected no such object.
    #[error("{0} already exists")]
    AlreadyExists(ObjectKey),
    /// A write expected an object that is not there.
    #[error("{0} not found")]
    NotFound(ObjectKey),
    /// A write expected another revision.
    #[error("{key} stands at revision {actual}, not {expected}")]
    Conflict {
        /// Which object.
        key: ObjectKey,
        /// The revision that the writer knew.
        expected: u64,
        /// The revision that it has.
        actual: u64,
    },
    /// The revision lies before the history that is kept.
    #[error("too old resource version: {requested} ({oldest})")]
    Compacted {
        /// The revision asked for.
        requested: u64,
        /// The oldest revision that can be asked for.
        oldest: u64,
    },
    /// The revision has not happened yet.
    #[error("too large resource version: {requested}, current: {current}")]
    Future {
        /// The revision asked for.
        requested: u64,
        /// The newest revision.
        current: u64,
    },
    /// The database on the disk failed; what was asked is not stored.
    #[error("the database failed at {path}")]
    Database {
        /// The database's file.
        path: String,
        /// What it said.
        #[source]
        source: Arc<redb::Error>,
    },
    /// The database holds something that this program did not write.
    #[error("the database at {path} is damaged: {detail}")]
    Damaged {
        /// The database's file.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// The store was closed while the write waited.
    #[error("the store is closed")]
    Closed,
}

/// How much history a store keeps.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Events kept for each resource, beyond which the oldest are compacted.
    pub history_events: usize,
}

impl Default for StoreOptions {
    /// Four thousand events a resource: minutes of a busy machine, and well over the thousand that A-80 asks for.
    fn default() -> Self {
        Self { history_events: 4096 }
    }
}

/// The store. Clones share it; the database is closed when the last clone is dropped.
#[derive(Clone)]
pub struct Store {
    state: Arc<RwLock<State>>,
    journal: Option<Arc<Journal>>,
}

impl Store {
    /// A store that lives as long as the process.
    pub fn in_memory() -> Self {
        Self::in_memory_with(StoreOptions::default())
    }

    /// A store that lives as long as the process, with the options given.
    pub fn in_memory_with(options: StoreOptions) -> Self {
        Self { state: Arc::new(RwLock::new(State::new(0, options))), journal: None }
    }

    /// Opens the database file, or creates it, and reads every object into memory.
    ///
    /// Fails if another process has it open, if it cannot be read, or if it is not a database of this program.
    /// Blocks on the disk: call it outside of async tasks or with `spawn_blocking`.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        let (journal, state) = Journal::open(path, options)?;
        Ok(Self { state, journal: Some(Arc::new(journal)) })
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        read(&self.state).revision()
    }

    /// One object, if it is there.
    pub fn get(&self, key: &ObjectKey) -> Option<StoredObject> {
        read(&self.state).get(key).cloned()
    }

    /// Objects in the order of namespace and name, all of the same revision.
    ///
    /// Fails with [`StoreError::Compacted`] or [`StoreError::Future`] if the revision asked for cannot be given.
    pub fn list(&self, query: ListQuery<'_>) -> Result<Snapshot, StoreError> {
        read(&self.state).list(query)
    }

    /// Writes. When this returns, every later read and watch sees it, and a durable store has it on the disk.
    ///
    /// A put that changes nothing returns the stored object and is no write.
    pub async fn write(&self, write: Write) -> Result<Written, StoreError> {
        match &self.journal {
            Some(journal) => journal.write(write).await,
            None => {
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                let step = state.plan(write, None)?;
                Ok(state.apply(step))
            }
        }
    }

    /// Every write to the resource after the revision given, as it happens.
    ///
    /// Fails with [`StoreError::Compacted`] or [`StoreError::Future`].
    pub fn watch(&self, resource: &str, after: u64) -> Result<Cursor, StoreError> {
        Cursor::new(Arc::clone(&self.state), resource, after)
    }

    /// How many objects the resource has.
    pub fn count(&self, resource: &str) -> usize {
        read(&self.state).count(resource)
    }
}

/// A poisoned lock is entered all the same: the state changes only by whole steps that cannot panic half-way.
fn read(state: &RwLock<State>) -> RwLockReadGuard<'_, State> {
    state.read().unwrap_or_else(PoisonError::into_inner)
}
