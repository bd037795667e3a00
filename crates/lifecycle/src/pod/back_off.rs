//! Exponential back-off as client-go counts it.
//!
//! It holds numbers only; what is backed off from, and which time counts, is the caller's business.

use std::time::Duration;

use jiff::Timestamp;

use crate::time::{after, elapsed};

/// First and longest wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOffLimits {
    pub(crate) initial: Duration,
    pub(crate) max: Duration,
}

/// One counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackOff {
    entry: Option<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    delay: Duration,
    last_update: Timestamp,
}

impl BackOff {
    /// Until when what ended at `since` must wait; `None` if it need not wait at `now` (L-307).
    pub(crate) fn waits_until(&self, since: Timestamp, now: Timestamp, limits: BackOffLimits) -> Option<Timestamp> {
        let entry = self.entry.filter(|entry| !entry.is_stale(since, limits))?;
        let until = after(since, entry.delay);
        (now < until).then_some(until)
    }

    /// The wait that counts at present.
    pub(crate) fn delay(&self) -> Duration {
        self.entry.map_or(Duration::ZERO, |entry| entry.delay)
    }

    /// Counts one more try: the first wait if there is no entry or what ended at `since` had run for long, else twice the last.
    pub(crate) fn count(&mut self, since: Timestamp, now: Timestamp, limits: BackOffLimits) {
        let delay = match self.entry {
            Some(entry) if !entry.is_stale(since, limits) => entry.delay.saturating_mul(2).min(limits.max),
            _ => limits.initial.min(limits.max),
        };
        self.entry = Some(Entry { delay, last_update: now });
    }

    /// Forgets all tries.
    pub(crate) fn clear(&mut self) {
        self.entry = None;
    }
}

impl Entry {
    fn is_stale(&self, since: Timestamp, limits: BackOffLimits) -> bool {
        elapsed(self.last_update, since) > limits.max.saturating_mul(2)
    }
}
