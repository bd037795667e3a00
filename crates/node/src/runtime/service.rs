//! The runtime itself: all sandboxes, and the verbs on them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lifecycle::effect::Signal;
use lifecycle::{ContainerId, PodObservation, PodRef, PodUid, SandboxId, SandboxRecord};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use super::board::Board;
use super::config::{ContainerConfig, LinuxResources, SandboxConfig};
use super::error::RuntimeError;
use super::sandbox::Sandbox;
use super::session::{AttachConfig, AttachSession, CapturedExec, ExecConfig, ExecSession};
use crate::cgroup::{CgroupUsage, Hierarchy};
use crate::shim::Hello;
use crate::shim::files::{Durability, FileError, remove_directory, write_json};
use crate::shim::protocol::{AttachRequest, ExecRequest, Reply, Request, ShimSignal, StreamSet};
use crate::shim::records::{SandboxDirectory, SandboxFile};

/// How long a sandbox may take to stand.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// A new shim says one line.
const HELLO_BYTES_MAX: u64 = 64 * 1024;

/// Where the runtime keeps what it has, and how it starts shims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// The directory for sandboxes and containers. Two runtimes share nothing if this and the prefix differ.
    pub state_directory: PathBuf,
    /// Where the cgroup hierarchies are mounted.
    pub cgroup_root: PathBuf,
    /// What stands before every pod's cgroup.
    pub cgroup_prefix: String,
    /// The program to start as a shim, which calls [`crate::shim::main`] with what follows the arguments below.
    pub shim_program: PathBuf,
    /// What the program is to be told so that it does.
    pub shim_arguments: Vec<OsString>,
}

impl RuntimeConfig {
    /// The usual places: this program as the shim, `/sys/fs/cgroup`, and a prefix of the caller's.
    pub fn new(state_directory: &Path, cgroup_prefix: &str) -> Self {
        RuntimeConfig {
            state_directory: state_directory.to_owned(),
            cgroup_root: PathBuf::from("/sys/fs/cgroup"),
            cgroup_prefix: cgroup_prefix.to_owned(),
            // The very program that runs, also when its file has been replaced by a newer one.
            shim_program: PathBuf::from("/proc/self/exe"),
            shim_arguments: vec![OsString::from(crate::shim::SUBCOMMAND)],
        }
    }
}

/// The pods of one state directory.
#[derive(Clone, Debug)]
pub struct RuntimeService {
    shared: Arc<Shared>,
}

/// A stream of whole pods, each after it has changed.
#[derive(Debug)]
pub struct Observations {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: RuntimeConfig,
    sandboxes: Mutex<BTreeMap<SandboxId, Arc<Sandbox>>>,
    starting: Mutex<BTreeSet<SandboxId>>,
    board: Arc<Board>,
    has_warned: Once,
}

impl Observations {
    /// Waits for a pod that has changed. Changes in between are one.
    pub async fn next(&mut self) -> PodObservation {
        let pod = self.shared.board.take().await;
        self.shared.observe(&pod)
    }
}

