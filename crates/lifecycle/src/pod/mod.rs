//! One pod: what is known of it, what is under way, and what comes next.
//!
//! Decisions are pure functions in `actions`, `init_progress`, `sandbox`, `policy` and in `crate::status`.
//! The rest of this module keeps the books of effects: `live` for a pod that runs, `termination` for one that ends.

pub(crate) mod actions;
pub(crate) mod back_off;
pub(crate) mod clean_up;
pub(crate) mod crash_loop;
pub(crate) mod deadlines;
pub(crate) mod hooks;
pub(crate) mod image;

pub(crate) mod init_progress;
pub(crate) mod inputs;
pub(crate) mod kill;
pub(crate) mod kills;
pub(crate) mod live;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod probing;
pub(crate) mod publish;
pub(crate) mod records;
pub(crate) mod references;
pub(crate) mod restart_all;
pub(crate) mod sandbox;
pub(crate) mod shape;
pub(crate) mod start;
pub(crate) mod termination;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodStatus};

use crate::effect::{Action, PodEvent};
use crate::identity::{ContainerId, EffectId, PodRef, PodUid};
use crate::input::Outcome;
use crate::observation::PodObservation;
use crate::outbox::{Context, Purpose};
use crate::pod::image::PullMemory;
use crate::pod::kill::Kill;
use crate::pod::live::Preparation;
use crate::pod::memory::ContainerMemory;
use crate::pod::publish::Publication;
use crate::pod::records::Records;
use crate::pod::restart_all::RestartAll;
use crate::pod::shape::{ContainerIndex, PerContainer, PodShape};
use crate::pod::start::Start;
use crate::pod::termination::Termination;
use crate::status::foreign_conditions;

/// Rounds of one pod's work within one moment; more means that two rules undo each other for ever.
const ROUNDS: usize = 1000;

/// One pod.
#[derive(Debug)]
pub(crate) struct PodWorker {
    pub(crate) reference: PodRef,
    /// The newest object; `None` for records without one.
    pub(crate) pod: Option<Arc<Pod>>,
    /// The object is gone from the API: nothing is written any more.
    pub(crate) object_is_gone: bool,
    pub(crate) shape: PodShape,
    pub(crate) records: Records,
    pub(crate) memory: PerContainer<ContainerMemory>,
    pub(crate) stage: Stage,
    pub(crate) preparation: Preparation,
    pub(crate) start: Option<Start>,
    pub(crate) kills: Vec<Kill>,
    pub(crate) restart_all: Option<RestartAll>,
    /// Containers that a restart of all takes away.
    pub(crate) resetting: BTreeSet<ContainerId>,
    pub(crate) pulls: BTreeMap<String, PullMemory>,
    pub(crate) publication: Publication,
    /// What has been asked of the runtime and not answered, by what it is asked of.
    pub(crate) removing: BTreeSet<ContainerId>,
    pub(crate) sandbox_work: BTreeSet<crate::identity::SandboxId>,
    /// Failed clean-up is tried again then.
    pub(crate) retry_at: Option<Timestamp>,
    /// The node must make room before anything is made.
    pub(crate) awaits_room: bool,
    /// What the pod asks for counts for others' admission.
    pub(crate) is_counted: bool,
    /// Containers ran already when the engine began: probes are spread (L-401).
    pub(crate) is_adopted: bool,
    /// The status must be looked at again.
    pub(crate) dirty: bool,
    /// The rounds of a moment did not come to an end: a fault of the program, told by `check_invariants`.
    pub(crate) is_spinning: bool,
}

/// What the worker is at.
#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// The pod is to run.
    Live,
    /// It is to end: everything is being stopped.
    Terminating(Termination),
    /// Everything is down: the last status is written and what the pod had is taken away.
    Terminated(Termination),
}

