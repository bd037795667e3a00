//! When a status is written, and what is held back until everything is down (L-618, L-725, L-741).

use std::collections::VecDeque;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};

use crate::effect::Action;
use crate::identity::{ContainerRole, PodRef};
use crate::outbox::{Context, Purpose};
use crate::pod::init_progress::is_initialized;
use crate::pod::live::RETRY;
use crate::pod::restart_all::RestartAll;
use crate::pod::sandbox::new_sandbox;
use crate::pod::termination::Cause;
use crate::pod::{PodWorker, Stage};
use crate::status::conditions::{DISRUPTION_TARGET, OWNED, disruption_target};
use crate::status::fill_in::{fill_in, has_initialized};
use crate::status::phase::Phase;
use crate::status::{Verdict, View, compute, termination_message};
use crate::time::{after, earliest};

/// Statuses that wait behind the one being written; of more than these the oldest is left out.
const QUEUE: usize = 16;

/// The statuses on their way to the API.
///
/// They are written one after another, each one, so that whoever watches sees every state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publication {
    /// The newest status, written or waiting to be.
    last: Option<PodStatus>,
    queue: VecDeque<PodStatus>,
    /// The phase of the write that is on its way.
    in_flight: Option<Phase>,
    /// The last write was refused: the newest status is written again then.
    retry_at: Option<Timestamp>,
    /// The phase of the last write that was accepted.
    accepted: Phase,
    /// The phase as the containers have it, told or not.
    pub(crate) phase: Phase,
    disruption: Option<PodCondition>,
    had_initialized: bool,
    is_stopped: bool,
    /// The pod had ended before the engine knew it: nothing more is to be told.
    began_final: bool,
    /// The API shows something else than was written: it is written again then (L-741).
    reconcile_at: Option<Timestamp>,
    /// It has been written again, and once is enough.
    is_reconciled: bool,
}

impl Publication {
    /// Begins with what the API has.
    pub(crate) fn begin(&mut self, stored: Option<&PodStatus>) {
        self.last = stored.cloned();
        self.accepted = Phase::parse(stored.and_then(|status| status.phase.as_deref()));
        self.phase = self.accepted;
        self.began_final = self.accepted.is_final() && !stored.is_some_and(has_running);
    }

    /// The object came with this status. Somebody else may have written over ours.
    pub(crate) fn stored(&mut self, stored: Option<&PodStatus>, now: Timestamp) {
        let is_busy = self.in_flight.is_some() || !self.queue.is_empty() || self.is_stopped;
        if is_busy || self.began_final {
            return;
        }
        let is_ours = match (stored, &self.last) {
            (Some(stored), Some(last)) => is_same_word(stored, last),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        if is_ours {
            (self.reconcile_at, self.is_reconciled) = (None, false);
        } else if !self.is_reconciled && self.reconcile_at.is_none() {
            self.reconcile_at = Some(after(now, RETRY));
        }
    }

    /// The object is gone: nothing is written any more.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
        self.queue.clear();
    }

    pub(crate) fn last(&self) -> Option<&PodStatus> {
        self.last.as_ref()
    }

    /// True if everything has been written, or cannot be.
    pub(crate) fn is_told(&self) -> bool {
        self.is_stopped || (self.queue.is_empty() && self.in_flight.is_none()) || self.retry_at.is_some()
    }

    /// True if the API has accepted a final phase, and nothing newer waits.
    pub(crate) fn is_accepted(&self) -> bool {
        self.accepted.is_final() && self.queue.is_empty() && self.in_flight.is_none()
    }

    pub(crate) fn due(&self) -> Option<Timestamp> {
        let retry = self.retry_at.filter(|_| !self.queue.is_empty());
        earliest(retry, self.reconcile_at).filter(|_| !self.is_stopped)
    }

    fn push(&mut self, status: PodStatus) {
        if self.last.as_ref() == Some(&status) {
            return;
        }
        if self.queue.len() >= QUEUE {
            self.queue.pop_front();
        }
        self.reconcile_at = None;
        if !self.is_stopped {
            self.queue.push_back(status.clone());
        }
        self.last = Some(status);
    }

    /// Sends the next status if none is on its way.
    pub(crate) fn flush(&mut self, reference: &PodRef, cx: &mut Context<'_>) {
        if self.in_flight.is_some() || self.is_stopped || self.retry_at.is_some_and(|retry_at| cx.now < retry_at) {
            return;
        }
        if self.reconcile_at.is_some_and(|reconcile_at| cx.now >= reconcile_at) {
            (self.reconcile_at, self.is_reconciled) = (None, true);
            self.queue.extend(self.last.clone());
        }
        if let Some(status) = self.queue.pop_front() {
            self.retry_at = None;
            self.in_flight = Some(Phase::parse(status.phase.as_deref()));
            cx.send(reference, Action::WriteStatus(Box::new(status)), Purpose::WriteStatus);
        }
    }

    pub(crate) fn answered(&mut self, has_failed: bool, now: Timestamp) {
        let Some(phase) = self.in_flight.take() else { return };
        if !has_failed {
            self.accepted = phase;
            return;
        }
        self.retry_at = Some(after(now, RETRY));
        // What stands in between is history that the API would refuse again.
        self.queue.clear();
        self.queue.extend(self.last.clone());
    }
}

