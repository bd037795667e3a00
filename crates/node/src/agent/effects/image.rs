//! Images: what the store has, and what is pulled into it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use lifecycle::input::ImageRecord;
use lifecycle::{Outcome, PodRef};

use super::super::sources::pull_secrets;
use super::super::world::World;
use super::{blocking, failed};
use crate::images::{Credentials, FindError, Image, PullOptions};

pub(super) async fn inspect(world: &World, image: String) -> Outcome {
    let images = world.images.clone();
    match blocking(move || images.find(&image)).await {
        Some(Ok(found)) => Outcome::Image(found.as_ref().map(record)),
        Some(Err(error @ FindError::InvalidName { .. })) => failed("InvalidImageName", error),
        Some(Err(error)) => failed("ImageInspectError", error),
        None => failed("ImageInspectError", "internal error"),
    }
}

pub(super) async fn pull(world: &World, pod: &PodRef, image: &str, object: &Pod) -> Outcome {
    let spec = object.spec.as_ref();
    let names = spec.and_then(|spec| spec.image_pull_secrets.as_deref()).unwrap_or_default();
    let names: Vec<String> = names.iter().map(|reference| reference.name.clone()).collect();
    let (secrets, missing) = pull_secrets(world.cluster.as_ref(), pod, &names).await;
    if !missing.is_empty() {
        let missing = missing.join(", ");
        world.recorder.warn(
            pod,
            "FailedToRetrieveImagePullSecret",
            format!(
                "Unable to retrieve some image pull secrets ({missing}); attempting to pull the image may not succeed."
            ),
        );
    }
    let credentials = match Credentials::from_secrets(&secrets) {
        Ok(credentials) => credentials,
        Err(error) => return failed("ErrImagePull", error),
    };
    let options = PullOptions { credentials, insecure_registries: world.insecure_registries.clone() };
    match world.images.pull(image, &options, Arc::clone(&world.progress)).await {
        Ok(image) => Outcome::Image(Some(record(&image))),
        Err(error) => failed(error.reason(), &error),
    }
}

fn record(image: &Image) -> ImageRecord {
    ImageRecord { image_id: image.image_id().to_owned(), size_bytes: image.size_bytes }
}
