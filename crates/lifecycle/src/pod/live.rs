//! A pod that is to run: volumes, sandbox, kills and starts (L-201 to L-209).

use jiff::Timestamp;

use crate::effect::Action;
use crate::events;
use crate::input::{Failure, Outcome};
use crate::outbox::{Context, Purpose};
use crate::pod::actions::{KillOrder, Situation, compute_pod_actions};
use crate::pod::back_off::{BackOff, BackOffLimits};
use crate::pod::kill::KillScope;
use crate::pod::sandbox::{NewSandbox, is_worth_a_sandbox, new_sandbox};
use crate::pod::termination::Cause;
use crate::pod::{PodWorker, Stage};
use crate::time::after;

/// What is tried again after a failure that has no back-off of its own (L-209, L-608, L-741).
pub(crate) const RETRY: std::time::Duration = std::time::Duration::from_secs(10);

/// Mounts that fail are tried again soon, then less often.
const MOUNT_LIMITS: BackOffLimits =
    BackOffLimits { initial: std::time::Duration::from_millis(500), max: std::time::Duration::from_secs(122) };

/// What must stand before the first container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preparation {
    volumes: Volumes,
    mount_failures: BackOff,
    refresh_wanted: bool,
    refresh_in_flight: bool,
    refresh_again_at: Option<Timestamp>,
    sandbox_in_flight: bool,
    sandbox_again_at: Option<Timestamp>,
    /// The sandbox attempt that `SandboxChanged` has been told of.
    announced: Option<u32>,
    network_told: bool,
}

/// The pod's volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Volumes {
    #[default]
    Missing,
    InFlight,
    Failed {
        again_at: Timestamp,
    },
    Ready,
}

impl Preparation {
    /// What volumes are made of has changed (L-922).
    pub(crate) fn refresh(&mut self) {
        match self.volumes {
            Volumes::Ready => self.refresh_wanted = true,
            Volumes::Failed { .. } => self.volumes = Volumes::Missing,
            Volumes::Missing | Volumes::InFlight => {}
        }
    }

    pub(crate) fn refreshed(&mut self, has_failed: bool, now: Timestamp) {
        self.refresh_in_flight = false;
        if has_failed {
            self.refresh_wanted = true;
            self.refresh_again_at = Some(after(now, RETRY));
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.volumes == Volumes::InFlight || self.sandbox_in_flight || self.refresh_in_flight
    }

    pub(crate) fn waits_for_network(&self) -> bool {
        self.network_told
    }

    pub(crate) fn has_volumes(&self) -> bool {
        self.volumes == Volumes::Ready
    }

    /// When a failed step is tried again.
    pub(crate) fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let volumes = match self.volumes {
            Volumes::Failed { again_at } => Some(again_at),
            _ => None,
        };
        let refresh = self.refresh_again_at.filter(|_| self.refresh_wanted && !self.refresh_in_flight);
        let sandbox = self.sandbox_again_at.filter(|_| !self.sandbox_in_flight);
        [volumes, refresh, sandbox].into_iter().flatten().filter(|due| *due > now).min()
    }
}

impl PodWorker {
    /// Everything that a live pod can do now. True if anything changed.
    pub(crate) fn advance_live(&mut self, cx: &mut Context<'_>) -> bool {
        if self.pod.is_none() {
            // Nothing in the API stands behind the records.
            self.begin_termination(cx, Cause::Orphaned, Some(1));
            return true;
        }
        if let Some((cause, grace)) = self.reason_to_end(cx) {
            self.begin_termination(cx, cause, grace);
            return true;
        }
        if let Some(changed) = self.advance_restart_all(cx) {
            return changed;
        }
        // What runs is looked after whether anything new may be started or not.
        let may_start = self.network_is_ready(cx) && self.volumes_are_ready(cx);
        if may_start {
            self.refresh_volumes(cx);
        }
        let Some(wanted) = new_sandbox(&self.shape, &self.records) else {
            self.preparation.announced = None;
            return self.act(cx, may_start);
        };
        if !self.is_worth_a_sandbox() {
            self.begin_termination(cx, Cause::Completed, None);
            return true;
        }
        may_start && self.replace_sandbox(cx, wanted)
    }