impl PodWorker {
    /// Computes the status and, if it differs, has it written.
    pub(crate) fn refresh_status(&mut self, cx: &Context<'_>) {
        if self.has_spoken() {
            return;
        }
        if self.restart_all.as_ref().is_some_and(RestartAll::has_begun) {
            // What is being reset is told once it is gone: how it went down says nothing (L-112).
            return;
        }
        let Some(pod) = self.pod.clone() else { return };
        let empty = PodStatus::default();
        let all_down = matches!(self.stage, Stage::Terminated(_));
        let computed = {
            let previous = self.publication.last.as_ref().unwrap_or(&empty);
            let mut view = self.view(cx, &pod, previous);
            let ending = self.ending();
            view.forced = self.forced(ending);
            if let Some(ending) = ending.filter(|ending| ending.is_rejection) {
                rejected_status(&view, ending)
            } else {
                let computed = compute(&view);
                (computed.status, computed.phase)
            }
        };
        let (mut status, phase) = computed;
        self.publication.had_initialized |= has_initialized(&status, &self.shape);
        self.publication.phase = phase;
        let is_rejection = self.ending().is_some_and(|ending| ending.is_rejection);
        if all_down && !is_rejection {
            fill_in(&mut status, &self.shape, false, self.publication.had_initialized);
            self.publication.phase = Phase::parse(status.phase.as_deref());
        }
        if let Stage::Terminated(termination) = &mut self.stage {
            termination.is_final = true;
        } else {
            self.hold_back(&mut status, phase);
        }
        self.keep_completed_init(&mut status);
        if let Some(started) = self.publication.last().and_then(|told| self.started_first(told, &status)) {
            self.publication.push(started);
        }
        self.publication.push(status);
    }

    /// True if the last word has been said, or there is nobody to say it to.
    fn has_spoken(&mut self) -> bool {
        let is_silent = self.pod.is_none() || (self.publication.began_final && !self.records.any_running());
        match &mut self.stage {
            Stage::Terminated(termination) => {
                termination.is_final |= is_silent;
                termination.is_final
            }
            Stage::Live | Stage::Terminating(_) => is_silent,
        }
    }

    /// A startup probe that has passed is told by itself: the container has started, and is ready only in the next status (L-407).
    fn started_first(&self, told: &PodStatus, new: &PodStatus) -> Option<PodStatus> {
        if !matches!(self.stage, Stage::Live) {
            return None;
        }
        let mut between = told.clone();
        let mut differs = false;
        let lists = [
            (&mut between.init_container_statuses, &new.init_container_statuses),
            (&mut between.container_statuses, &new.container_statuses),
        ];
        for (old, new) in lists {
            for old in old.iter_mut().flatten().filter(|old| old.started == Some(false)) {
                let mut shapes = self.shape.containers.iter();
                let has_startup_probe = shapes.any(|(_, it)| it.name == old.name && it.startup_probe.is_some());
                let new = new.iter().flatten().find(|new| new.name == old.name && new.container_id == old.container_id);
                if has_startup_probe && new.is_some_and(|new| new.started == Some(true) && new.ready) {
                    old.started = Some(true);
                    differs = true;
                }
            }
        }
        differs.then_some(between)
    }

    fn ending(&self) -> Option<&crate::pod::termination::Ending> {
        match &self.stage {
            Stage::Terminating(termination) | Stage::Terminated(termination) => match &termination.cause {
                Cause::Forced(ending) => Some(ending),
                _ => None,
            },
            Stage::Live => None,
        }
    }

    /// L-707: a final phase is never left, and the node's own reasons come first.
    fn forced<'a>(&'a self, ending: Option<&'a crate::pod::termination::Ending>) -> Option<Verdict<'a>> {
        let told = self.publication.last.as_ref().filter(|status| Phase::parse(status.phase.as_deref()).is_final());
        if let Some(told) = told {
            return Some(Verdict {
                phase: Phase::parse(told.phase.as_deref()),
                reason: told.reason.as_deref(),
                message: told.message.as_deref(),
            });
        }
        if let Some(ending) = ending {
            return Some(Verdict {
                phase: Phase::Failed,
                reason: Some(&ending.reason),
                message: Some(&ending.message),
            });
        }
        None
    }

