//! A pod's directories, volumes and cgroup.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::{Outcome, PodRef};
use tokio::runtime::Handle;

use super::super::sources::BlockingSources;
use super::super::world::World;
use super::{blocking, done, failed};
use crate::container::resources::possible_pod_cgroups;
use crate::images::remove_tree;
use crate::volumes::{FailedMounts, PodVolumes, VolumeContext};

/// Which of the two works of [`PodVolumes`] is done.
#[derive(Clone, Copy)]
enum Work {
    SetUp,
    Refresh,
}

pub(super) async fn set_up(world: &Arc<World>, pod: &PodRef, object: Arc<Pod>) -> Outcome {
    let directory = world.paths.pod(&pod.uid);
    let made = blocking(move || make_directory(&directory)).await;
    match made {
        Some(Ok(())) => volumes(world, pod, object, Work::SetUp).await,
        Some(Err(error)) => failed("", format!("error making pod data directories: {error}")),
        None => failed("", "internal error"),
    }
}

pub(super) async fn refresh(world: &Arc<World>, pod: &PodRef, object: Arc<Pod>) -> Outcome {
    volumes(world, pod, object, Work::Refresh).await
}

async fn volumes(world: &Arc<World>, pod: &PodRef, object: Arc<Pod>, work: Work) -> Outcome {
    let (shared, reference) = (Arc::clone(world), pod.clone());
    let handle = Handle::current();
    let outcome = blocking(move || {
        let due = volumes_blocking(&shared, &reference, &object, handle, work)?;
        shared.set_token_renewal(&reference, due.map(|due| (due, object)));
        Ok::<_, FailedMounts>(())
    });
    match outcome.await {
        Some(result) => done(result),
        None => failed("", "internal error"),
    }
}

fn volumes_blocking(
    world: &World,
    pod: &PodRef,
    object: &Pod,
    handle: Handle,
    work: Work,
) -> Result<Option<Timestamp>, FailedMounts> {
    let sources = BlockingSources { cluster: Arc::clone(&world.cluster), handle };
    let context = VolumeContext {
        pod: object,
        node: &world.node,
        sources: &sources,
        images: &world.images,
        now: Timestamp::now(),
    };
    let volumes = PodVolumes::new(&world.paths.pod(&pod.uid));
    match work {
        Work::SetUp => volumes.set_up(&context),
        Work::Refresh => volumes.refresh(&context),
    }
}

/// Only root and whoever it lets in can look into pods (L-201).
fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o750).create(path)
}

/// Goes on after a failure, so that as little as possible is left, and tells them all.
pub(super) async fn tear_down(world: &Arc<World>, pod: &PodRef) -> Outcome {
    world.set_token_renewal(pod, None);
    let mut failures: Vec<String> = Vec::new();
    let (shared, uid) = (Arc::clone(world), pod.uid.clone());
    let removed = blocking(move || {
        let directory = shared.paths.pod(&uid);
        PodVolumes::new(&directory).tear_down(&shared.images).map_err(|error| error.to_string())?;
        remove_tree(&directory).map_err(|error| format!("cannot remove `{}`: {error}", directory.display()))
    });
    match removed.await {
        Some(Ok(())) => {}
        Some(Err(error)) => failures.push(error),
        None => failures.push("internal error".to_owned()),
    }
    // Which class the pod was of does not matter: the cgroups that it did not have are gone already.
    for cgroup in possible_pod_cgroups(&pod.uid) {
        failures.extend(world.runtime.remove_pod_cgroup(&cgroup).await.err().map(|error| error.to_string()));
    }
    if failures.is_empty() { Outcome::Done } else { failed("", failures.join("; ")) }
}