impl RuntimeService {
    /// Finds what stands: lives with shims that live, buries those that do not.
    ///
    /// Every pod that was found is in the stream at once.
    pub async fn open(config: RuntimeConfig) -> Result<(RuntimeService, Observations), RuntimeError> {
        let shared = Arc::new(Shared {
            config,
            sandboxes: Mutex::default(),
            starting: Mutex::default(),
            board: Arc::default(),
            has_warned: Once::new(),
        });
        let found = shared.find_sandboxes()?;
        for sandbox in &found {
            sandbox.heard().await?;
        }
        shared.sandboxes().extend(found.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)));
        Ok((RuntimeService { shared: Arc::clone(&shared) }, Observations { shared }))
    }

    /// Every pod of which there is a sandbox.
    pub fn observations(&self) -> Vec<PodObservation> {
        let pods: BTreeMap<PodUid, PodRef> = self
            .shared
            .sandboxes()
            .values()
            .map(|sandbox| (sandbox.file.config.pod.uid.clone(), sandbox.file.config.pod.clone()))
            .collect();
        pods.values().map(|pod| self.shared.observe(pod)).collect()
    }

    /// One pod, if there is a sandbox of it.
    pub fn observation(&self, pod: &PodUid) -> Option<PodObservation> {
        let found = self
            .shared
            .sandboxes()
            .values()
            .find(|sandbox| sandbox.file.config.pod.uid == *pod)
            .map(|sandbox| sandbox.file.config.pod.clone())?;
        Some(self.shared.observe(&found))
    }

    /// What a sandbox was made from.
    pub fn sandbox_config(&self, id: &SandboxId) -> Option<SandboxConfig> {
        self.shared.sandboxes().get(id).map(|sandbox| sandbox.file.config.clone())
    }

    /// Makes a sandbox. One that stands already is success; one that has ended needs another attempt.
    pub async fn run_sandbox(&self, config: &SandboxConfig) -> Result<SandboxRecord, RuntimeError> {
        let id = config.id();
        let present = self.shared.sandboxes().get(&id).cloned();
        if let Some(sandbox) = present {
            let snapshot = sandbox.heard().await?;
            return if snapshot.sandbox.ready { Ok(snapshot.sandbox) } else { Err(RuntimeError::SandboxEnded(id)) };
        }
        let _starting = self.shared.begin_start(&id)?;
        let sandbox = Arc::new(self.shared.start_sandbox(config).await?);
        let snapshot = sandbox.heard().await?;
        self.shared.sandboxes().insert(id, sandbox);
        // Before the insertion the board could be read without it.
        self.shared.board.mark(&config.pod);
        Ok(snapshot.sandbox)
    }

    /// Kills what still runs in a sandbox and takes its namespaces down. Records stay.
    pub async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let Some(sandbox) = self.shared.sandbox(id) else { return Ok(()) };
        match sandbox.ask(Request::Stop).await {
            // Dead already, or dead before it could answer.
            Ok(Reply::Done) | Err(RuntimeError::SandboxEnded(_) | RuntimeError::Unreachable { .. }) => {}
            Ok(other) => return Err(RuntimeError::Refused(format!("an unexpected answer to stop: {other:?}"))),
            Err(error) => return Err(error),
        }
        sandbox.buried().await
    }

    /// Forgets a sandbox and its containers, which are stopped if they are not. Logs stay.
    pub async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.stop_sandbox(id).await?;
        let Some(sandbox) = self.shared.sandbox(id) else { return Ok(()) };
        let directory = sandbox.directory.clone();
        blocking(move || {
            for container in directory.container_ids()? {
                remove_container_files(&directory, &container, true)?;
            }
            remove_directory(directory.path())
        })
        .await?;
        self.shared.sandboxes().remove(id);
        self.shared.board.mark(&sandbox.file.config.pod);
        Ok(())
    }

    /// Puts a container on record. The same container and attempt in the same sandbox is the same container.
    pub async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let id = config.id(sandbox);
        let sandbox = self.shared.sandbox(sandbox).ok_or_else(|| RuntimeError::NoSandbox(sandbox.clone()))?;
        let request = Request::CreateContainer { id: id.clone(), config: Box::new(config.clone()) };
        done(&id, sandbox.ask(request).await?)?;
        Ok(id)
    }

    /// Starts a container's first process. One that runs or has run is success.
    pub async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let sandbox = self.shared.sandbox_of(id)?;
        done(id, sandbox.ask(Request::StartContainer { id: id.clone() }).await?)
    }

    /// Sends a signal. To a container that does not run, or is not there, it is success.
    pub async fn signal_container(&self, id: &ContainerId, signal: &Signal) -> Result<(), RuntimeError> {
        let Ok(sandbox) = self.shared.sandbox_of(id) else { return Ok(()) };
        let signal = match signal {
            Signal::Stop { named, .. } => ShimSignal::Stop { named: named.clone() },
            Signal::Kill => ShimSignal::KillAll,
        };
        match sandbox.ask(Request::SignalContainer { id: id.clone(), signal }).await {
            Ok(reply) => done(id, reply),
            Err(RuntimeError::SandboxEnded(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Forgets a container that does not run, with its writable layer and, if so told, its logs.
    pub async fn remove_container(&self, id: &ContainerId, keep_logs: bool) -> Result<(), RuntimeError> {
        let Ok(sandbox) = self.shared.sandbox_of(id) else { return Ok(()) };
        match sandbox.ask(Request::RemoveContainer { id: id.clone(), keep_logs }).await {
            Ok(reply) => done(id, reply),
            Err(RuntimeError::SandboxEnded(_)) => {
                let (directory, container) = (sandbox.directory.clone(), id.clone());
                blocking(move || remove_container_files(&directory, &container, keep_logs)).await?;
                self.shared.board.mark(&sandbox.file.config.pod);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a container's limits in place.
    pub async fn update_container(&self, id: &ContainerId, resources: &LinuxResources) -> Result<(), RuntimeError> {
        let sandbox = self.shared.sandbox_of(id)?;
        let request = Request::LimitContainer { id: id.clone(), resources: resources.clone() };
        done(id, sandbox.ask(request).await?)
    }

    /// What a container has used; all zero if it does not run.
    pub fn container_usage(&self, id: &ContainerId) -> Result<CgroupUsage, RuntimeError> {
        let sandbox = self.shared.sandbox_of(id)?;
        Ok(sandbox.file.pod_cgroup()?.child(id.as_str()).usage())
    }

    /// Runs a program in a container, with streams.
    pub async fn exec(&self, id: &ContainerId, config: &ExecConfig) -> Result<ExecSession, RuntimeError> {
        let sandbox = self.shared.sandbox_of(id)?;
        let exec = ExecRequest { argv: config.argv.clone(), streams: config.streams(), timeout: config.timeout };
        let (mut connection, reply) = sandbox.converse(Request::Exec { id: id.clone(), exec }).await?;
        let mut streams = streams(id, reply)?;
        // Whether a terminal's input is wanted is between the two of us here.
        streams.stdin = config.stdin;
        let descriptors = connection.take_descriptors();
        ExecSession::new(sandbox.id.clone(), connection, streams, descriptors)
            .map_err(RuntimeError::unreachable(&sandbox.id))
    }

    /// Runs a program in a container to its end and gives what it wrote, at most `limit_bytes` of it.
    pub async fn exec_captured(
        &self,
        id: &ContainerId,
        argv: &[String],
        timeout: Option<Duration>,
        limit_bytes: usize,
    ) -> Result<CapturedExec, RuntimeError> {
        let config = ExecConfig { argv: argv.to_vec(), stdout: true, stderr: true, timeout, ..ExecConfig::default() };
        self.exec(id, &config).await?.capture(limit_bytes).await
    }

    /// Attaches to a running container's own streams.
    pub async fn attach(&self, id: &ContainerId, config: &AttachConfig) -> Result<AttachSession, RuntimeError> {
        let sandbox = self.shared.sandbox_of(id)?;
        let wanted = StreamSet { stdin: config.stdin, stdout: config.stdout, stderr: config.stderr, terminal: false };
        let attach = AttachRequest { streams: wanted };
        let (mut connection, reply) = sandbox.converse(Request::Attach { id: id.clone(), attach }).await?;
        let streams = streams(id, reply)?;
        let descriptors = connection.take_descriptors();
        AttachSession::new(connection, streams, descriptors).map_err(RuntimeError::unreachable(&sandbox.id))
    }

    /// The sandbox's network namespace, to be entered by a thread of the caller's or configured from outside.
    pub async fn network_namespace(&self, id: &SandboxId) -> Result<OwnedFd, RuntimeError> {
        let sandbox = self.shared.sandbox(id).ok_or_else(|| RuntimeError::NoSandbox(id.clone()))?;
        let (mut connection, reply) = sandbox.converse(Request::NetworkNamespace).await?;
        match (reply, connection.take_descriptors().pop()) {
            (Reply::NetworkNamespace, Some(namespace)) => Ok(namespace),
            (Reply::Failed(failure), _) => Err(RuntimeError::Refused(failure.message)),
            (other, _) => Err(RuntimeError::Refused(format!("no network namespace was sent: {other:?}"))),
        }
    }

    /// Removes a pod's cgroup, and those above it that are empty then, up to the runtime's own.
    pub async fn remove_pod_cgroup(&self, cgroup_parent: &str) -> Result<(), RuntimeError> {
        let config = self.shared.config.clone();
        let cgroup_parent = cgroup_parent.to_owned();
        blocking(move || {
            let hierarchy = Hierarchy::detect(&config.cgroup_root)?;
            let whole = config.pod_cgroup(&cgroup_parent);
            hierarchy.cgroup(&whole).remove()?;
            let prefix = config.cgroup_prefix.trim_matches('/');
            let mut above = Path::new(&whole).parent();
            while let Some(path) = above.filter(|path| path.starts_with(prefix)) {
                hierarchy.cgroup(&path.to_string_lossy()).remove_if_empty();
                above = path.parent();
            }
            Ok::<_, crate::cgroup::CgroupError>(())
        })
        .await
    }
}

impl RuntimeConfig {
    fn pod_cgroup(&self, cgroup_parent: &str) -> String {
        format!("{}/{}", self.cgroup_prefix.trim_matches('/'), cgroup_parent.trim_matches('/'))
    }

    fn sandboxes(&self) -> PathBuf {
        self.state_directory.join("sandboxes")
    }
}

impl Shared {
    fn sandboxes(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Arc<Sandbox>>> {
        // A map is whole at every moment, whoever panicked.
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sandbox(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.sandboxes().get(id).cloned()
    }

    fn sandbox_of(&self, id: &ContainerId) -> Result<Arc<Sandbox>, RuntimeError> {
        let sandboxes = self.sandboxes();
        let mut holders = sandboxes.values().filter(|sandbox| {
            sandbox.view().snapshot.is_some_and(|snapshot| snapshot.containers.iter().any(|it| it.id == *id))
        });
        holders.next().cloned().ok_or_else(|| RuntimeError::NoContainer(id.clone()))
    }

    /// All that there is of a pod.
    fn observe(&self, pod: &PodRef) -> PodObservation {
        let mut observation = PodObservation { pod: pod.clone(), sandboxes: Vec::new(), containers: Vec::new() };
        for sandbox in self.sandboxes().values().filter(|sandbox| sandbox.file.config.pod.uid == pod.uid) {
            let view = sandbox.view();
            // Of one without a shim the disk knows: containers of it may have been removed.
            let snapshot = if view.has_shim { view.snapshot } else { sandbox.snapshot_from_disk().ok() };
            let Some(snapshot) = snapshot else { continue };
            observation.sandboxes.push(snapshot.sandbox);
            observation.containers.extend(snapshot.containers);
        }
        observation
    }

    fn find_sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        let root = self.config.sandboxes();
        make_private_directory(&root)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&root).map_err(FileError::of("list", &root))? {
            let path = entry.map_err(FileError::of("list", &root))?.path();
            let directory = SandboxDirectory::new(path);
            match directory.read() {
                Ok(Some(file)) => {
                    found.push(Arc::new(Sandbox::follow(directory, file, None, Arc::clone(&self.board))));
                }
                // Its maker died before there was anything to it.
                Ok(None) => remove_directory(directory.path())?,
                Err(error) => tracing::error!(%error, "a sandbox's record cannot be read; it is left alone"),
            }
        }
        Ok(found)
    }

    fn begin_start(self: &Arc<Self>, id: &SandboxId) -> Result<Starting, RuntimeError> {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if !starting.insert(id.clone()) {
            return Err(RuntimeError::Refused(format!("pod sandbox `{id}` is being made already")));
        }
        Ok(Starting { shared: Arc::clone(self), id: id.clone() })
    }

    async fn start_sandbox(&self, config: &SandboxConfig) -> Result<Sandbox, RuntimeError> {
        let path = self.config.sandboxes().join(config.id().as_str());
        let directory = SandboxDirectory::new(path);
        let file = SandboxFile {
            config: config.clone(),
            created_at: Timestamp::now(),
            cgroup_root: self.config.cgroup_root.clone(),
            cgroup: self.config.pod_cgroup(&config.cgroup_parent),
        };
        // A sandbox that stands is in the map: what has this name is left from a start that failed half-way.
        remove_directory(directory.path())?;
        make_private_directory(directory.path())?;
        write_json(&directory.sandbox_file(), &file, Durability::UntilReboot)?;
        match self.start_shim(&directory).await {
            Ok(child) => Ok(Sandbox::follow(directory, file, Some(child), Arc::clone(&self.board))),
            Err(error) => {
                remove_directory(directory.path())?;
                if let Ok(cgroup) = file.pod_cgroup() {
                    cgroup.remove_if_empty();
                }
                Err(error)
            }
        }
    }

    async fn start_shim(&self, directory: &SandboxDirectory) -> Result<Child, RuntimeError> {
        let program = &self.config.shim_program;
        let failed = |source| RuntimeError::Spawn { program: program.clone(), source };
        let log_path = directory.log();
        let log = fs::OpenOptions::new().create(true).append(true).open(&log_path);
        let mut child = Command::new(program)
            .arg0("monopod")
            .args(&self.config.shim_arguments)
            .arg(directory.path())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.map_err(FileError::of("open", &log_path))?)
            .spawn()
            .map_err(failed)?;
        let hello = tokio::time::timeout(START_PATIENCE, read_hello(&mut child)).await;
        match hello {
            Ok(Ok(Hello::Ready { warnings })) => {
                self.has_warned.call_once(|| warnings.iter().for_each(|warning| tracing::warn!("{warning}")));
                Ok(child)
            }
            Ok(Ok(Hello::Failed(message))) => {
                let _ = child.wait().await;
                Err(RuntimeError::SandboxFailed(message))
            }
            Ok(Err(error)) => {
                end(&mut child).await;
                Err(failed(error))
            }
            Err(_) => {
                end(&mut child).await;
                Err(RuntimeError::TimedOut { what: "making the pod sandbox", seconds: START_PATIENCE.as_secs() })
            }
        }
    }
}

/// Marks a sandbox as being made, as long as it lives.
struct Starting {
    shared: Arc<Shared>,
    id: SandboxId,
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.shared.starting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

async fn read_hello(child: &mut Child) -> io::Result<Hello> {
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("the shim has no standard output"))?;
    let mut line = String::new();
    BufReader::new(stdout.take(HELLO_BYTES_MAX)).read_line(&mut line).await?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the shim ended without a word"));
    }
    Ok(serde_json::from_str(&line)?)
}

async fn end(child: &mut Child) {
    // It has ended already, or does now; its mounts and namespaces go with it.
    let _ = child.kill().await;
}

fn done(container: &ContainerId, reply: Reply) -> Result<(), RuntimeError> {
    match reply {
        Reply::Done => Ok(()),
        Reply::Failed(failure) => Err(RuntimeError::refused(container, failure)),
        other => Err(RuntimeError::Refused(format!("an unexpected answer: {other:?}"))),
    }
}

fn streams(container: &ContainerId, reply: Reply) -> Result<StreamSet, RuntimeError> {
    match reply {
        Reply::Streams(streams) => Ok(streams),
        Reply::Failed(failure) => Err(RuntimeError::refused(container, failure)),
        other => Err(RuntimeError::Refused(format!("an unexpected answer: {other:?}"))),
    }
}

fn remove_container_files(directory: &SandboxDirectory, id: &ContainerId, keep_logs: bool) -> Result<(), FileError> {
    let container = directory.container(id);
    match container.read_config()? {
        Some(config) => container.remove(&config, keep_logs),
        None => remove_directory(container.path()),
    }
}

fn make_private_directory(path: &Path) -> Result<(), FileError> {
    // The socket in it takes orders from whoever can reach it.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(FileError::of("make directory", path))
}

/// Runs something that waits for disks or processes on a thread of its own.
async fn blocking<T, E>(action: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, RuntimeError>
where
    T: Send + 'static,
    E: Send + 'static,
    RuntimeError: From<E>,
{
    match tokio::task::spawn_blocking(action).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(RuntimeError::Refused(format!("a task of the runtime has failed: {error}"))),
    }
}
