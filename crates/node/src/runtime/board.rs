//! Which pods have changed since they were last looked at.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lifecycle::{PodRef, PodUid};
use tokio::sync::Notify;

/// A set of pods; each is in it once, however often it changed, so it can never overflow.
#[derive(Debug, Default)]
pub(super) struct Board {
    pods: Mutex<BTreeMap<PodUid, PodRef>>,
    is_marked: Notify,
}

impl Board {
    /// Says that a pod has changed.
    pub(super) fn mark(&self, pod: &PodRef) {
        self.pods().insert(pod.uid.clone(), pod.clone());
        self.is_marked.notify_one();
    }

    /// Waits for a pod that has changed and takes it.
    pub(super) async fn take(&self) -> PodRef {
        loop {
            // Asked for before the look, so that a mark in between is not missed.
            let marked = self.is_marked.notified();
            let first = self.pods().pop_first();
            match first {
                Some((_, pod)) => return pod,
                None => marked.await,
            }
        }
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, PodRef>> {
        // A set is whole at every moment, whoever panicked.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
