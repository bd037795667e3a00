//! Takes away all that an agent's data directory holds, running pods included: for `monopod reset` and after a run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lifecycle::PodUid;

use super::config::runtime_config;
use super::leftovers::{release_holds, remove_pods};
use crate::container::resources::possible_pod_cgroups;
use crate::images::ImageStore;
use crate::paths::DataPaths;
use crate::runtime::RuntimeService;

/// What could not be taken away. The rest is gone.
#[derive(Debug, thiserror::Error)]
#[error("could not take away all of `{}`: {}", path.display(), failures.join("; "))]
pub struct RemoveEverythingError {
    /// Which data directory.
    pub path: PathBuf,
    /// One text for each failure.
    pub failures: Vec<String>,
}

/// Kills and removes every pod of a data directory: sandboxes, mounts, cgroups, and holds on images. No agent may work on it.
///
/// Files that are merely files are left to who removes the directory; images stay.
/// Goes on after a failure and tells them all.
pub async fn remove_everything(data_directory: &Path) -> Result<(), RemoveEverythingError> {
    let paths = DataPaths::new(data_directory);
    let mut failures = Vec::new();
    let mut uids: BTreeSet<PodUid> = BTreeSet::new();
    match RuntimeService::open(runtime_config(data_directory)).await {
        Ok((runtime, _observations)) => {
            remove_sandboxes(&runtime, &mut uids, &mut failures).await;
            let files = paths.clone();
            match tokio::task::spawn_blocking(move || remove_files(&files)).await {
                Ok((gone, failed)) => {
                    uids.extend(gone);
                    failures.extend(failed);
                }
                Err(error) => failures.push(error.to_string()),
            }
            for cgroup in uids.iter().flat_map(possible_pod_cgroups) {
                failures.extend(runtime.remove_pod_cgroup(&cgroup).await.err().map(|error| error.to_string()));
            }
        }
        Err(error) => failures.push(error.to_string()),
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(RemoveEverythingError { path: data_directory.to_owned(), failures })
}

async fn remove_sandboxes(runtime: &RuntimeService, uids: &mut BTreeSet<PodUid>, failures: &mut Vec<String>) {
    let mut removals = tokio::task::JoinSet::new();
    for observation in runtime.observations() {
        uids.insert(observation.pod.uid.clone());
        for sandbox in observation.sandboxes {
            let runtime = runtime.clone();
            removals.spawn(async move { runtime.remove_sandbox(&sandbox.id).await });
        }
    }
    while let Some(removed) = removals.join_next().await {
        match removed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(error.to_string()),
            Err(error) => failures.push(error.to_string()),
        }
    }
}

fn remove_files(paths: &DataPaths) -> (Vec<PodUid>, Vec<String>) {
    if !paths.images().exists() && !paths.pods().exists() {
        return (Vec::new(), Vec::new());
    }
    let images = match ImageStore::open(&paths.images()) {
        Ok(images) => images,
        Err(error) => return (Vec::new(), vec![error.to_string()]),
    };
    let (gone, mut failures) = remove_pods(paths, &images, &BTreeSet::new());
    failures.extend(release_holds(paths, &images, &BTreeSet::new()));
    (gone, failures)
}
