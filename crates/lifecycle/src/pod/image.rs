//! The image steps of a start: is it there, must it be pulled, may it be pulled again (L-224, L-314).

use jiff::Timestamp;

use crate::effect::Action;
use crate::events;
use crate::input::{Failure, ImageRecord, Outcome};
use crate::outbox::{Context, Purpose};
use crate::pod::PodWorker;
use crate::pod::back_off::BackOff;
use crate::pod::memory::StartError;
use crate::pod::shape::{ContainerIndex, PullPolicy};
use crate::pod::start::{StartStep, or_default};
use crate::time::elapsed;

/// The failed pulls of one image in one pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct PullMemory {
    back_off: BackOff,
    failed_at: Option<Timestamp>,
    /// `<reason>: <message>` of the last try.
    error: String,
}

impl PodWorker {
    /// The first step of a start.
    pub(crate) fn ensure_image(&mut self, cx: &mut Context<'_>, index: ContainerIndex) {
        let shape = &self.shape.containers.at(index);
        if shape.pull_policy == PullPolicy::Always {
            return self.pull(cx, index);
        }
        let action = Action::InspectImage { image: shape.image.clone() };
        let effect = cx.send(&self.reference, action, Purpose::Start);
        if let Some(start) = &mut self.start {
            start.step = StartStep::InspectImage;
            start.effect = Some(effect);
        }
    }

    pub(crate) fn image_inspected(&mut self, cx: &mut Context<'_>, index: ContainerIndex, outcome: Outcome) {
        let shape = &self.shape.containers.at(index);
        let image = shape.image.clone();
        match outcome {
            Outcome::Image(Some(record)) => {
                self.container_event(cx, index, false, "Pulled", events::present(&image));
                self.create(cx, index, record.image_id);
            }
            Outcome::Image(None) if shape.pull_policy == PullPolicy::Never => {
                let message = events::never_pulled(&image);
                self.container_event(cx, index, true, "ErrImageNeverPull", message.clone());
                self.image_failed(cx, index, "ErrImageNeverPull", message);
            }
            Outcome::Image(None) => self.pull(cx, index),
            Outcome::Failed(failure) => self.inspect_failed(cx, index, failure),
            _ => self.end_start(),
        }
    }

    /// L-1012.
    fn inspect_failed(&mut self, cx: &mut Context<'_>, index: ContainerIndex, failure: Failure) {
        let image = events::quoted(&self.shape.containers.at(index).image);
        let reason = or_default(failure.reason, "ImageInspectError");
        let message = match reason.as_str() {
            "InvalidImageName" => format!(
                "Failed to apply default image tag {image}: couldn't parse image name {image}: {}",
                failure.message
            ),
            _ => format!("Failed to inspect image {image}: {}", failure.message),
        };
        self.container_event(cx, index, true, "InspectFailed", message.clone());
        self.image_failed(cx, index, &reason, message);
    }

    /// An image that cannot be had; the event names the reason alone (L-1009).
    fn image_failed(&mut self, cx: &mut Context<'_>, index: ContainerIndex, reason: &str, message: String) {
        self.container_event(cx, index, true, "Failed", format!("Error: {reason}"));
        self.hold_start(cx, index, reason, message);
    }

    fn pull(&mut self, cx: &mut Context<'_>, index: ContainerIndex) {
        let image = self.shape.containers.at(index).image.clone();
        if let Some(until) = self.pull_waits_until(cx, &image) {
            return self.pull_backs_off(cx, index, until);
        }
        let Some(pod) = self.pod.clone() else { return self.end_start() };
        self.container_event(cx, index, false, "Pulling", format!("Pulling image {}", events::quoted(&image)));
        let effect = cx.send(&self.reference, Action::PullImage { image, pod }, Purpose::Start);
        if let Some(start) = &mut self.start {
            start.step = StartStep::PullImage { began_at: cx.now };
            start.effect = Some(effect);
        }
    }

    fn pull_waits_until(&self, cx: &Context<'_>, image: &str) -> Option<Timestamp> {
        let memory = self.pulls.get(image)?;
        memory.back_off.waits_until(memory.failed_at?, cx.now, self.limits(cx))
    }

    /// The pull is not tried: the last one failed a short while ago (L-314, L-1010).
    fn pull_backs_off(&mut self, cx: &mut Context<'_>, index: ContainerIndex, until: Timestamp) {
        let image = self.shape.containers.at(index).image.clone();
        let error = self.pulls.get(&image).map(|memory| memory.error.clone()).unwrap_or_default();
        let event = events::pull_back_off(&image);
        self.container_event(cx, index, false, "BackOff", event.clone());
        self.container_event(cx, index, true, "Failed", "Error: ImagePullBackOff");
        self.memory_mut(index, |memory| {
            memory.wait_until = Some(until);
            memory.start_error =
                Some(StartError { reason: "ImagePullBackOff".to_owned(), message: format!("{event}: {error}") });
        });
        self.end_start();
    }

    pub(crate) fn image_pulled(
        &mut self,
        cx: &mut Context<'_>,
        index: ContainerIndex,
        began_at: Timestamp,
        outcome: Outcome,
    ) {
        match outcome {
            Outcome::Image(Some(ImageRecord { image_id, size_bytes })) => {
                let image = self.shape.containers.at(index).image.clone();
                let message = events::pulled(&image, elapsed(began_at, cx.now), size_bytes);
                self.container_event(cx, index, false, "Pulled", message);
                self.pulls.remove(&image);
                self.create(cx, index, image_id);
            }
            Outcome::Failed(failure) => self.pull_failed(cx, index, failure),
            _ => self.end_start(),
        }
    }

    /// L-1008; the wait begins, and is told once the failure itself has been seen.
    fn pull_failed(&mut self, cx: &mut Context<'_>, index: ContainerIndex, failure: Failure) {
        let (now, limits) = (cx.now, self.limits(cx));
        let image = self.shape.containers.at(index).image.clone();
        let reason = or_default(failure.reason, "ErrImagePull");
        let message = format!("Failed to pull image {}: {}", events::quoted(&image), failure.message);
        self.container_event(cx, index, true, "Failed", message);
        self.container_event(cx, index, true, "Failed", format!("Error: {reason}"));
        let memory = self.pulls.entry(image).or_default();
        memory.back_off.count(now, now, limits);
        memory.failed_at = Some(now);
        memory.error = format!("{reason}: {}", failure.message);
        self.memory_mut(index, |memory| {
            // No wait here: the next look finds the pull backing off, and says so.
            memory.wait_until = None;
            memory.start_error = Some(StartError { reason, message: failure.message });
        });
        self.end_start();
    }
}
