//! Arithmetic on the times that drivers pass in.
//!
//! Nothing here reads a clock.
//! Sums stop at the ends of time instead of failing: the numbers come from manifests.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// `duration` after `moment`.
pub(crate) fn after(moment: Timestamp, duration: Duration) -> Timestamp {
    moment.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// `duration` before `moment`.
pub(crate) fn before(moment: Timestamp, duration: Duration) -> Timestamp {
    moment.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

/// What has passed from `earlier` to `later`; nothing if they stand the other way round.
pub(crate) fn elapsed(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or(Duration::ZERO)
}

/// The whole seconds that have passed (L-603: fractions do not count).
pub(crate) fn elapsed_seconds(earlier: Timestamp, later: Timestamp) -> i64 {
    i64::try_from(elapsed(earlier, later).as_secs()).unwrap_or(i64::MAX)
}

/// A number of seconds from a manifest; negative counts as none.
pub(crate) fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

/// A moment as the API keeps it: to the second (L-725).
pub(crate) fn to_the_second(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}

/// The earlier of two deadlines, either of which may be missing.
pub(crate) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
