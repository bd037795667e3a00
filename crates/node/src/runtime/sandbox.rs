//! One sandbox as the agent sees it: its shim while that lives, its directory when it does not.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::SandboxId;
use tokio::process::Child;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::board::Board;
use super::connection::Connection;
use super::error::RuntimeError;
use crate::cgroup::CgroupError;
use crate::shim::protocol::{Reply, ReplyFrame, Request};
use crate::shim::records::{SandboxDirectory, SandboxFile, SandboxSnapshot};

/// How long an answer may take: a container start on a slow disk is the longest.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long processes that were killed may take to end.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// A shim that is there but does not take a connection is asked again after this.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRIES_MAX: u32 = 100;

/// A sandbox.
#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) id: SandboxId,
    pub(super) directory: SandboxDirectory,
    pub(super) file: SandboxFile,
    view: watch::Receiver<View>,
    _follower: AbortOnDropHandle<()>,
}

/// What was last heard.
#[derive(Clone, Debug)]
pub(super) struct View {
    generation: u64,
    /// False once the shim is gone and what it left has been buried.
    pub(super) has_shim: bool,
    /// Absent before the first word.
    pub(super) snapshot: Option<SandboxSnapshot>,
}

impl Sandbox {
    /// Follows a sandbox from here on. `child` is its shim if this agent has started it.
    pub(super) fn follow(
        directory: SandboxDirectory,
        file: SandboxFile,
        child: Option<Child>,
        board: Arc<Board>,
    ) -> Sandbox {
        let (sender, view) = watch::channel(View { generation: 0, has_shim: true, snapshot: None });
        let follower = Follower { directory: directory.clone(), file: file.clone(), board, sender };
        let task = tokio::spawn(follower.run(child));
        Sandbox { id: file.config.id(), directory, file, view, _follower: AbortOnDropHandle::new(task) }
    }

    /// What was last heard.
    pub(super) fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// Waits until something has been heard.
    pub(super) async fn heard(&self) -> Result<SandboxSnapshot, RuntimeError> {
        let view = self.wait_for(|view| view.snapshot.is_some()).await?;
        view.snapshot.ok_or_else(|| RuntimeError::SandboxEnded(self.id.clone()))
    }

    /// Waits until the shim is gone and what it left has been buried.
    pub(super) async fn buried(&self) -> Result<(), RuntimeError> {
        self.wait_for(|view| !view.has_shim).await.map(|_| ())
    }

    /// Asks the shim, and waits until the change that the answer is about has been heard of too.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply, RuntimeError> {
        if !self.view.borrow().has_shim {
            return Err(RuntimeError::SandboxEnded(self.id.clone()));
        }
        let talk = async {
            let mut connection = Connection::ask(self.directory.path(), request).await?;
            connection.receive().await
        };
        let ReplyFrame { generation, reply } =
            in_time("the shim's answer", talk).await?.map_err(RuntimeError::unreachable(&self.id))?;
        self.wait_for(|view| view.generation >= generation || !view.has_shim).await?;
        Ok(reply)
    }

    /// Asks for something with more than one answer.
    pub(super) async fn converse(&self, request: Request) -> Result<(Connection, Reply), RuntimeError> {
        if !self.view.borrow().has_shim {
            return Err(RuntimeError::SandboxEnded(self.id.clone()));
        }
        let talk = async {
            let mut connection = Connection::ask(self.directory.path(), request).await?;
            let frame = connection.receive().await?;
            Ok((connection, frame.reply))
        };
        in_time("the shim's answer", talk).await?.map_err(RuntimeError::unreachable(&self.id))
    }

    async fn wait_for(&self, is_it: impl FnMut(&View) -> bool) -> Result<View, RuntimeError> {
        let mut view = self.view.clone();
        let seen = in_time("word from the shim", view.wait_for(is_it)).await?;
        // The follower ends only after it has buried the shim, or with the agent.
        seen.map(|view| view.clone()).map_err(|_| RuntimeError::SandboxEnded(self.id.clone()))
    }

    /// Reads the directory anew, after something of a sandbox without a shim was removed.
    pub(super) fn snapshot_from_disk(&self) -> Result<SandboxSnapshot, RuntimeError> {
        Ok(self.directory.snapshot_without_shim(&self.file)?)
    }
}

