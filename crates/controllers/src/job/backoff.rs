//! The wait before failed pods are replaced (J-85 to J-90).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::time::after;

/// The failures of a Job since its last success.
///
/// It is made of the pods that are still there, and remembers those that have gone:
/// so a controller that starts anew goes on waiting as long as the failed pods stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureRecord {
    last_success: Option<Timestamp>,
    failures: BTreeMap<String, Timestamp>,
}

impl FailureRecord {
    /// Notes that a pod succeeded, and when.
    pub(crate) fn succeeded(&mut self, at: Timestamp) {
        self.last_success = self.last_success.max(Some(at));
    }

    /// Notes that a pod failed, and when; the first word on a pod counts.
    pub(crate) fn failed(&mut self, uid: &str, at: Timestamp) {
        self.failures.entry(uid.to_owned()).or_insert(at);
    }

    /// When the next pod may be created: after 10 s, doubling with each failure since the last success, from the newest failure on.
    pub(crate) fn ready_at(&mut self, initial: Duration, max: Duration) -> Option<Timestamp> {
        let last_success = self.last_success;
        self.failures.retain(|_, at| last_success.is_none_or(|success| *at > success));
        let count = u32::try_from(self.failures.len()).unwrap_or(u32::MAX);
        let newest = self.failures.values().max()?;
        Some(after(*newest, delay(count, initial, max)))
    }
}

/// The wait after this many failures.
pub(crate) fn delay(failures: u32, initial: Duration, max: Duration) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doublings = failures.saturating_sub(1).min(31);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    initial.saturating_mul(factor).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: Duration = Duration::from_secs(10);
    const MAX: Duration = Duration::from_secs(600);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    #[test]
    fn j85_ten_seconds_double_up_to_ten_minutes() {
        let waits: Vec<u64> = (0..10).map(|n| delay(n, INITIAL, MAX).as_secs()).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 600, 600, 600]);
        assert_eq!(delay(u32::MAX, INITIAL, MAX), MAX);
    }

    #[test]
    fn j85_pods_that_fail_together_count_one_each_and_the_newest_starts_the_wait() {
        let mut record = FailureRecord::default();
        assert_eq!(record.ready_at(INITIAL, MAX), None);
        record.failed("a", at(100));
        record.failed("b", at(103));
        assert_eq!(record.ready_at(INITIAL, MAX), Some(at(123)));
    }

    #[test]
    fn j85_a_success_leaves_only_the_failures_after_it() {
        let mut record = FailureRecord::default();
        record.failed("a", at(100));
        record.failed("b", at(110));
        record.failed("c", at(120));
        record.succeeded(at(110));
        assert_eq!(record.ready_at(INITIAL, MAX), Some(at(130)));
        record.succeeded(at(200));
        assert_eq!(record.ready_at(INITIAL, MAX), None);
    }
}
