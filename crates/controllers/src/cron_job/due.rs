//! When a CronJob is due: the newest time that it missed, and the next one (J-132).

use std::time::Duration;

use api::cron::{Schedule, find_time_zone};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::batch::v1::CronJobSpec;
use thiserror::Error;

use crate::time::{after, after_seconds};

/// Clocks may differ by this much; the next look comes that much after the due time.
const CLOCK_SKEW: Duration = Duration::from_millis(100);
/// More missed times than this are told as too many.
const MISSED_MAX: i64 = 100;

/// Why a CronJob has no times.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoTimes {
    /// `spec.timeZone` names none.
    #[error("invalid timeZone: {0:?}: unknown time zone {0}")]
    UnknownTimeZone(String),
    /// `spec.schedule` can't be read.
    #[error("unparseable schedule: {schedule:?} : {why}")]
    Unparseable {
        /// The schedule.
        schedule: String,
        /// What is wrong with it.
        why: String,
    },
    /// `spec.schedule` never comes.
    #[error("invalid schedule: {schedule} : time difference between two schedules is less than 1 second")]
    Invalid {
        /// The schedule.
        schedule: String,
    },
}

impl NoTimes {
    /// The reason of the event that tells it (J-136).
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            NoTimes::UnknownTimeZone(_) => "UnknownTimeZone",
            NoTimes::Unparseable { .. } => "UnparseableSchedule",
            NoTimes::Invalid { .. } => "InvalidSchedule",
        }
    }
}

/// The times of a CronJob.
#[derive(Debug)]
pub(crate) struct Times {
    schedule: Schedule,
    zone: TimeZone,
    /// The zone that times are shown in.
    pub(crate) shown_zone: TimeZone,
    /// The schedule has a zone of its own, which is not supported officially.
    pub(crate) has_own_zone: bool,
}

/// What is due at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The newest time that has come and is not too old to count.
    pub(crate) time: Option<Timestamp>,
    /// There were more than a hundred such times.
    pub(crate) too_many: bool,
    /// When to look again.
    pub(crate) next_look: Timestamp,
}

impl Times {
    /// Reads the schedule and its zone; without one it is UTC (J-129).
    pub(crate) fn of(spec: &CronJobSpec) -> Result<Times, NoTimes> {
        let unknown = |name: &str| NoTimes::UnknownTimeZone(name.to_owned());
        let find = |name: &str| find_time_zone(name).ok_or_else(|| unknown(name));
        let shown_zone = spec.time_zone.as_deref().map_or(Ok(TimeZone::UTC), find)?;
        let schedule = Schedule::parse(&spec.schedule)
            .map_err(|error| NoTimes::Unparseable { schedule: spec.schedule.clone(), why: error.to_string() })?;
        let own_zone = schedule.time_zone().filter(|zone| !zone.is_empty());
        let zone = own_zone.map_or(Ok(shown_zone.clone()), find)?;
        let has_own_zone = schedule.time_zone().is_some();
        Ok(Times { schedule, zone, shown_zone, has_own_zone })
    }

    /// What is due.
    pub(crate) fn due(&self, cron_job: &CronJob, spec: &CronJobSpec, now: Timestamp) -> Result<Due, NoTimes> {
        let invalid = || NoTimes::Invalid { schedule: spec.schedule.clone() };
        let start = earliest(cron_job);
        let deadline = spec.starting_deadline_seconds;
        let oldest = deadline.map_or(start, |seconds| start.max(after_seconds(now, seconds.saturating_neg())));
        let (time, missed) = self.newest(oldest, now).ok_or_else(invalid)?;
        let (last, missed_before) = self.newest(start, now).ok_or_else(invalid)?;
        let base = last.unwrap_or(if missed_before == 0 { start } else { now });
        let next = self.next(base).ok_or_else(invalid)?;
        Ok(Due { time, too_many: time.is_some() && missed > MISSED_MAX, next_look: after(next, CLOCK_SKEW) })
    }

    /// The newest time after `start` that has come, and about how many have; `None` if the schedule never comes.
    fn newest(&self, start: Timestamp, now: Timestamp) -> Option<(Option<Timestamp>, i64)> {
        let first = self.next(start)?;
        if now < first {
            return Some((None, 0));
        }
        let second = self.next(first)?;
        if now < second {
            return Some((Some(first), 0));
        }
        let between = second.duration_since(first).as_secs();
        if between < 1 {
            return None;
        }
        let missed = now.duration_since(first).as_secs() / between + 1;
        // Two steps back from the guess, because the steps of a schedule are not all alike.
        let guess = SignedDuration::from_secs((missed - 2).saturating_mul(between));
        let mut newest = None;
        let mut time = self.next(first.checked_add(guess).ok()?)?;
        while time <= now {
            newest = Some(time);
            time = self.next(time)?;
        }
        Some((newest, missed))
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(after, &self.zone)
    }
}