impl PodWorker {
    /// A pod of which only the runtime knows.
    pub(crate) fn unknown(reference: PodRef) -> Self {
        PodWorker {
            reference,
            pod: None,
            object_is_gone: false,
            shape: PodShape::of(&Pod::default()),
            records: Records::default(),
            memory: PerContainer::default(),
            stage: Stage::Live,
            preparation: Preparation::default(),
            start: None,
            kills: Vec::new(),
            restart_all: None,
            resetting: BTreeSet::new(),
            pulls: BTreeMap::new(),
            publication: Publication::default(),
            removing: BTreeSet::new(),
            sandbox_work: BTreeSet::new(),
            retry_at: None,
            awaits_room: false,
            is_counted: true,
            is_adopted: false,
            dirty: true,
            is_spinning: false,
        }
    }

    /// Takes in a new version of the object.
    pub(crate) fn apply(&mut self, pod: Arc<Pod>, now: Timestamp) {
        let is_same_spec = self.pod.as_ref().is_some_and(|old| old.spec == pod.spec);
        if !is_same_spec {
            self.reshape(PodShape::of(&pod));
        }
        match self.pod.replace(pod.clone()) {
            None => {
                self.publication.begin(pod.status.as_ref());
                self.recall_attempts();
                self.dirty = true;
            }
            Some(old) => {
                let (old_meta, meta) = (&old.metadata, &pod.metadata);
                if old_meta.labels != meta.labels || old_meta.annotations != meta.annotations {
                    self.preparation.refresh();
                }
                // The echo of a status that was written changes nothing.
                self.dirty |= !is_same_spec || concerns_status(&old, &pod);
                self.publication.stored(pod.status.as_ref(), now);
            }
        }
    }

    /// The spec's containers change: images may, and ephemeral containers are added.
    fn reshape(&mut self, shape: PodShape) {
        let mut memory: Vec<ContainerMemory> = Vec::with_capacity(shape.containers.0.len());
        for (_, container) in shape.containers.iter() {
            let old = self.shape.find(&container.name);
            let mut kept = old.and_then(|old| self.memory.get_mut(old)).map(std::mem::take).unwrap_or_default();
            let old = old.and_then(|old| self.shape.containers.get(old));
            if old.is_some_and(|old| container.resets_back_off(old)) {
                kept.crash.clear();
                kept.start.clear();
                kept.wait_until = None;
            }
            memory.push(kept);
        }
        self.memory = PerContainer(memory);
        self.shape = shape;
        self.records.resolve(&self.shape);
    }

    /// Restart counts go on from what users have seen (L-221, L-731).
    fn recall_attempts(&mut self) {
        let Some(status) = self.publication.last().cloned() else { return };
        let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
        for seen in lists.into_iter().flatten().flatten() {
            let Some(index) = self.shape.find(&seen.name) else { continue };
            let count = u32::try_from(seen.restart_count).unwrap_or(0);
            let has_run = seen.container_id.is_some()
                || seen.state.as_ref().is_some_and(|state| state.terminated.is_some() || state.running.is_some());
            self.memory_mut(index, |memory| {
                memory.next_attempt = memory.next_attempt.max(count.saturating_add(u32::from(has_run)));
            });
        }
    }

    /// Takes in what the runtime has.
    pub(crate) fn observe(&mut self, observation: PodObservation) {
        self.dirty |= self.records.observe(observation, &self.shape);
    }

    /// Takes in an answer.
    pub(crate) fn answered(&mut self, cx: &mut Context<'_>, effect: EffectId, purpose: Purpose, outcome: Outcome) {
        let failure = match &outcome {
            Outcome::Failed(failure) => Some(failure.clone()),
            _ => None,
        };
        match purpose {
            Purpose::SetUp => self.set_up_answered(cx, failure),
            Purpose::Refresh => self.preparation.refreshed(failure.is_some(), cx.now),
            Purpose::TearDown => self.torn_down(cx, failure),
            Purpose::RunSandbox => self.sandbox_answered(cx, outcome),
            Purpose::StopSandbox(id) => self.sandbox_stop_answered(cx, &id, failure),
            Purpose::RemoveSandbox(id) => self.sandbox_removal_answered(cx, &id, failure.is_some()),
            Purpose::Start => self.start_answered(cx, effect, outcome),
            Purpose::Signal(_) => self.signal_answered(cx, failure.as_ref()),
            Purpose::RemoveContainer(id) => self.container_removal_answered(cx, &id, failure.is_some()),
            Purpose::PreStop(id) => self.pre_stop_answered(cx, &id, effect, &outcome),
            Purpose::Probe(index, kind) => self.probe_answered(cx, index, kind, effect, outcome),
            Purpose::WriteStatus => self.publication.answered(failure.is_some(), cx.now),
            Purpose::DeleteObject => self.object_deletion_answered(cx, failure.is_some()),
            Purpose::Notice => {}
        }
    }

