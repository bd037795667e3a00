//! What all controllers share: keys become due, are reconciled, and their writes are awaited.

use std::collections::BTreeMap;
use std::fmt::Debug;

use jiff::Timestamp;

use crate::cache::{Cache, Change};
use crate::queue::{RetryDelay, WorkQueue};
use crate::write::{Action, EventRecord, Outcome, Refusal, RefusalCause, WriteId};

/// A controller's decisions.
///
/// [`Reconcile::reconcile`] looks at all that is stored and yields the next writes only.
/// When they are answered the key is reconciled again, until nothing is left to write:
/// so a controller that starts anew at any moment goes on from what is stored.
pub(crate) trait Reconcile {
    /// What is reconciled as one.
    type Key: Clone + Ord + Debug;

    /// The keys that a change concerns, and when each is to be looked at.
    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(Self::Key, Timestamp)>;

    /// The next writes for a key.
    fn reconcile(&mut self, cache: &Cache, key: &Self::Key, now: Timestamp) -> Step;

    /// Takes note of an answer and says what to report.
    fn answered(
        &mut self,
        _cache: &Cache,
        _key: &Self::Key,
        _action: &Action,
        _outcome: &Outcome,
        _now: Timestamp,
    ) -> Vec<EventRecord> {
        Vec::new()
    }
}

/// What a reconciliation yields.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Writes that don't depend on each other; the key waits for their answers.
    pub(crate) writes: Vec<Planned>,
    /// Events that tell of the decision itself.
    pub(crate) events: Vec<EventRecord>,
    /// When to look again if nothing happens.
    pub(crate) again_at: Option<Timestamp>,
}

impl Step {
    /// Nothing to write.
    pub(crate) fn rest() -> Step {
        Step::default()
    }

    /// These writes.
    pub(crate) fn write(actions: impl IntoIterator<Item = Action>) -> Step {
        Step { writes: actions.into_iter().map(Planned::from).collect(), ..Step::default() }
    }

    /// Looks again at this time, or earlier if that was asked for before.
    pub(crate) fn again(mut self, at: Option<Timestamp>) -> Step {
        self.again_at = match (self.again_at, at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self
    }
}

/// A write, and the events that its success is worth.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) action: Action,
    pub(crate) events: Vec<EventRecord>,
}

impl From<Action> for Planned {
    fn from(action: Action) -> Planned {
        Planned { action, events: Vec::new() }
    }
}

/// Where a controller's writes go; numbers them.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) queued: std::collections::VecDeque<crate::write::Write>,
    pub(crate) last: u64,
}

impl Outbox {
    pub(crate) fn push(&mut self, action: Action) -> WriteId {
        self.last += 1;
        let id = WriteId(self.last);
        self.queued.push_back(crate::write::Write { id, action });
        id
    }

    pub(crate) fn record(&mut self, events: Vec<EventRecord>) {
        for event in events {
            self.push(Action::RecordEvent(event));
        }
    }
}

/// A controller as the set of controllers sees it.
pub(crate) trait Controller: Debug {
    /// Marks what a change concerns.
    fn observe(&mut self, cache: &Cache, change: &Change, now: Timestamp);
    /// Reconciles all that is due.
    fn work(&mut self, cache: &Cache, outbox: &mut Outbox, now: Timestamp);
    /// Takes an answer; false if the write is not this controller's.
    fn answered(
        &mut self,
        cache: &Cache,
        write: WriteId,
        outcome: &Outcome,
        outbox: &mut Outbox,
        now: Timestamp,
    ) -> bool;
    /// When [`Controller::work`] has something to do if nothing happens.
    fn next_due(&self) -> Option<Timestamp>;
}

/// Runs a [`Reconcile`].
#[derive(Debug)]
pub(crate) struct Runner<R: Reconcile> {
    reconciler: R,
    queue: WorkQueue<R::Key>,
    in_flight: BTreeMap<WriteId, Sent<R::Key>>,
}

/// A write on its way.
#[derive(Debug)]
struct Sent<K> {
    key: K,
    planned: Planned,
    /// The version of the object that the write was decided on.
    based_on: Option<String>,
}

impl<R: Reconcile> Runner<R> {
    pub(crate) fn new(reconciler: R, retry: RetryDelay) -> Self {
        Runner { reconciler, queue: WorkQueue::new(retry), in_flight: BTreeMap::new() }
    }
}

impl<R: Reconcile + Debug> Controller for Runner<R> {
    fn observe(&mut self, cache: &Cache, change: &Change, now: Timestamp) {
        for (key, at) in self.reconciler.affected(cache, change, now) {
            self.queue.add(key, at);
        }
    }

    fn work(&mut self, cache: &Cache, outbox: &mut Outbox, now: Timestamp) {
        while let Some(key) = self.queue.take_due(now) {
            let step = self.reconciler.reconcile(cache, &key, now);
            outbox.record(step.events);
            if let Some(at) = step.again_at {
                // A time that has come would be looked at again in this very loop, for ever.
                self.queue.add(key.clone(), at.max(next_moment(now)));
            }
            self.queue.sent(&key, step.writes.len());
            for planned in step.writes {
                let id = outbox.push(planned.action.clone());
                let based_on = known_version(cache, &planned.action);
                self.in_flight.insert(id, Sent { key: key.clone(), planned, based_on });
            }
        }
    }

    fn answered(
        &mut self,
        cache: &Cache,
        write: WriteId,
        outcome: &Outcome,
        outbox: &mut Outbox,
        now: Timestamp,
    ) -> bool {
        let Some(Sent { key, planned, based_on }) = self.in_flight.remove(&write) else {
            return false;
        };
        let refused = is_refused(&planned.action, outcome) || changed_nothing(based_on.as_deref(), outcome);
        if !matches!(outcome, Outcome::Refused(_)) {
            outbox.record(planned.events);
        }
        let action = &planned.action;
        let events = self.reconciler.answered(cache, &key, action, outcome, now);
        outbox.record(events);
        self.queue.answered(&key, refused, now);
        true
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.queue.next_due()
    }
}

/// To remove or change what is gone is success: the cache has taken the absence in.
fn is_refused(action: &Action, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Refused(Refusal { cause, .. }) => {
            *cause != RefusalCause::NotFound || matches!(action, Action::Create(_))
        }
        _ => false,
    }
}

/// True if the object is as it was before the write: the same write would follow at once, for ever.
fn changed_nothing(based_on: Option<&str>, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Stored(object) => based_on.is_some() && object.metadata().resource_version.as_deref() == based_on,
        _ => false,
    }
}

fn known_version(cache: &Cache, action: &Action) -> Option<String> {
    let object = cache.get(&action.target()?.uid)?;
    object.metadata().resource_version.clone()
}

fn next_moment(now: Timestamp) -> Timestamp {
    crate::time::after(now, std::time::Duration::from_millis(1))
}
