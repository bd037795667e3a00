//! Events are kept for an hour.
//!
//! Old ones are removed when new ones come, at most once a minute: no timer, and an idle server keeps what it has.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use serde_json::Value;

use super::Registry;
use crate::resource::ResourceType;
use crate::store::{ListQuery, ObjectKey, Write};
use crate::value;

/// How long events are kept.
const KEPT_SECONDS: i64 = 3600;
/// How often old ones are looked for.
const SWEEP_SECONDS: i64 = 60;

/// When old events were last looked for, in seconds since 1970.
#[derive(Debug, Default)]
pub(super) struct LastSweep(AtomicI64);

impl LastSweep {
    /// True once in a while, for one caller.
    fn is_due(&self, now: i64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        let due = now - last >= SWEEP_SECONDS;
        due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Registry {
    /// Follows the creation of an event: removes those whose time has passed.
    pub(super) async fn expire_events(&self, resource: &ResourceType) {
        let now = self.now().as_second();
        if !self.last_sweep.is_due(now) {
            return;
        }
        let storage = resource.storage();
        let Ok(snapshot) = self.store.list(ListQuery { resource: &storage, ..ListQuery::default() }) else { return };
        for stored in snapshot.objects {
            if last_seen(&stored.object).is_none_or(|seen| now - seen < KEPT_SECONDS) {
                continue;
            }
            let text = |pointer: &str| value::text(&stored.object, pointer).unwrap_or_default().to_owned();
            let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
            let key = ObjectKey { resource: storage.clone(), namespace, name };
            // One that was written or removed meanwhile is left to the next time.
            drop(self.store.write(Write::Delete { key, revision: stored.revision }).await);
        }
    }
}

/// When an event was last seen, in seconds since 1970: the newest of its times.
fn last_seen(event: &Value) -> Option<i64> {
    let times = ["/lastTimestamp", "/series/lastObservedTime", "/eventTime", "/metadata/creationTimestamp"];
    let seconds = |pointer: &str| Some(value::text(event, pointer)?.parse::<Timestamp>().ok()?.as_second());
    times.into_iter().filter_map(seconds).max()
}
