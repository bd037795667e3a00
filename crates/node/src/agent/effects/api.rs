//! What is written to the API.

use k8s_openapi::api::core::v1::PodStatus;
use lifecycle::{Outcome, PodRef};

use super::super::world::{World, answered};
use super::failed;
use crate::cluster::ClusterError;

pub(super) async fn write_status(world: &World, pod: &PodRef, status: &PodStatus) -> Outcome {
    outcome(answered(world.cluster.write_pod_status(pod, status)).await)
}

pub(super) async fn delete_pod(world: &World, pod: &PodRef) -> Outcome {
    outcome(answered(world.cluster.delete_pod(pod)).await)
}

fn outcome(answer: Result<(), ClusterError>) -> Outcome {
    match answer {
        // What is gone needs no status, and no deletion.
        Ok(()) | Err(ClusterError::Gone { .. }) => Outcome::Done,
        Err(error) => failed("", error),
    }
}
