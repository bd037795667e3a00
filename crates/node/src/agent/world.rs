//! Everything that effects act with, shared by the tasks that carry them out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::{ContainerId, NodeConfig, PodRef, PodUid, SandboxRecord};
use tokio::sync::Semaphore;

use super::recorder::EventRecorder;
use crate::cluster::{Answer, Cluster, ClusterError};
use crate::container::build::ContainerHost;
use crate::container::resolv_conf::ClusterDns;
use crate::images::{ImageStore, Progress};
use crate::paths::DataPaths;
use crate::runtime::RuntimeService;

/// How long an answer of the API is waited for.
const CLUSTER_PATIENCE: Duration = Duration::from_secs(30);

/// What the tasks of an agent share.
pub(super) struct World {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) runtime: RuntimeService,
    pub(super) images: ImageStore,
    pub(super) paths: DataPaths,
    pub(super) node: NodeConfig,
    pub(super) memory_bytes: u64,
    pub(super) dns: ClusterDns,
    pub(super) hostname: String,
    pub(super) insecure_registries: Vec<String>,
    pub(super) progress: Arc<dyn Progress>,
    pub(super) recorder: EventRecorder,
    pub(super) limits: Limits,
    /// When the tokens in the volumes of pods want to be renewed.
    token_renewals: Mutex<BTreeMap<PodUid, (Timestamp, Arc<Pod>)>>,
}

/// How many tasks of a kind do their work at once; the others wait their turn.
pub(super) struct Limits {
    /// Making and removing of sandboxes, containers and volumes.
    pub(super) changes: Semaphore,
    /// Pulls of images.
    pub(super) pulls: Semaphore,
    /// Attempts at probes.
    pub(super) probes: Semaphore,
}

impl Limits {
    pub(super) fn new() -> Self {
        Limits { changes: Semaphore::new(16), pulls: Semaphore::new(8), probes: Semaphore::new(256) }
    }
}

/// What a world is made of.
pub(super) struct WorldParts {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) runtime: RuntimeService,
    pub(super) images: ImageStore,
    pub(super) recorder: EventRecorder,
}

impl World {
    pub(super) fn new(config: &super::AgentConfig, parts: WorldParts) -> Self {
        World {
            cluster: parts.cluster,
            runtime: parts.runtime,
            images: parts.images,
            paths: DataPaths::new(&config.data_directory),
            node: config.node_config(),
            memory_bytes: config.memory_bytes,
            dns: config.dns.clone(),
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            insecure_registries: config.insecure_registries.clone(),
            progress: Arc::clone(&config.progress),
            recorder: parts.recorder,
            limits: Limits::new(),
            token_renewals: Mutex::default(),
        }
    }

    pub(super) fn container_host(&self) -> ContainerHost<'_> {
        ContainerHost {
            node: &self.node,
            paths: &self.paths,
            images: &self.images,
            memory_bytes: self.memory_bytes,
            dns: &self.dns,
            hostname: &self.hostname,
        }
    }

    /// The newest sandbox record of the pod that a container lives in.
    pub(super) fn sandbox_of(&self, pod: &PodUid, container: &ContainerId) -> Option<SandboxRecord> {
        let observation = self.runtime.observation(pod)?;
        let id = observation.containers.iter().find(|record| record.id == *container)?.sandbox.clone();
        observation.sandboxes.into_iter().find(|sandbox| sandbox.id == id)
    }

    /// Who holds the image of a container in the store; the directory tells agents that share it apart.
    pub(super) fn image_holder(&self, container: &str) -> String {
        image_holder(&self.paths, container)
    }

    /// Notes when the tokens of a pod are to be renewed; `None` if it has none, or is gone.
    pub(super) fn set_token_renewal(&self, pod: &PodRef, due: Option<(Timestamp, Arc<Pod>)>) {
        let mut renewals = self.renewals();
        match due {
            Some(due) => renewals.insert(pod.uid.clone(), due),
            None => renewals.remove(&pod.uid),
        };
    }

    /// When the next token is to be renewed.
    pub(super) fn next_token_renewal(&self) -> Option<Timestamp> {
        self.renewals().values().map(|(due, _)| *due).min()
    }

    /// The pods whose tokens are to be renewed by now, each given once.
    pub(super) fn take_due_renewals(&self, now: Timestamp) -> Vec<Arc<Pod>> {
        let mut renewals = self.renewals();
        let due: Vec<PodUid> =
            renewals.iter().filter(|(_, (due, _))| *due <= now).map(|(uid, _)| uid.clone()).collect();
        due.iter().filter_map(|uid| renewals.remove(uid)).map(|(_, pod)| pod).collect()
    }

    fn renewals(&self) -> MutexGuard<'_, BTreeMap<PodUid, (Timestamp, Arc<Pod>)>> {
        // A map is whole at every moment, whoever panicked.
        self.token_renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`World::image_holder`].
pub(super) fn image_holder(paths: &DataPaths, container: &str) -> String {
    format!("{}{container}", image_holder_prefix(paths))
}

/// What the holders of one agent's containers have in common.
pub(super) fn image_holder_prefix(paths: &DataPaths) -> String {
    format!("{} container ", paths.root().display())
}

/// An answer of the API, waited for as long as is sensible.
pub(super) async fn answered<T>(answer: Answer<'_, T>) -> Result<T, ClusterError> {
    match tokio::time::timeout(CLUSTER_PATIENCE, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(ClusterError::Unavailable { message: format!("no answer within {} s", CLUSTER_PATIENCE.as_secs()) })
        }
    }
}
