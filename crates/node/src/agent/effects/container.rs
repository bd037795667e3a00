//! Containers: created, started, removed.

use std::sync::Arc;

use jiff::Timestamp;
use lifecycle::effect::CreateContainer;
use lifecycle::{ContainerId, Outcome, PodRef};
use tokio::runtime::Handle;

use super::super::sources::{BlockingSources, environment_sources};
use super::super::world::World;
use super::{blocking, done, failed};
use crate::container::build::{BuildError, BuiltContainer, ContainerInputs, build_container};
use crate::container::find::find_container;
use crate::runtime::RuntimeError;
use crate::volumes::PodVolumes;

const ERROR: &str = "CreateContainerError";

pub(super) async fn create(world: &Arc<World>, pod: &PodRef, request: CreateContainer) -> Outcome {
    let sandbox = request.sandbox.clone();
    let built = match build(world, pod, request).await {
        Some(Ok(built)) => built,
        Some(Err(error)) => return failed(error.reason(), &error),
        None => return failed(ERROR, "internal error"),
    };
    match world.runtime.create_container(&sandbox, &built.config).await {
        Ok(id) => Outcome::Created(id),
        Err(error) => {
            release_image(world, built.config.id(&sandbox).as_str()).await;
            failed(ERROR, error)
        }
    }
}

async fn build(
    world: &Arc<World>,
    pod: &PodRef,
    request: CreateContainer,
) -> Option<Result<BuiltContainer, BuildError>> {
    let Some(container) = find_container(&request.pod, &request.name) else {
        return Some(Err(BuildError::NoContainer(request.name)));
    };
    let volumes = PodVolumes::new(&world.paths.pod(&pod.uid));
    let environment = environment_sources(world.cluster.as_ref(), &pod.namespace, &container, &volumes).await;
    let sandboxes = world.runtime.observation(&pod.uid).map(|observation| observation.sandboxes).unwrap_or_default();
    let Some(sandbox) = sandboxes.into_iter().find(|sandbox| sandbox.id == request.sandbox) else {
        return Some(Err(BuildError::NoSandbox(request.sandbox)));
    };
    let (shared, reference) = (Arc::clone(world), pod.clone());
    let sources = BlockingSources { cluster: Arc::clone(&world.cluster), handle: Handle::current() };
    blocking(move || {
        let inputs = ContainerInputs {
            request: &request,
            reference: &reference,
            sandbox: &sandbox,
            environment: &environment,
            volumes: &sources,
            now: Timestamp::now(),
        };
        let built = build_container(&shared.container_host(), &inputs)?;
        let id = built.config.id(&request.sandbox);
        shared.images.hold(&built.image, &shared.image_holder(id.as_str())).map_err(BuildError::Hold)?;
        Ok(built)
    })
    .await
}

pub(super) async fn start(world: &World, id: &ContainerId) -> Outcome {
    match world.runtime.start_container(id).await {
        Ok(()) => Outcome::Done,
        Err(error @ RuntimeError::StartFailed(_)) => failed("StartError", error),
        Err(error) => failed("RunContainerError", error),
    }
}

pub(super) async fn remove(world: &World, id: ContainerId, keep_logs: bool) -> Outcome {
    let removed = world.runtime.remove_container(&id, keep_logs).await;
    if removed.is_ok() {
        release_image(world, id.as_str()).await;
    }
    done(removed)
}

/// Lets the store forget that a container used an image.
pub(super) async fn release_image(world: &World, container: &str) {
    let (images, holder) = (world.images.clone(), world.image_holder(container));
    if let Some(Err(error)) = blocking(move || images.release(&holder)).await {
        tracing::warn!(%error, container, "an image is still held by a container that is gone");
    }
}