    /// Does everything that can be done at this moment.
    pub(crate) fn advance(&mut self, cx: &mut Context<'_>) {
        for _ in 0..ROUNDS {
            if !self.round(cx) {
                self.publication.flush(&self.reference, cx);
                return;
            }
        }
        self.is_spinning = true;
    }

    /// One round; true if there may be more to do.
    fn round(&mut self, cx: &mut Context<'_>) -> bool {
        if self.awaits_room && !self.is_deleted() && !self.object_is_gone {
            return false;
        }
        self.awaits_room = false;
        let mut changed = self.advance_kills(cx);
        changed |= self.advance_start(cx);
        changed |= self.follow_containers(cx);
        self.notice_restart_all(cx);
        if self.dirty {
            self.dirty = false;
            self.refresh_status(cx);
            changed = true;
        }
        changed |= match self.stage {
            Stage::Live => self.advance_live(cx),
            Stage::Terminating(_) => self.advance_termination(cx),
            Stage::Terminated(_) => self.advance_terminated(cx),
        };
        changed |= self.attempt_probes(cx);
        changed | self.dirty
    }

    /// True once there is nothing left to know or to do: the engine may forget the pod.
    pub(crate) fn is_over(&self) -> bool {
        let Stage::Terminated(termination) = &self.stage else { return false };
        (self.object_is_gone || self.pod.is_none())
            && termination.is_torn_down
            && self.records.is_empty()
            && self.start.is_none()
            && self.removing.is_empty()
            && self.sandbox_work.is_empty()
    }

    pub(crate) fn uid(&self) -> &PodUid {
        &self.reference.uid
    }

    /// The status as last computed.
    pub(crate) fn status(&self) -> Option<&PodStatus> {
        self.publication.last()
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    pub(crate) fn memory_mut(&mut self, index: ContainerIndex, change: impl FnOnce(&mut ContainerMemory)) {
        if let Some(memory) = self.memory.get_mut(index) {
            change(memory);
        }
    }

    pub(crate) fn record_event(&self, cx: &mut Context<'_>, event: PodEvent) {
        if !self.object_is_gone && self.pod.is_some() {
            cx.send(&self.reference, Action::RecordEvent(event), Purpose::Notice);
        }
    }

    pub(crate) fn cancel(&self, cx: &mut Context<'_>, effect: EffectId) {
        cx.send(&self.reference, Action::Cancel(effect), Purpose::Notice);
    }
}

/// True if the newer object differs in what the status is made of, beside the spec.
fn concerns_status(old: &Pod, new: &Pod) -> bool {
    let (old_meta, new_meta) = (&old.metadata, &new.metadata);
    if old_meta.generation != new_meta.generation || old_meta.deletion_timestamp != new_meta.deletion_timestamp {
        return true;
    }
    let empty = PodStatus::default();
    let (old, new) = (old.status.as_ref().unwrap_or(&empty), new.status.as_ref().unwrap_or(&empty));
    old.qos_class != new.qos_class
        || old.nominated_node_name != new.nominated_node_name
        || old.resource_claim_statuses != new.resource_claim_statuses
        || old.extended_resource_claim_status != new.extended_resource_claim_status
        || !foreign_conditions(old).eq(foreign_conditions(new))
}
