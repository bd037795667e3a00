//! The kill of one container: preStop, its turn, the stop signal, SIGKILL (L-603 to L-606).
//!
//! This file counts time and knows the stages; `kills` sends the effects.

use std::time::Duration;

use jiff::Timestamp;

use crate::identity::{ContainerId, EffectId};
use crate::pod::shape::ContainerIndex;
use crate::time::{after, elapsed_seconds, seconds};

/// What every container has between its stop signal and SIGKILL, even when the grace period has run out (L-606).
pub(crate) const FLOOR_SECONDS: i64 = 2;

/// How long SIGKILL is given before it is sent again.
pub(crate) const KILL_AGAIN: Duration = Duration::from_secs(10);

/// What is left of a grace period.
///
/// Time is charged by the stage, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    seconds: i64,
    since: Timestamp,
}

impl Budget {
    pub(crate) fn new(grace_seconds: i64, now: Timestamp) -> Self {
        Budget { seconds: grace_seconds.max(0), since: now }
    }

    /// When it runs out if nothing is charged before.
    pub(crate) fn deadline(&self) -> Timestamp {
        after(self.since, seconds(self.seconds))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seconds == 0
    }

    /// A stage ends at `now`: its whole seconds are gone.
    fn charge(&mut self, now: Timestamp) {
        self.seconds = (self.seconds - elapsed_seconds(self.since, now)).max(0);
        self.since = now;
    }

    /// Takes a shorter grace, never a longer one (L-602).
    fn shorten(&mut self, grace_seconds: i64, now: Timestamp) {
        if after(now, seconds(grace_seconds)) < self.deadline() {
            *self = Budget::new(grace_seconds, now);
        }
    }
}

/// Why the container is killed: what happens once it is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillScope {
    /// With all others of the pod.
    Pod,
    /// It alone.
    Single,
    /// It failed to start properly, and the start waits for its end (L-222).
    Start,
    /// All are reset (L-112).
    Reset,
}

/// Where the kill stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillStage {
    /// Decided, not begun: all kills of a pod are known before the first one looks for its turn.
    Decided,
    /// preStop is under way: an effect, or a sleep that ends at a moment.
    Hook { effect: Option<EffectId>, sleeps_until: Option<Timestamp> },
    /// It waits for those that must end before it.
    Turn,
    /// The stop signal is out; SIGKILL follows.
    Stopping { signalled_at: Timestamp, kill_at: Timestamp },
    /// SIGKILL is out; it is sent again if the container still stands.
    Killed { again_at: Timestamp },
}

/// The kill of one container.
#[derive(Clone, Debug)]
pub(crate) struct Kill {
    pub(crate) container: ContainerId,
    /// `None` for a container that no spec describes.
    pub(crate) index: Option<ContainerIndex>,
    pub(crate) scope: KillScope,
    pub(crate) budget: Budget,
    pub(crate) stage: KillStage,
    /// The bound that the kill must keep: for invariants.
    pub(crate) bound: Timestamp,
}

impl Kill {
    pub(crate) fn new(
        container: ContainerId,
        index: Option<ContainerIndex>,
        scope: KillScope,
        grace_seconds: i64,
        now: Timestamp,
    ) -> Self {
        let budget = Budget::new(grace_seconds, now);
        Kill { container, index, scope, budget, stage: KillStage::Decided, bound: bound(budget.deadline()) }
    }

    /// The stage at hand ends: its time is charged.
    pub(crate) fn charge(&mut self, now: Timestamp) {
        self.budget.charge(now);
    }

    /// The stop signal goes out; returns the time until SIGKILL.
    pub(crate) fn stop(&mut self, now: Timestamp) -> Duration {
        let grace = seconds(self.budget.seconds.max(FLOOR_SECONDS));
        self.stage = KillStage::Stopping { signalled_at: now, kill_at: after(now, grace) };
        grace
    }

    /// SIGKILL goes out.
    pub(crate) fn kill(&mut self, now: Timestamp) {
        self.stage = KillStage::Killed { again_at: after(now, KILL_AGAIN) };
    }

    /// A shorter grace has arrived while the kill runs: it counts for the hook, for the turn and for the signal (L-602).
    pub(crate) fn shorten(&mut self, grace_seconds: i64, now: Timestamp) {
        self.budget.shorten(grace_seconds, now);
        self.bound = self.bound.min(bound(after(now, seconds(grace_seconds))));
        if let KillStage::Stopping { signalled_at, kill_at } = &mut self.stage {
            let shorter = after(now, seconds(grace_seconds)).max(after(*signalled_at, seconds(FLOOR_SECONDS)));
            *kill_at = (*kill_at).min(shorter);
        }
    }

    /// When the stage at hand ends by itself.
    pub(crate) fn due(&self) -> Timestamp {
        match self.stage {
            KillStage::Hook { sleeps_until: Some(until), .. } => until.min(self.budget.deadline()),
            KillStage::Decided | KillStage::Hook { .. } | KillStage::Turn => self.budget.deadline(),
            KillStage::Stopping { kill_at, .. } => kill_at,
            KillStage::Killed { again_at } => again_at,
        }
    }
}

/// SIGKILL comes at latest the floor after the deadline, and a second more: each stage's fraction of a second is not charged (L-603).
fn bound(deadline: Timestamp) -> Timestamp {
    after(deadline, seconds(FLOOR_SECONDS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn l603_only_whole_seconds_are_charged() {
        let mut budget = Budget::new(3, at(0));
        budget.charge(at(1_700));
        assert_eq!(budget, Budget { seconds: 2, since: at(1_700) });
    }

    #[test]
    fn l606_two_seconds_are_left_between_the_signals_whatever_the_grace() {
        for grace in [0, 1, 2] {
            let mut kill = Kill::new(ContainerId("c".to_owned()), None, KillScope::Pod, grace, at(0));
            assert_eq!(kill.stop(at(500)), Duration::from_secs(2));
            assert_eq!(kill.due(), at(2_500));
        }
    }

    #[test]
    fn l602_a_shorter_grace_moves_the_deadline_and_a_longer_one_does_not() {
        let mut kill = Kill::new(ContainerId("c".to_owned()), None, KillScope::Pod, 30, at(0));
        kill.shorten(60, at(1_000));
        assert_eq!(kill.due(), at(30_000));
        kill.shorten(5, at(1_000));
        assert_eq!(kill.due(), at(6_000));
        kill.stop(at(2_000));
        kill.shorten(1, at(2_500));
        assert_eq!(kill.due(), at(4_000));
    }
}
