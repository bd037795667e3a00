//! What the runtime is known to have of a pod: the newest observation, and what answers to effects said since.
//!
//! Observations and answers arrive on different paths, so a container that was created a moment ago may be missing from the next observation.
//! What an answer said holds until an observation has confirmed it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::identity::{ContainerId, SandboxId};
use crate::observation::{ContainerRecord, Exit, PodObservation, RuntimeState, SandboxRecord};
use crate::pod::shape::{ContainerIndex, PodShape};

/// A container record, and the container of the spec that it is an instance of.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// `None` if the spec has no container of this name.
    pub(crate) index: Option<ContainerIndex>,
    pub(crate) record: ContainerRecord,
}

/// Everything known of the runtime's side of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    /// Newest first.
    sandboxes: Vec<SandboxRecord>,
    /// Newest first for each container.
    containers: Vec<Known>,
    /// Sandboxes and containers that only an answer has named so far.
    unconfirmed_sandboxes: BTreeSet<SandboxId>,
    unconfirmed_containers: BTreeSet<ContainerId>,
    /// Containers whose start was answered, whatever observations still say.
    started: Vec<(ContainerId, Timestamp)>,
    /// Sandboxes whose stop was answered.
    stopped: BTreeSet<SandboxId>,
    /// What was removed by our own hand: a late observation does not bring it back.
    removed_sandboxes: BTreeSet<SandboxId>,
    removed_containers: BTreeSet<ContainerId>,
    /// Anything is different since it was last asked.
    is_changed: bool,
}

impl Records {
    /// Takes in an observation. False if nothing is different.
    pub(crate) fn observe(&mut self, observation: PodObservation, shape: &PodShape) -> bool {
        let mut sandboxes = observation.sandboxes;
        let mut containers: Vec<Known> =
            observation.containers.into_iter().map(|record| Known { index: None, record }).collect();
        self.confirm(&sandboxes, &containers);
        sandboxes.retain(|sandbox| !self.removed_sandboxes.contains(&sandbox.id));
        containers.retain(|known| !self.removed_containers.contains(&known.record.id));
        let unconfirmed = &self.unconfirmed_sandboxes;
        sandboxes.extend(self.sandboxes.iter().filter(|sandbox| unconfirmed.contains(&sandbox.id)).cloned());
        let unconfirmed = &self.unconfirmed_containers;
        containers.extend(self.containers.iter().filter(|known| unconfirmed.contains(&known.record.id)).cloned());
        for sandbox in &mut sandboxes {
            sandbox.ready &= !self.stopped.contains(&sandbox.id);
        }
        for known in &mut containers {
            self.apply_start(known);
        }
        sort(&mut sandboxes, &mut containers);
        let changed = sandboxes != self.sandboxes || !same_records(&containers, &self.containers);
        self.sandboxes = sandboxes;
        self.containers = containers;
        self.resolve(shape);
        self.is_changed |= changed;
        changed
    }

    /// True once after every change.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// What an observation shows is confirmed; what it has not is gone for good and need not be remembered.
    fn confirm(&mut self, sandboxes: &[SandboxRecord], containers: &[Known]) {
        let has_sandbox = |id: &SandboxId| sandboxes.iter().any(|sandbox| sandbox.id == *id);
        let has_container = |id: &ContainerId| containers.iter().any(|known| known.record.id == *id);
        self.unconfirmed_sandboxes.retain(|id| !has_sandbox(id));
        self.unconfirmed_containers.retain(|id| !has_container(id));
        self.removed_sandboxes.retain(has_sandbox);
        self.removed_containers.retain(has_container);
        self.stopped.retain(|id| has_sandbox(id) || self.unconfirmed_sandboxes.contains(id));
        self.started.retain(|(id, _)| {
            self.unconfirmed_containers.contains(id)
                || containers.iter().any(|known| known.record.id == *id && known.record.state == RuntimeState::Created)
        });
    }

    fn apply_start(&self, known: &mut Known) {
        if known.record.state != RuntimeState::Created {
            return;
        }
        if let Some((_, started_at)) = self.started.iter().find(|(id, _)| *id == known.record.id) {
            known.record.state = RuntimeState::Running { started_at: *started_at };
        }
    }

    /// Finds each record's container in a (new) spec.
    pub(crate) fn resolve(&mut self, shape: &PodShape) {
        for known in &mut self.containers {
            known.index = shape.find(&known.record.name);
        }
    }

    /// A sandbox was answered for.
    pub(crate) fn sandbox_ready(&mut self, sandbox: SandboxRecord) {
        if self.sandboxes.iter().any(|known| known.id == sandbox.id) {
            return;
        }
        self.unconfirmed_sandboxes.insert(sandbox.id.clone());
        self.sandboxes.push(sandbox);
        sort(&mut self.sandboxes, &mut self.containers);
    }

