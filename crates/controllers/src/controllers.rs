//! The set of all controllers over one cache: what a driver holds.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;

use crate::cache::{Cache, Change};
use crate::config::{Config, ControllerName};
use crate::cron_job::CronJobController;
use crate::endpoints::EndpointsController;
use crate::garbage::GarbageCollector;
use crate::input::{Input, InputError};
use crate::job::{JobController, OrphanPods};
use crate::namespaces::NamespaceDeleter;
use crate::object::Target;
use crate::pod_gc::PodCollector;
use crate::provisions::Provisions;
use crate::queue::RetryDelay;
use crate::runner::{Controller, Outbox, Reconcile, Runner};
use crate::scheduler::Scheduler;
use crate::ttl::TtlAfterFinished;
use crate::write::{Outcome, RefusalCause, Write, WriteId};

/// Waits after refused writes (J-65).
const RETRY: RetryDelay = RetryDelay { first: Duration::from_secs(1), last: Duration::from_secs(60) };

/// All controllers.
///
/// They own no clock, socket, file, task or thread; the driver passes what happened and the time, and carries out what they yield.
#[derive(Debug)]
pub struct Controllers {
    cache: Cache,
    controllers: Vec<Box<dyn Controller + Send>>,
    outbox: Outbox,
    in_flight: BTreeMap<WriteId, Option<Target>>,
    synced: bool,
}

impl Controllers {
    /// Controllers that know nothing yet.
    pub fn new(config: Config) -> Controllers {
        let enabled = config.enabled.iter();
        let controllers = enabled.flat_map(|name| make(*name, &config)).collect();
        Controllers {
            cache: Cache::default(),
            controllers,
            outbox: Outbox::default(),
            in_flight: BTreeMap::new(),
            synced: false,
        }
    }

    /// What is known to be stored.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Takes one input in. The writes that it leads to come out of [`Controllers::poll_write`].
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Result<(), InputError> {
        match input {
            Input::Applied(object) => {
                if object.uid().is_empty() {
                    let target = object.target();
                    return Err(InputError::NoUid { target });
                }
                let changes = self.cache.apply(object);
                self.observe(&changes, now);
            }
            Input::Deleted(target) => {
                let change = self.cache.delete(&target.uid, self.newest_in_flight());
                self.observe(change.as_slice(), now);
            }
            Input::Synced => self.sync(now),
            Input::Answered { write, outcome } => self.answered(write, &outcome, now)?,
        }
        self.handle_timeout(now);
        Ok(())
    }

    /// Does what the passing of time makes due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if self.synced {
            for controller in &mut self.controllers {
                controller.work(&self.cache, &mut self.outbox, now);
            }
        }
    }

    /// When [`Controllers::handle_timeout`] has to be called if nothing happens before; after it was called, the time lies ahead.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if !self.synced {
            return None;
        }
        let due = self.controllers.iter().filter_map(|one| one.next_due());
        due.min()
    }

    /// The next write to carry out.
    pub fn poll_write(&mut self) -> Option<Write> {
        let write = self.outbox.queued.pop_front()?;
        self.in_flight.insert(write.id, write.action.target());
        Some(write)
    }

    fn sync(&mut self, now: Timestamp) {
        self.synced = true;
        let found: Vec<Change> = self.cache.all().map(|new| Change::Applied { old: None, new: new.clone() }).collect();
        self.observe(&found, now);
    }

    fn answered(&mut self, write: WriteId, outcome: &Outcome, now: Timestamp) -> Result<(), InputError> {
        let Some(target) = self.in_flight.remove(&write) else {
            return Err(InputError::UnknownWrite(write));
        };
        let changes = self.learn(target, outcome);
        self.observe(&changes, now);
        let oldest = self.in_flight.keys().next().copied();
        self.cache.settle(oldest);
        for controller in &mut self.controllers {
            if controller.answered(&self.cache, write, outcome, &mut self.outbox, now) {
                break;
            }
        }
        Ok(())
    }

    /// Takes in what an answer says of the store.
    fn learn(&mut self, target: Option<Target>, outcome: &Outcome) -> Vec<Change> {
        let is_gone = match outcome {
            Outcome::Stored(object) => {
                return self.cache.apply(object.clone());
            }
            Outcome::Gone => true,
            Outcome::Refused(refusal) => refusal.cause == RefusalCause::NotFound,
            Outcome::Done => false,
        };
        let newest = self.newest_in_flight();
        let gone = target.filter(|_| is_gone);
        gone.and_then(|target| self.cache.delete_ahead_of_watch(&target.uid, newest)).into_iter().collect()
    }

    fn observe(&mut self, changes: &[Change], now: Timestamp) {
        if !self.synced {
            return;
        }
        for change in changes {
            for controller in &mut self.controllers {
                controller.observe(&self.cache, change, now);
            }
        }
    }

    fn newest_in_flight(&self) -> Option<WriteId> {
        self.in_flight.keys().next_back().copied()
    }
}

/// The controllers behind a name.
fn make(name: ControllerName, config: &Config) -> Vec<Box<dyn Controller + Send>> {
    match name {
        ControllerName::CronJob => vec![run(CronJobController::default())],
        ControllerName::Endpoints => vec![run(EndpointsController)],
        ControllerName::GarbageCollector => vec![run(GarbageCollector::new(&config.served_kinds))],
        ControllerName::Job => vec![run(JobController::new(config.job)), run(OrphanPods)],
        ControllerName::Namespace => vec![run(NamespaceDeleter::default())],
        ControllerName::PodCollector => vec![run(PodCollector::new(config.ended_pods_max))],
        ControllerName::Provisions => vec![run(Provisions::new(config.ca_bundle.clone()))],
        ControllerName::Scheduler => vec![run(Scheduler)],
        ControllerName::TtlAfterFinished => vec![run(TtlAfterFinished)],
    }
}

fn run<R>(reconciler: R) -> Box<dyn Controller + Send>
where
    R: Reconcile<Key: Send> + Debug + Send + 'static,
{
    Box::new(Runner::new(reconciler, RETRY))
}