async fn in_time<T>(what: &'static str, future: impl Future<Output = T>) -> Result<T, RuntimeError> {
    tokio::time::timeout(ANSWER_PATIENCE, future)
        .await
        .map_err(|_| RuntimeError::TimedOut { what, seconds: ANSWER_PATIENCE.as_secs() })
}

/// Listens to a shim until it is gone.
struct Follower {
    directory: SandboxDirectory,
    file: SandboxFile,
    board: Arc<Board>,
    sender: watch::Sender<View>,
}

impl Follower {
    async fn run(self, child: Option<Child>) {
        let mut failures = 0;
        while failures < RETRIES_MAX {
            match self.listen().await {
                Ok(Heard::Something) => failures = 0,
                Ok(Heard::Refusal) => return,
                Err(error) if is_gone(&error) => break,
                Err(error) => {
                    tracing::debug!(sandbox = %self.directory.path().display(), %error, "a shim cannot be heard");
                    failures += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
        if let Some(mut child) = child {
            // It has closed its socket: it is dead, or about to be.
            let _ = tokio::time::timeout(KILL_PATIENCE, child.wait()).await;
        }
        self.bury().await;
    }

    /// Takes what the shim says until the connection ends; an error if there was none.
    async fn listen(&self) -> io::Result<Heard> {
        let mut connection = Connection::ask(self.directory.path(), Request::Watch).await?;
        loop {
            match connection.receive().await {
                Ok(ReplyFrame { generation, reply: Reply::Snapshot(snapshot) }) => {
                    self.tell(View { generation, has_shim: true, snapshot: Some(snapshot) });
                }
                Ok(ReplyFrame { reply: Reply::Failed(failure), .. }) => {
                    tracing::error!(sandbox = %self.directory.path().display(), "{}", failure.message);
                    self.tell_from_disk();
                    return Ok(Heard::Refusal);
                }
                Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "not an answer to watching")),
                Err(_) => return Ok(Heard::Something),
            }
        }
    }

    /// Kills what a shim that died has left, and reports what the disk tells.
    async fn bury(&self) {
        let (directory, file) = (self.directory.clone(), self.file.clone());
        match tokio::task::spawn_blocking(move || kill_containers(&directory, &file)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(sandbox = %self.directory.path().display(), %error, "a dead shim's containers may live on")
            }
            Err(error) => tracing::error!(%error, "the task that buries a shim has failed"),
        }
        self.tell_from_disk();
    }

    fn tell_from_disk(&self) {
        let snapshot = self.directory.snapshot_without_shim(&self.file);
        let snapshot = snapshot.unwrap_or_else(|error| {
            tracing::error!(%error, "the records of a sandbox cannot be read");
            let sandbox = self.file.record(false, Vec::new());
            SandboxSnapshot { pod: self.file.config.pod.clone(), sandbox, containers: Vec::new() }
        });
        self.tell(View { generation: u64::MAX, has_shim: false, snapshot: Some(snapshot) });
    }

    fn tell(&self, view: View) {
        self.sender.send_replace(view);
        self.board.mark(&self.file.config.pod);
    }
}

enum Heard {
    /// The connection stood, and has ended.
    Something,
    /// The shim is there, but the two do not understand each other.
    Refusal,
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Kills the containers of a sandbox that has no shim, and removes their cgroups. Goes on after errors and gives the first.
fn kill_containers(directory: &SandboxDirectory, file: &SandboxFile) -> Result<(), RuntimeError> {
    let pod = file.pod_cgroup()?;
    let mut result = Ok(());
    for id in directory.container_ids()? {
        let cgroup = pod.child(id.as_str());
        if !cgroup.exists() {
            continue;
        }
        let killed: Result<(), CgroupError> = cgroup.kill(KILL_PATIENCE).and_then(|()| cgroup.remove());
        if result.is_ok() {
            result = killed.map_err(RuntimeError::from);
        }
    }
    result
}