    /// A sandbox's stop was answered for.
    pub(crate) fn sandbox_stopped(&mut self, id: &SandboxId) {
        self.stopped.insert(id.clone());
        for sandbox in self.sandboxes.iter_mut().filter(|sandbox| sandbox.id == *id) {
            sandbox.ready = false;
        }
    }

    /// A sandbox's removal was answered for.
    pub(crate) fn sandbox_removed(&mut self, id: &SandboxId) {
        self.removed_sandboxes.insert(id.clone());
        self.unconfirmed_sandboxes.remove(id);
        self.sandboxes.retain(|sandbox| sandbox.id != *id);
        let orphans: Vec<ContainerId> =
            self.containers.iter().filter(|known| known.record.sandbox == *id).map(|k| k.record.id.clone()).collect();
        for orphan in orphans {
            self.container_removed(&orphan);
        }
    }

    /// A container's creation was answered for.
    pub(crate) fn container_created(&mut self, record: ContainerRecord, index: ContainerIndex) {
        if self.containers.iter().any(|known| known.record.id == record.id) {
            return;
        }
        self.unconfirmed_containers.insert(record.id.clone());
        self.containers.push(Known { index: Some(index), record });
        self.is_changed = true;
        sort(&mut self.sandboxes, &mut self.containers);
    }

    /// A container's start was answered for.
    pub(crate) fn container_started(&mut self, id: &ContainerId, now: Timestamp) {
        let is_created = |known: &&mut Known| known.record.id == *id && known.record.state == RuntimeState::Created;
        if let Some(known) = self.containers.iter_mut().find(is_created) {
            known.record.state = RuntimeState::Running { started_at: now };
            self.started.push((id.clone(), now));
        }
    }

    /// A container's removal was answered for.
    pub(crate) fn container_removed(&mut self, id: &ContainerId) {
        self.removed_containers.insert(id.clone());
        self.unconfirmed_containers.remove(id);
        self.containers.retain(|known| known.record.id != *id);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty()
    }

    /// Every sandbox, newest first.
    pub(crate) fn sandboxes(&self) -> &[SandboxRecord] {
        &self.sandboxes
    }

    /// Every container record, newest first for each container.
    pub(crate) fn containers(&self) -> &[Known] {
        &self.containers
    }

    /// The sandbox that the pod lives in: the newest, if it is ready.
    pub(crate) fn active_sandbox(&self) -> Option<&SandboxRecord> {
        self.sandboxes.first().filter(|sandbox| sandbox.ready)
    }

    /// All records of one container, newest first.
    pub(crate) fn of(&self, index: ContainerIndex) -> impl Iterator<Item = &ContainerRecord> {
        self.containers.iter().filter(move |known| known.index == Some(index)).map(|known| &known.record)
    }

    /// The newest record of one container, of whatever sandbox.
    pub(crate) fn newest(&self, index: ContainerIndex) -> Option<&ContainerRecord> {
        self.of(index).next()
    }

    /// The newest record of one container in the active sandbox (L-208, L-219).
    pub(crate) fn newest_active(&self, index: ContainerIndex) -> Option<&ContainerRecord> {
        let active = self.active_sandbox()?;
        self.of(index).find(|record| record.sandbox == active.id)
    }

    pub(crate) fn find(&self, id: &ContainerId) -> Option<&Known> {
        self.containers.iter().find(|known| known.record.id == *id)
    }

    pub(crate) fn is_running(&self, id: &ContainerId) -> bool {
        self.find(id).is_some_and(|known| known.record.is_running())
    }

    /// When the newest ended instance of a container ended (L-307).
    pub(crate) fn newest_finish(&self, index: ContainerIndex) -> Option<Timestamp> {
        self.of(index).find_map(|record| record.exit().map(|exit| exit.finished_at))
    }

    pub(crate) fn any_running(&self) -> bool {
        self.containers.iter().any(|known| known.record.is_running())
    }
}

fn sort(sandboxes: &mut [SandboxRecord], containers: &mut [Known]) {
    sandboxes.sort_by(|one, other| {
        (other.attempt, other.created_at, &other.id).cmp(&(one.attempt, one.created_at, &one.id))
    });
    containers.sort_by(|one, other| {
        let key = |known: &Known| (known.record.attempt, known.record.created_at);
        key(other).cmp(&key(one)).then_with(|| other.record.id.cmp(&one.record.id))
    });
}

fn same_records(one: &[Known], other: &[Known]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.record == other.record)
}

impl ContainerRecord {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RuntimeState::Running { .. })
    }

    pub(crate) fn exit(&self) -> Option<&Exit> {
        match &self.state {
            RuntimeState::Exited(exit) => Some(exit),
            _ => None,
        }
    }
}

impl Exit {
    /// The exit code that decisions use: an OOM-killed container has failed, whatever its first process returned (L-303).
    pub(crate) fn effective_code(&self) -> i32 {
        if self.exit_code == 0 && self.reason.as_deref() == Some("OOMKilled") { 137 } else { self.exit_code }
    }
}
