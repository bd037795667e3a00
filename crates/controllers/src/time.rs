//! Times as the API stores them: whole seconds, and sums that stay in range.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The moment a duration later, at most the last one that there is.
pub(crate) fn after(start: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| start.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

/// The moment a number of seconds later (or earlier), within what there is.
pub(crate) fn after_seconds(start: Timestamp, seconds: i64) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    start.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(limit)
}

/// A moment as the API stores it: the fraction of the second is cut off.
pub(crate) fn api_time(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_in_range() {
        assert_eq!(after(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
        assert_eq!(after_seconds(Timestamp::MIN, -1), Timestamp::MIN);
        assert_eq!(after_seconds(Timestamp::UNIX_EPOCH, i64::MAX), Timestamp::MAX);
    }
}
