//! The agent: one loop that owns the lifecycle engine, and tasks that carry its effects out.
//!
//! ```text
//!   cluster ──pods, references──▶ ┌────────┐ ──effects──▶ tasks ──▶ runtime, images, volumes, probes, cluster
//!   runtime ──observations──────▶ │ engine │
//!   clock ────timeout───────────▶ └────────┘ ◀──outcomes── tasks
//! ```
//!
//! The loop decides nothing: it passes on what happened and spawns what is asked for (one effect, one call, one outcome).
//! The agent keeps nothing that matters: pods, containers and exit codes are in the API and in the shims,
//! so that an agent that starts anew finds all of it and goes on.
//!
//! Next: `run` for the loop, `effects` for what is done, [`crate::cluster`] for what an API must offer.

mod config;
mod effects;
mod leftovers;
mod recorder;
mod remove;
mod run;
mod sources;
mod world;

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Engine, Input, PodUid};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::recorder::EventRecorder;
use self::run::Run;
use self::world::{World, WorldParts};
use crate::cluster::Cluster;
use crate::images::{ImageStore, StoreError};
use crate::logs::{DirectoryWatches, WatchError};
use crate::paths::DataPaths;
use crate::runtime::{RuntimeError, RuntimeService};

pub use config::AgentConfig;
pub use remove::{RemoveEverythingError, remove_everything};

/// Requests from outside wait in a queue of that length.
const REQUESTS_MAX: usize = 16;

/// A node's agent that works. To drop it is to stop it without waiting; pods go on either way.
pub struct Agent {
    world: Arc<World>,
    watches: Arc<DirectoryWatches>,
    requests: mpsc::Sender<Input>,
    stop: CancellationToken,
    run: Option<JoinHandle<()>>,
    // Held for its lock: the kernel gives it up when the process ends, however it ends.
    _lock: File,
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another one has the data directory.
    #[error("another monopod works on `{}`\nhint: stop it, or name another directory with `--data-dir`", path.display())]
    Locked {
        /// Which directory.
        path: PathBuf,
    },
    /// The data directory cannot be used.
    #[error("cannot {action} `{}`", path.display())]
    Directory {
        /// What was tried.
        action: &'static str,
        /// Which path.
        path: PathBuf,
        /// What the disk says.
        #[source]
        source: io::Error,
    },
    /// The runtime cannot be opened.
    #[error("cannot look for pods that run")]
    Runtime(#[from] RuntimeError),
    /// The image store cannot be opened.
    #[error("cannot open the image store")]
    Images(#[from] StoreError),
    /// Logs cannot be followed.
    #[error(transparent)]
    Watches(#[from] WatchError),
}

impl Agent {
    /// Takes the data directory, finds the pods that run there, and goes on with them.
    pub async fn start(config: AgentConfig, cluster: Arc<dyn Cluster>) -> Result<Agent, AgentError> {
        let paths = DataPaths::new(&config.data_directory);
        let lock = prepare(&paths, &config.image_directory)?;
        let watches = Arc::new(DirectoryWatches::start()?);
        let images = ImageStore::open(&config.image_directory)?;
        let (runtime, observations) = RuntimeService::open(config.runtime.clone()).await?;
        let (recorder, event_writer) = EventRecorder::start(Arc::clone(&cluster), &config.node_name);
        let parts = WorldParts { cluster, runtime, images, recorder };
        let world = Arc::new(World::new(&config, parts));
        let (requests, received) = mpsc::channel(REQUESTS_MAX);
        let stop = CancellationToken::new();
        let engine = Engine::new(config.node_config(), seed());
        let run = Run::new(engine, Arc::clone(&world), observations, received, stop.clone());
        let run = tokio::spawn(async move {
            run.until_stopped().await;
            event_writer.finish().await;
        });
        Ok(Agent { world, watches, requests, stop, run: Some(run), _lock: lock })
    }

    /// Stops deciding and waits until nothing of the agent works any more. Pods go on running in their shims.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(run) = self.run.take()
            && let Err(error) = run.await
        {
            tracing::error!(%error, "the agent's loop has failed");
        }
    }

    /// Ends every pod within the time given, critical pods last (L-617).
    pub async fn shut_down_pods(&self, grace: Duration, critical_grace: Duration) {
        self.request(Input::Shutdown { grace, critical_grace }).await;
    }

    /// Evicts a pod (L-616).
    pub async fn evict(&self, pod: PodUid, message: String, grace: Duration, disruption: bool) {
        self.request(Input::Evict { pod, message, grace, disruption }).await;
    }

    /// The runtime: exec and attach, limits, observations.
    pub fn runtime(&self) -> &RuntimeService {
        &self.world.runtime
    }

    /// The image store.
    pub fn images(&self) -> &ImageStore {
        &self.world.images
    }

    /// Where everything lies.
    pub fn paths(&self) -> &DataPaths {
        &self.world.paths
    }

    /// For following logs.
    pub fn log_watches(&self) -> &Arc<DirectoryWatches> {
        &self.watches
    }

    async fn request(&self, input: Input) {
        if self.requests.send(input).await.is_err() {
            tracing::error!("the agent's loop has ended; a request to it is lost");
        }
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("paths", &self.world.paths).finish_non_exhaustive()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Makes the data directory, takes its lock, and leaves word in it where its images are.
fn prepare(paths: &DataPaths, image_directory: &Path) -> Result<File, AgentError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| AgentError::Directory { action, path, source }
    };
    // Secrets lie in it.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(paths.root());
    made.map_err(failed("make the directory", paths.root()))?;
    let path = paths.agent_lock();
    let lock = File::create(&path).map_err(failed("make", &path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(AgentError::Locked { path: paths.root().to_owned() }),
        Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
    }
    let images = paths.images();
    if image_directory != images {
        link(image_directory, &images).map_err(failed("link", &images))?;
    }
    Ok(lock)
}

/// Makes a link, or an older one of another target anew.
fn link(target: &Path, link: &Path) -> io::Result<()> {
    let target = std::path::absolute(target)?;
    match fs::read_link(link) {
        Ok(known) if known == target => return Ok(()),
        Ok(_) => fs::remove_file(link)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    std::os::unix::fs::symlink(target, link)
}

/// For the engine's jitter; any number will do.
fn seed() -> u64 {
    let now = jiff::Timestamp::now().as_nanosecond();
    u64::try_from(now.rem_euclid(1 << 63)).unwrap_or_default() ^ (u64::from(std::process::id()) << 32)
}
