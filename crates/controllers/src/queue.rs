//! The work queue of one controller: which keys are due, which wait for answers, which are held back after a refusal.
//!
//! A key is in work at most once at a time (J-71): while writes of it are not answered, it only notes that it is due again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::time::after;

/// The wait after a refused write: doubling from the first to the last (J-65).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryDelay {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

impl RetryDelay {
    /// The wait after this many refusals in a row.
    pub(crate) fn after_failures(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.last)
    }
}

#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    entries: BTreeMap<K, Entry>,
    due: BTreeSet<(Timestamp, K)>,
    retry: RetryDelay,
}

#[derive(Debug, Default)]
struct Entry {
    due: Option<Timestamp>,
    in_flight: usize,
    /// A write of those in flight was refused.
    refused: bool,
    failures: u32,
}

impl<K: Clone + Ord> WorkQueue<K> {
    pub(crate) fn new(retry: RetryDelay) -> Self {
        WorkQueue { entries: BTreeMap::new(), due: BTreeSet::new(), retry }
    }

    /// Makes the key due at the time given, or earlier if it is due earlier.
    pub(crate) fn add(&mut self, key: K, at: Timestamp) {
        let entry = self.entries.entry(key.clone()).or_default();
        if entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(later) = entry.due.replace(at) {
            self.due.remove(&(later, key.clone()));
        }
        if entry.in_flight == 0 {
            self.due.insert((at, key));
        }
    }

    /// The next key that is due and waits for nothing.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Option<K> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, key) = self.due.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.due = None;
        }
        Some(key)
    }

    /// Notes that writes for the key have been sent out; with none, the key is at rest.
    pub(crate) fn sent(&mut self, key: &K, writes: usize) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.in_flight += writes;
        if entry.in_flight == 0 && entry.due.is_none() {
            self.entries.remove(key);
        } else if writes > 0
            && let Some(at) = entry.due
        {
            self.due.remove(&(at, key.clone()));
        }
    }

    /// Notes the answer to one of the key's writes. After the last one the key is due again: at once, or after a wait if one was refused.
    pub(crate) fn answered(&mut self, key: &K, refused: bool, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        entry.refused |= refused;
        if entry.in_flight > 0 {
            return;
        }
        let again = if entry.refused {
            entry.failures = entry.failures.saturating_add(1);
            after(now, self.retry.after_failures(entry.failures))
        } else {
            entry.failures = 0;
            now
        };
        entry.refused = false;
        let at = entry.due.map_or(again, |due| due.min(again));
        entry.due = Some(at);
        self.due.insert((at, key.clone()));
    }

    /// When the next key is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetryDelay = RetryDelay { first: Duration::from_secs(1), last: Duration::from_secs(60) };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    #[test]
    fn the_earliest_time_wins_and_a_key_is_taken_once() {
        let mut queue = WorkQueue::new(RETRY);
        queue.add("a", at(9));
        queue.add("a", at(5));
        queue.add("a", at(7));
        assert_eq!(queue.next_due(), Some(at(5)));
        assert_eq!(queue.take_due(at(4)), None);
        assert_eq!(queue.take_due(at(5)), Some("a"));
        assert_eq!(queue.take_due(at(9)), None);
    }

    #[test]
    fn j71_a_key_with_writes_in_flight_waits_for_the_last_answer() {
        let mut queue = WorkQueue::new(RETRY);
        queue.add("a", at(1));
        assert_eq!(queue.take_due(at(1)), Some("a"));
        queue.sent(&"a", 2);
        queue.add("a", at(1));
        assert_eq!(queue.take_due(at(9)), None);
        queue.answered(&"a", false, at(10));
        assert_eq!(queue.take_due(at(10)), None);
        queue.answered(&"a", false, at(11));
        assert_eq!(queue.take_due(at(11)), Some("a"));
        queue.sent(&"a", 0);
        assert_eq!(queue.next_due(), None);
        assert!(queue.entries.is_empty());
    }

    #[test]
    fn j65_refusals_double_the_wait_up_to_a_minute_and_success_resets_it() {
        let mut queue = WorkQueue::new(RETRY);
        let mut now = at(0);
        let mut waits = Vec::new();
        queue.add("a", now);
        for refused in [true, true, true, true, true, true, true, true, false, true] {
            assert_eq!(queue.take_due(now), Some("a"));
            queue.sent(&"a", 1);
            queue.answered(&"a", refused, now);
            let due = queue.next_due().unwrap_or_default();
            waits.push(due.as_second() - now.as_second());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 0, 1]);
    }
}