/// No time before this one counts: the last that was acted upon, or the creation.
fn earliest(cron_job: &CronJob) -> Timestamp {
    let last = cron_job.status.as_ref().and_then(|status| status.last_schedule_time.as_ref());
    let created = cron_job.metadata.creation_timestamp.as_ref();
    last.or(created).map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn due(schedule: &str, created: &str, deadline: Option<i64>, now: &str) -> Result<Due, NoTimes> {
        let spec = CronJobSpec {
            schedule: schedule.to_owned(),
            starting_deadline_seconds: deadline,
            ..CronJobSpec::default()
        };
        let mut cron_job = CronJob::default();
        cron_job.metadata.creation_timestamp = Some(Time(created.parse().unwrap()));
        Times::of(&spec)?.due(&cron_job, &spec, now.parse().unwrap())
    }

    #[test]
    fn j132_the_newest_missed_time_counts_and_the_next_look_is_a_little_late() {
        let cases = [
            ("0 * * * *", "2026-01-01T10:00:00Z", None, "2026-01-01T10:30:00Z", None, false, "2026-01-01T11:00:00.1Z"),
            (
                "0 * * * *",
                "2026-01-01T09:59:59Z",
                None,
                "2026-01-01T10:00:00Z",
                Some("2026-01-01T10:00:00Z"),
                false,
                "2026-01-01T11:00:00.1Z",
            ),
            (
                "0 * * * *",
                "2026-01-01T06:30:00Z",
                None,
                "2026-01-01T10:30:00Z",
                Some("2026-01-01T10:00:00Z"),
                false,
                "2026-01-01T11:00:00.1Z",
            ),
            (
                "0 * * * *",
                "2026-01-01T06:30:00Z",
                Some(600),
                "2026-01-01T10:30:00Z",
                None,
                false,
                "2026-01-01T11:00:00.1Z",
            ),
            (
                "0 * * * *",
                "2026-01-01T06:30:00Z",
                Some(2400),
                "2026-01-01T10:30:00Z",
                Some("2026-01-01T10:00:00Z"),
                false,
                "2026-01-01T11:00:00.1Z",
            ),
            (
                "* * * * *",
                "2026-01-01T06:30:00Z",
                None,
                "2026-01-01T08:10:30Z",
                Some("2026-01-01T08:10:00Z"),
                false,
                "2026-01-01T08:11:00.1Z",
            ),
            (
                "* * * * *",
                "2026-01-01T06:30:00Z",
                None,
                "2026-01-01T08:11:30Z",
                Some("2026-01-01T08:11:00Z"),
                true,
                "2026-01-01T08:12:00.1Z",
            ),
            (
                "30 6-16/4 * * 1-5",
                "2026-01-01T00:00:00Z",
                None,
                "2026-01-05T11:00:00Z",
                Some("2026-01-05T10:30:00Z"),
                false,
                "2026-01-05T14:30:00.1Z",
            ),
            (
                "@every 1h",
                "2026-01-01T06:30:00Z",
                None,
                "2026-01-01T10:45:00Z",
                Some("2026-01-01T10:30:00Z"),
                false,
                "2026-01-01T11:30:00.1Z",
            ),
        ];
        for (schedule, created, deadline, now, time, too_many, next_look) in cases {
            let wanted = Due {
                time: time.map(|time: &str| time.parse().unwrap()),
                too_many,
                next_look: next_look.parse().unwrap(),
            };
            assert_eq!(due(schedule, created, deadline, now), Ok(wanted), "{schedule} at {now}");
        }
    }

    #[test]
    fn j136_a_schedule_without_times_says_why() {
        let error = |schedule: &str| due(schedule, "2026-01-01T00:00:00Z", None, "2026-01-01T00:00:00Z").unwrap_err();
        let texts = [error("59 23 31 2 *"), error("* *")].map(|error| format!("{} {error}", error.reason()));
        assert_eq!(
            texts,
            [
                "InvalidSchedule invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second",
                "UnparseableSchedule unparseable schedule: \"* *\" : expected exactly 5 fields, found 2: [* *]",
            ]
        );
    }
}
