//! Effects carried out: one effect, one call, one outcome.
//!
//! Nothing here decides: what fails is told to the engine, which knows what to do.

mod api;
mod attempts;
mod container;
mod image;
mod pod;
mod sandbox;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use lifecycle::input::ProbeOutcome;
use lifecycle::{Action, Effect, Failure, Outcome, PodRef};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::world::World;

/// Carries an effect out. A cancelled one ends early where that can be done.
pub(super) async fn perform(world: Arc<World>, effect: Effect, cancelled: CancellationToken) -> Outcome {
    let can_be_cancelled =
        matches!(effect.action, Action::PullImage { .. } | Action::RunHook { .. } | Action::Probe { .. });
    if !can_be_cancelled {
        return dispatch(&world, effect).await;
    }
    tokio::select! {
        outcome = dispatch(&world, effect) => outcome,
        () = cancelled.cancelled() => Outcome::Cancelled,
    }
}

/// Renews the tokens in the volumes of a pod (L-923).
pub(super) async fn renew_tokens(world: &Arc<World>, pod: &PodRef, object: Arc<Pod>) {
    if let Outcome::Failed(failure) = pod::refresh(world, pod, object).await {
        tracing::warn!(pod = pod.name, "tokens were not renewed: {}", failure.message);
    }
}

/// The outcome for an effect whose task died.
pub(super) fn of_panic(is_probe: bool) -> Outcome {
    let message = "internal error: the task that carried it out has failed".to_owned();
    if is_probe { Outcome::Probe(ProbeOutcome::Error(message)) } else { failed("", message) }
}

async fn dispatch(world: &Arc<World>, effect: Effect) -> Outcome {
    let pod = &effect.pod;
    let limits = &world.limits;
    match effect.action {
        Action::SetUpPod(object) => limited(&limits.changes, pod::set_up(world, pod, object)).await,
        Action::RefreshVolumes(object) => limited(&limits.changes, pod::refresh(world, pod, object)).await,
        Action::TearDownPod => limited(&limits.changes, pod::tear_down(world, pod)).await,
        Action::RunSandbox { pod: object, attempt } => {
            limited(&limits.changes, sandbox::run(world, pod, &object, attempt)).await
        }
        Action::StopSandbox(id) => done(world.runtime.stop_sandbox(&id).await),
        Action::RemoveSandbox(id) => limited(&limits.changes, sandbox::remove(world, &id)).await,
        Action::InspectImage { image } => image::inspect(world, image).await,
        Action::PullImage { image, pod: object } => {
            limited(&limits.pulls, image::pull(world, pod, &image, &object)).await
        }
        Action::CreateContainer(request) => limited(&limits.changes, container::create(world, pod, request)).await,
        Action::StartContainer(id) => limited(&limits.changes, container::start(world, &id)).await,
        Action::SignalContainer { container, signal } => {
            done(world.runtime.signal_container(&container, &signal).await)
        }
        Action::RemoveContainer { container, keep_logs } => {
            limited(&limits.changes, container::remove(world, container, keep_logs)).await
        }
        Action::RunHook { container, pod: object, name, handler } => {
            attempts::hook(world, pod, &attempts::Of { id: &container, pod: &object, name: &name }, &handler).await
        }
        Action::Probe { container, pod: object, name, probe } => {
            let of = attempts::Of { id: &container, pod: &object, name: &name };
            Outcome::Probe(limited(&limits.probes, attempts::probe(world, pod, &of, &probe)).await)
        }
        Action::WriteStatus(status) => api::write_status(world, pod, &status).await,
        Action::DeletePodObject(_) => api::delete_pod(world, pod).await,
        // The loop does these itself.
        Action::Cancel(_) | Action::RecordEvent(_) => Outcome::Done,
    }
}

/// Does the work when it is its turn.
async fn limited<T>(semaphore: &Semaphore, work: impl Future<Output = T>) -> T {
    // Never closed; without a permit the work is done all the same.
    let _permit = semaphore.acquire().await;
    work.await
}

fn failed(reason: &str, message: impl ToString) -> Outcome {
    Outcome::Failed(Failure { reason: reason.to_owned(), message: message.to_string() })
}

fn done<T, E: std::fmt::Display>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error) => failed("", error),
    }
}

/// Work that waits for disks, on a thread for such work. `None` if it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::error!(%error, "a task of the agent has failed");
            None
        }
    }
}
