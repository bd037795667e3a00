//! A watch's place in the history of one resource.
//!
//! A cursor holds no queue: it reads from the shared history when it is told that there is something new.
//! Five hundred cursors therefore cost five hundred numbers, and a slow one costs nothing until it falls behind the history,
//! where it ends with [`StoreError::Compacted`], the API's 410.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::state::State;
use super::{Event, StoreError, read};

/// What a cursor found: events, and how far it has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The events, oldest first; empty if other resources alone were written.
    pub events: Vec<Arc<Event>>,
    /// Every write up to this revision has been seen; good for a bookmark.
    pub revision: u64,
}

/// Reads the events of one resource in order, from a revision on.
pub struct Cursor {
    state: Arc<RwLock<State>>,
    resource: String,
    revision: u64,
    written: watch::Receiver<u64>,
}

impl Cursor {
    pub(super) fn new(state: Arc<RwLock<State>>, resource: &str, after: u64) -> Result<Self, StoreError> {
        let written = {
            let mut state = state.write().unwrap_or_else(PoisonError::into_inner);
            state.check_revision(resource, after)?;
            state.subscribe(resource)
        };
        Ok(Self { state, resource: resource.to_owned(), revision: after, written })
    }

    /// Every write up to this revision has been seen.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What has happened since the last call; returns at once.
    ///
    /// Fails with [`StoreError::Compacted`] if the cursor was left behind.
    pub fn poll(&mut self) -> Result<Progress, StoreError> {
        self.written.mark_unchanged();
        let (events, revision) = read(&self.state).events_after(&self.resource, self.revision)?;
        self.revision = revision;
        Ok(Progress { events, revision })
    }

    /// Waits until something has happened. Cancelling it loses nothing.
    ///
    /// Fails with [`StoreError::Compacted`] if the cursor was left behind.
    pub async fn next(&mut self) -> Result<Progress, StoreError> {
        loop {
            let progress = self.poll()?;
            if !progress.events.is_empty() {
                return Ok(progress);
            }
            if self.written.changed().await.is_err() {
                return Err(StoreError::Closed);
            }
        }
    }
}