    fn view<'a>(
        &'a self,
        cx: &'a Context<'_>,
        pod: &'a k8s_openapi::api::core::v1::Pod,
        previous: &'a PodStatus,
    ) -> View<'a> {
        let is_live = matches!(self.stage, Stage::Live);
        // That the sandbox goes is told with the last status, not by a write of its own.
        let needs_sandbox = match self.stage {
            Stage::Terminating(_) if was_ready_to_start(previous) => false,
            _ => new_sandbox(&self.shape, &self.records).is_some(),
        };
        let is_active = self.shape.app().any(|(index, _)| self.records.newest_active(index).is_some());
        let is_initializing_again = is_live
            && self.shape.has_init()
            && if needs_sandbox { self.is_worth_a_sandbox() } else { !is_initialized(&self.situation()) };
        View {
            now: cx.now,
            config: cx.config,
            pod,
            shape: &self.shape,
            records: &self.records,
            memory: &self.memory,
            previous,
            starting: self.start.as_ref(),
            is_restarting_all: self.restart_all.is_some(),
            is_deleted: self.is_deleted(),
            is_static: false,
            all_down: matches!(self.stage, Stage::Terminated(_)),
            needs_sandbox,
            is_active,
            is_initializing_again,
            message_budget: termination_message::budget(self.shape.containers.0.len()),
            forced: None,
            disruption: self.publication.disruption.as_ref(),
        }
    }

    /// A final phase is told when everything is down, and with it its reason and who disrupted (L-618).
    fn hold_back(&self, status: &mut PodStatus, phase: Phase) {
        let told = self.publication.last.as_ref();
        let told_phase = Phase::parse(told.and_then(|told| told.phase.as_deref()));
        if !phase.is_final() || told_phase.is_final() {
            return;
        }
        status.phase = Some(told_phase.name().to_owned());
        status.reason = told.and_then(|told| told.reason.clone());
        status.message = told.and_then(|told| told.message.clone());
        let had_disruption = told
            .is_some_and(|told| told.conditions.iter().flatten().any(|condition| condition.type_ == DISRUPTION_TARGET));
        if !had_disruption {
            status.conditions.iter_mut().for_each(|list| list.retain(|condition| condition.type_ != DISRUPTION_TARGET));
        }
    }

    /// Remembers that the node disrupts the pod.
    pub(crate) fn disrupt(&mut self, message: &str, now: Timestamp) {
        let generation = self.pod.as_ref().and_then(|pod| pod.metadata.generation);
        self.publication.disruption = Some(disruption_target(message, generation, now));
    }

    /// L-229: the API refuses that a completed init container runs again, so it shows its last result until the new run has ended.
    fn keep_completed_init(&self, status: &mut PodStatus) {
        let told = self.publication.last.as_ref();
        for (index, shape) in self.shape.init().filter(|(_, shape)| shape.role == ContainerRole::Init) {
            let old = told
                .and_then(|told| told.init_container_statuses.as_deref())
                .and_then(|list| list.iter().find(|status| status.name == shape.name))
                .and_then(|status| status.state.as_ref());
            let Some(old) = old.filter(|state| state.terminated.is_some()) else { continue };
            let code = crate::pod::shape::terminated_code(Some(old)).unwrap_or(0);
            if shape.restart.should_restart(code) || self.shape.could_restart_all {
                continue;
            }
            let new = status.init_container_statuses.as_mut().and_then(|list| list.get_mut(index.0));
            if let Some(new) = new.filter(|new| new.state.as_ref().is_none_or(|state| state.terminated.is_none())) {
                new.state = Some(old.clone());
                new.ready = code == 0;
                new.started = Some(false);
            }
        }
    }
}

fn has_running(status: &PodStatus) -> bool {
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

/// True if two statuses say the same of what the node is to say.
fn is_same_word(one: &PodStatus, other: &PodStatus) -> bool {
    one.phase == other.phase
        && one.reason == other.reason
        && one.message == other.message
        && one.pod_ip == other.pod_ip
        && one.init_container_statuses == other.init_container_statuses
        && one.container_statuses == other.container_statuses
        && one.ephemeral_container_statuses == other.ephemeral_container_statuses
        && owned_claims(one).eq(owned_claims(other))
}

/// What the node's conditions say, without their times.
fn owned_claims(status: &PodStatus) -> impl Iterator<Item = (&str, &str, Option<&str>, Option<&str>)> {
    let conditions = status.conditions.iter().flatten();
    conditions.filter(|condition| OWNED.contains(&condition.type_.as_str())).map(|condition| {
        let PodCondition { type_, status, reason, message, .. } = condition;
        (type_.as_str(), status.as_str(), reason.as_deref(), message.as_deref())
    })
}

fn was_ready_to_start(status: &PodStatus) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "PodReadyToStartContainers" && condition.status == "True")
}

/// L-617: a pod that was refused has no containers to report.
fn rejected_status(view: &View<'_>, ending: &crate::pod::termination::Ending) -> (PodStatus, Phase) {
    let stored = view.pod.status.as_ref();
    let foreign: Vec<PodCondition> = stored
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
        .iter()
        .filter(|condition| !crate::status::conditions::OWNED.contains(&condition.type_.as_str()))
        .cloned()
        .collect();
    let status = PodStatus {
        phase: Some(Phase::Failed.name().to_owned()),
        reason: Some(ending.reason.clone()),
        message: Some(ending.message.clone()),
        qos_class: stored.and_then(|status| status.qos_class.clone()),
        start_time: view.previous.start_time.clone().or_else(|| Some(crate::time::to_the_second(view.now))),
        observed_generation: view.pod.metadata.generation,
        conditions: (!foreign.is_empty()).then_some(foreign),
        ..PodStatus::default()
    };
    (status, Phase::Failed)
}