    /// L-201 (3), L-1023.
    fn network_is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(error) = cx.network_error.filter(|_| !self.shape.host_network) else {
            self.preparation.network_told = false;
            return true;
        };
        if !self.preparation.network_told {
            self.preparation.network_told = true;
            let message = format!("network is not ready: {error}");
            self.record_event(cx, events::pod(true, "NetworkNotReady", message));
        }
        false
    }

    /// L-201 (6) and (7), L-202.
    fn volumes_are_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let is_due = match self.preparation.volumes {
            Volumes::Ready => return true,
            Volumes::InFlight => false,
            Volumes::Missing => true,
            Volumes::Failed { again_at } => cx.now >= again_at,
        };
        if let (true, Some(pod)) = (is_due, self.pod.clone()) {
            self.preparation.volumes = Volumes::InFlight;
            cx.send(&self.reference, Action::SetUpPod(pod), Purpose::SetUp);
        }
        false
    }

    pub(crate) fn set_up_answered(&mut self, cx: &mut Context<'_>, failure: Option<Failure>) {
        let Some(failure) = failure else {
            self.preparation.volumes = Volumes::Ready;
            self.preparation.mount_failures.clear();
            return;
        };
        self.preparation.mount_failures.count(cx.now, cx.now, MOUNT_LIMITS);
        let again_at = after(cx.now, self.preparation.mount_failures.delay());
        self.preparation.volumes = Volumes::Failed { again_at };
        if matches!(self.stage, Stage::Live) {
            for line in failure.message.lines() {
                self.record_event(cx, events::pod(true, "FailedMount", line));
            }
        }
    }

    fn refresh_volumes(&mut self, cx: &mut Context<'_>) {
        let preparation = &mut self.preparation;
        let is_due = preparation.refresh_again_at.is_none_or(|again_at| cx.now >= again_at);
        if !preparation.refresh_wanted || preparation.refresh_in_flight || !is_due {
            return;
        }
        if let Some(pod) = self.pod.clone() {
            preparation.refresh_wanted = false;
            preparation.refresh_in_flight = true;
            preparation.refresh_again_at = None;
            cx.send(&self.reference, Action::RefreshVolumes(pod), Purpose::Refresh);
        }
    }

    /// L-206 to L-208: everything of the old sandbox goes before the new one is made.
    fn replace_sandbox(&mut self, cx: &mut Context<'_>, wanted: NewSandbox) -> bool {
        if self.start.is_some() {
            self.cancel_start(cx);
            return false;
        }
        if wanted.replaces && self.preparation.announced != Some(wanted.attempt) {
            self.preparation.announced = Some(wanted.attempt);
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.record_event(cx, events::pod(false, "SandboxChanged", message));
        }
        if self.records.any_running() {
            return self.kill_all(cx, self.kill_grace(None));
        }
        if self.stop_sandboxes(cx) || !self.kills.is_empty() {
            return false;
        }
        self.purge_init_records(cx);
        self.run_sandbox(cx, wanted.attempt);
        false
    }

    pub(crate) fn is_worth_a_sandbox(&self) -> bool {
        is_worth_a_sandbox(&self.shape, &self.records, |index| {
            let name = &self.shape.containers.at(index).name;
            self.publication.last().is_some_and(|status| has_ever_run(status, name))
        })
    }

    fn run_sandbox(&mut self, cx: &mut Context<'_>, attempt: u32) {
        let is_due = self.preparation.sandbox_again_at.is_none_or(|again_at| cx.now >= again_at);
        if self.preparation.sandbox_in_flight || !is_due {
            return;
        }
        if let Some(pod) = self.pod.clone() {
            self.preparation.sandbox_in_flight = true;
            self.preparation.sandbox_again_at = None;
            cx.send(&self.reference, Action::RunSandbox { pod, attempt }, Purpose::RunSandbox);
        }
    }

    pub(crate) fn sandbox_answered(&mut self, cx: &mut Context<'_>, outcome: Outcome) {
        self.preparation.sandbox_in_flight = false;
        match outcome {
            Outcome::SandboxReady(sandbox) => {
                self.records.sandbox_ready(sandbox);
                self.dirty = true;
            }
            // L-209: silent once the pod is to end.
            Outcome::Failed(failure) if matches!(self.stage, Stage::Live) => {
                self.preparation.sandbox_again_at = Some(after(cx.now, RETRY));
                let message = format!("Failed to create pod sandbox: {}", failure.message);
                self.record_event(cx, events::pod(true, "FailedCreatePodSandBox", message));
            }
            _ => self.preparation.sandbox_again_at = Some(after(cx.now, RETRY)),
        }
    }

    pub(crate) fn situation(&self) -> Situation<'_> {
        Situation {
            shape: &self.shape,
            records: &self.records,
            memory: &self.memory,
            starting: self.start.as_ref().map(|start| start.index),
        }
    }

    /// With a good sandbox: kill what must go, start what is next.
    fn act(&mut self, cx: &mut Context<'_>, may_start: bool) -> bool {
        let actions = compute_pod_actions(&self.situation());
        if actions.kill_pod {
            self.begin_termination(cx, Cause::Completed, None);
            return true;
        }
        let mut changed = false;
        for order in actions.kills {
            changed |= self.carry_out_kill(cx, order);
        }
        self.drop_outdated_start(cx);
        if may_start && self.start.is_none() {
            changed |= self.start_next(cx, &actions.starts);
        }
        changed
    }

    /// A start of an image that the spec does not name any more is begun anew.
    fn drop_outdated_start(&mut self, cx: &mut Context<'_>) {
        let is_outdated = self.start.as_ref().is_some_and(|start| {
            start.container().is_none() && self.shape.containers.at(start.index).image != start.image
        });
        if is_outdated {
            self.cancel_start(cx);
        }
    }

    fn carry_out_kill(&mut self, cx: &mut Context<'_>, order: KillOrder) -> bool {
        if self.is_being_killed(order.index) {
            return false;
        }
        if !self.records.is_running(&order.container) {
            // Of unknown state: there is nothing to signal that would answer, so it is taken away.
            let is_asked = self.remove_container(cx, &order.container, true);
            if is_asked {
                self.container_event(cx, order.index, false, "Killing", order.message);
            }
            return is_asked;
        }
        let finish_before = self.records.newest_finish(order.index);
        self.memory_mut(order.index, |memory| {
            memory.restart_after_kill = order.then_start.then(|| order.container.clone());
            memory.finish_before_kill = finish_before;
        });
        let grace = self.kill_grace(Some((order.index, order.cause)));
        self.begin_kill(cx, &order.container, KillScope::Single, grace, Some(&order.message));
        true
    }
}

fn has_ever_run(status: &k8s_openapi::api::core::v1::PodStatus, name: &str) -> bool {
    let has_run = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    status
        .container_statuses
        .iter()
        .flatten()
        .any(|status| status.name == name && (has_run(status.state.as_ref()) || has_run(status.last_state.as_ref())))
}
