//! What is left on disk of pods that are over, or that an agent before this one did not finish.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use lifecycle::{PodRef, PodUid};

use super::world::{World, image_holder_prefix};
use crate::container::resources::possible_pod_cgroups;
use crate::images::{ImageStore, remove_tree};
use crate::paths::DataPaths;
use crate::volumes::PodVolumes;

/// Removes the logs of a pod.
pub(super) async fn remove_logs(world: &Arc<World>, pod: &PodRef) {
    let directory = world.paths.pod_logs(pod);
    let removed = tokio::task::spawn_blocking(move || {
        remove_tree(&directory).map_err(|error| format!("cannot remove `{}`: {error}", directory.display()))
    });
    match removed.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("{error}"),
        Err(error) => tracing::error!(%error, "a task of the agent has failed"),
    }
}

/// Removes all that belongs to no pod that is known: directories, volumes, cgroups, logs, and holds on images.
pub(super) async fn sweep(world: &Arc<World>, known: &BTreeSet<PodRef>) {
    let (paths, images) = (world.paths.clone(), world.images.clone());
    let observations = world.runtime.observations();
    let containers: BTreeSet<String> =
        observations.iter().flat_map(|observation| &observation.containers).map(|it| it.id.0.clone()).collect();
    let known = known.clone();
    let swept = tokio::task::spawn_blocking(move || {
        let uids = known.iter().map(|pod| pod.uid.0.clone()).collect();
        let (gone, mut failures) = remove_pods(&paths, &images, &uids);
        let logs = known.iter().map(|pod| paths.pod_logs(pod)).collect();
        failures.extend(remove_others(&paths.logs(), &|path| known_path(path, &logs)));
        failures.extend(release_holds(&paths, &images, &containers));
        (gone, failures)
    });
    let (gone, failures) = match swept.await {
        Ok(swept) => swept,
        Err(error) => return tracing::error!(%error, "a task of the agent has failed"),
    };
    failures.iter().for_each(|failure| tracing::warn!("{failure}"));
    for cgroup in gone.iter().flat_map(possible_pod_cgroups) {
        if let Err(error) = world.runtime.remove_pod_cgroup(&cgroup).await {
            tracing::warn!(%error, "a cgroup of a pod that is over cannot be removed");
        }
    }
}

/// Removes the directories of all pods but those named; gives the uids of pods that are gone and what went wrong.
pub(super) fn remove_pods(
    paths: &DataPaths,
    images: &ImageStore,
    but: &BTreeSet<String>,
) -> (Vec<PodUid>, Vec<String>) {
    let (mut gone, mut failures) = (Vec::new(), Vec::new());
    for uid in names(&paths.pods()).into_iter().filter(|uid| !but.contains(uid)) {
        let uid = PodUid(uid);
        let directory = paths.pod(&uid);
        match PodVolumes::new(&directory).tear_down(images) {
            // Not before nothing is mounted below.
            Ok(()) => failures.extend(remove(&directory)),
            Err(error) => failures.push(error.to_string()),
        }
        gone.push(uid);
    }
    (gone, failures)
}

/// Ends the holds of containers that are not there.
pub(super) fn release_holds(paths: &DataPaths, images: &ImageStore, containers: &BTreeSet<String>) -> Vec<String> {
    let prefix = image_holder_prefix(paths);
    let holders = match images.holders() {
        Ok(holders) => holders,
        Err(error) => return vec![error.to_string()],
    };
    let gone = holders
        .into_keys()
        .filter(|holder| holder.strip_prefix(&prefix).is_some_and(|container| !containers.contains(container)));
    gone.filter_map(|holder| images.release(&holder).err()).map(|error| error.to_string()).collect()
}

fn known_path(path: &Path, known: &BTreeSet<std::path::PathBuf>) -> bool {
    known.contains(path)
}

fn remove_others(directory: &Path, is_known: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let paths = names(directory).into_iter().map(|name| directory.join(name));
    paths.filter(|path| !is_known(path)).filter_map(|path| remove(&path)).collect()
}

/// What went wrong, if anything did.
fn remove(path: &Path) -> Option<String> {
    remove_tree(path).err().map(|error| format!("cannot remove `{}`: {error}", path.display()))
}

/// The names in a directory; one that is not there has none.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
