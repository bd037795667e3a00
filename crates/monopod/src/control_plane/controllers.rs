//! Drives the controllers over the registry: changes in, writes out, answers back.
//!
//! Decides nothing; the mapping of one write to one call of the registry is in `writes`.

use std::sync::Arc;

use anyhow::Context as _;
use apiserver::{Registry, ResourceType, Watch, WatchEvent, WatchOptions};
use controllers::{Controllers, Input, WriteId};
use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use serde_json::Value;

use super::objects;
use super::writes::{self, EventSink};

/// The controllers, and what they hear and say.
pub(crate) struct ControllersDriver {
    registry: Registry,
    events: Arc<EventSink>,
    controllers: Controllers,
    watches: Vec<(&'static ResourceType, Watch)>,
    writes: FuturesUnordered<BoxFuture<'static, (WriteId, controllers::Outcome)>>,
}

/// One change, with the revision that orders it among those of other kinds.
struct Change {
    revision: u64,
    input: Input,
}

impl ControllersDriver {
    /// Takes in everything that is stored.
    pub(crate) fn start(
        registry: Registry,
        events: Arc<EventSink>,
        config: controllers::Config,
    ) -> anyhow::Result<Self> {
        let mut driver = ControllersDriver {
            controllers: Controllers::new(config),
            watches: Vec::new(),
            writes: FuturesUnordered::new(),
            registry,
            events,
        };
        driver.watch_everything()?;
        Ok(driver)
    }

    /// Works until it is dropped; ends by itself only with an error.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        self.controllers.handle(self.registry.now(), Input::Synced)?;
        loop {
            self.start_writes();
            let timeout = self.controllers.poll_timeout();
            tokio::select! {
                Some((write, outcome)) = self.writes.next() => {
                    self.handle(Input::Answered { write, outcome })?;
                }
                first = next_change(&mut self.watches) => {
                    let first = first?;
                    self.take_changes(first)?;
                }
                () = sleep_until(timeout, self.registry.now()) => {
                    self.controllers.handle_timeout(self.registry.now());
                }
            }
        }
    }

    fn watch_everything(&mut self) -> anyhow::Result<()> {
        for resource in apiserver::resource::all().filter(|resource| objects::is_watched(resource)) {
            let watch = self
                .registry
                .watch(resource, None, WatchOptions::default())
                .with_context(|| format!("cannot watch {}", resource.plural))?;
            self.watches.push((resource, watch));
        }
        let initial = drain(&mut self.watches)?;
        self.handle_in_order(initial)
    }

    /// Passes the change that woke us and all that came with it.
    fn take_changes(&mut self, first: Option<Change>) -> anyhow::Result<()> {
        let mut changes = drain(&mut self.watches)?;
        changes.extend(first);
        self.handle_in_order(changes)
    }

    /// Owners have lower revisions than what refers to them, so the order over all kinds matters.
    fn handle_in_order(&mut self, mut changes: Vec<Change>) -> anyhow::Result<()> {
        changes.sort_by_key(|change| change.revision);
        changes.into_iter().try_for_each(|change| self.handle(change.input))
    }

    fn handle(&mut self, input: Input) -> anyhow::Result<()> {
        Ok(self.controllers.handle(self.registry.now(), input)?)
    }

    fn start_writes(&mut self) {
        while let Some(write) = self.controllers.poll_write() {
            let (registry, events) = (self.registry.clone(), Arc::clone(&self.events));
            let id = write.id;
            self.writes.push(async move { (id, writes::carry_out(&registry, &events, write.action).await) }.boxed());
        }
    }
}

/// Waits for a change of any kind.
async fn next_change(watches: &mut [(&'static ResourceType, Watch)]) -> anyhow::Result<Option<Change>> {
    let waits = watches.iter_mut().map(|(resource, watch)| async move { (*resource, watch.next().await) }.boxed());
    let ((resource, event), _, _) = select_all(waits).await;
    change(resource, event?)
}

/// All changes that are there, without waiting.
fn drain(watches: &mut [(&'static ResourceType, Watch)]) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    for (resource, watch) in watches {
        while let Some(event) = watch.try_next()? {
            changes.extend(change(resource, event)?);
        }
    }
    Ok(changes)
}

fn change(resource: &ResourceType, event: WatchEvent) -> anyhow::Result<Option<Change>> {
    let (object, gone) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
        WatchEvent::Deleted(object) => (object, true),
        WatchEvent::InitialEnd(_) => return Ok(None),
    };
    let decoded = objects::decode(resource, &object)?;
    let input = if gone { Input::Deleted(decoded.target()) } else { Input::Applied(decoded) };
    Ok(Some(Change { revision: revision(&object), input }))
}

fn revision(object: &Value) -> u64 {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Sleeps until a time of the wall clock; for ever without one.
pub(crate) async fn sleep_until(due: Option<Timestamp>, now: Timestamp) {
    match due {
        Some(due) => {
            let left = std::time::Duration::try_from(due.duration_since(now)).unwrap_or_default();
            tokio::time::sleep(left).await;
        }
        None => std::future::pending().await,
    }
}
