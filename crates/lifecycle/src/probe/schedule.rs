//! The ticks of one probe worker (L-401).
//!
//! Ticks stand at `origin + n * period`, whatever the container does; a tick that finds nothing to probe passes unused.
//! An attempt that outlasts its period is followed at once by one more, as with a ticker that keeps one tick.

use jiff::Timestamp;

use crate::time::{after, elapsed, seconds};

/// Where the ticks stand, and up to when they have been used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    origin: Timestamp,
    period_seconds: i64,
    /// Ticks up to and with this moment have been used or have passed.
    used: Option<Timestamp>,
}

impl Schedule {
    pub(crate) fn new(origin: Timestamp, period_seconds: i64) -> Self {
        Schedule { origin, period_seconds: period_seconds.max(1), used: None }
    }

    /// Begins anew at `now`, whose own tick counts as used if `used` says so (L-407).
    pub(crate) fn restart(&mut self, now: Timestamp) {
        self.origin = now;
        self.used = None;
    }

    /// The first unused tick not before `eligible`.
    pub(crate) fn next(&self, eligible: Timestamp) -> Timestamp {
        let first = self.tick_not_before(eligible);
        match self.used {
            Some(used) if used >= first => self.tick_after(used),
            _ => first,
        }
    }

    /// An attempt begins at `now`: every tick so far is used.
    pub(crate) fn attempt(&mut self, now: Timestamp) {
        self.used = Some(now);
    }

    /// An attempt ends at `now`: of the ticks that passed meanwhile the last one still counts.
    pub(crate) fn attempt_ended(&mut self, now: Timestamp) {
        let Some(used) = self.used else { return };
        let missed = self.tick_after(used);
        if missed <= now {
            // Due at once, and once only.
            self.used =
                Some(used.max(crate::time::before(self.tick_not_after(now), std::time::Duration::from_nanos(1))));
        }
    }

    fn tick_after(&self, moment: Timestamp) -> Timestamp {
        if moment < self.origin {
            return self.origin;
        }
        after(self.tick_not_after(moment), seconds(self.period_seconds))
    }

    fn tick_not_after(&self, moment: Timestamp) -> Timestamp {
        if moment < self.origin {
            return self.origin;
        }
        let whole = elapsed(self.origin, moment).as_secs() / seconds(self.period_seconds).as_secs().max(1);
        after(self.origin, seconds(i64::try_from(whole).unwrap_or(i64::MAX).saturating_mul(self.period_seconds)))
    }

    fn tick_not_before(&self, moment: Timestamp) -> Timestamp {
        let tick = self.tick_not_after(moment);
        if tick >= moment { tick } else { self.tick_after(moment) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn l401_first_tick_is_at_the_origin_then_every_period() {
        let mut schedule = Schedule::new(at(100), 10);
        assert_eq!(schedule.next(at(0)), at(100));
        schedule.attempt(at(100));
        assert_eq!(schedule.next(at(0)), at(10_100));
        schedule.attempt(at(10_100));
        assert_eq!(schedule.next(at(0)), at(20_100));
    }

    #[test]
    fn l402_ticks_before_the_container_is_eligible_pass_unused() {
        let schedule = Schedule::new(at(100), 10);
        assert_eq!(schedule.next(at(600)), at(10_100));
        assert_eq!(schedule.next(at(20_100)), at(20_100));
    }

    #[test]
    fn l401_an_attempt_longer_than_the_period_is_followed_by_one_at_once() {
        let mut schedule = Schedule::new(at(0), 1);
        schedule.attempt(at(0));
        schedule.attempt_ended(at(3_500));
        assert_eq!(schedule.next(at(0)), at(3_000));
        schedule.attempt(at(3_500));
        schedule.attempt_ended(at(3_600));
        assert_eq!(schedule.next(at(0)), at(4_000));
    }
}
