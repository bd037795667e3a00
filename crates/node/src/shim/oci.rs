//! The calls of libcontainer; the only place that makes containers.
//!
//! libcontainer changes the directory of the whole process and runs on after a fork, so all of this is for a process with one thread, one call after the other.

use std::fs::{self, File};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use libcontainer::container::builder::ContainerBuilder;
use libcontainer::oci_spec::runtime::{Process, Spec};
use libcontainer::syscall::syscall::SyscallType;
use lifecycle::ContainerId;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Pid;

use super::complaints::Complaints;
use super::executor::ContainerExecutor;
use super::files::{Durability, write_json};
use super::records::ContainerDirectory;

/// What a new process has for standard input, output and error.
pub(crate) enum ProcessStreams {
    /// Three descriptors.
    Descriptors { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    /// A terminal of the container's own.
    Terminal,
}

/// A process that runs.
pub(crate) struct StartedProcess {
    /// Its id in the node's process namespace.
    pub(crate) pid: Pid,
    /// The other side of its terminal.
    pub(crate) terminal: Option<OwnedFd>,
}

/// What every call needs.
pub(crate) struct OciContainer<'a> {
    pub(crate) id: &'a ContainerId,
    pub(crate) directory: &'a ContainerDirectory,
    pub(crate) complaints: &'a Complaints,
    /// What the new process starts out with; the shim cannot give away less than it may have itself.
    pub(crate) oom_score_adj: i32,
}

impl OciContainer<'_> {
    /// Creates the container and starts its first process. An error is the text for the user.
    pub(crate) fn start(
        &self,
        spec: &Spec,
        executor: ContainerExecutor,
        streams: ProcessStreams,
    ) -> Result<StartedProcess, String> {
        write_json(&self.directory.oci_document(), spec, Durability::UntilReboot).map_err(|error| error.to_string())?;
        let console = self.console(&streams)?;
        let mark = self.complaints.mark();
        let build = || {
            let builder = self.builder(executor, streams, console.as_ref())?;
            let mut container =
                builder.as_init(self.directory.bundle()).with_systemd(false).with_detach(true).build()?;
            container.start()?;
            Ok(container.pid().map(|pid| pid.as_raw()))
        };
        let result: Result<_, libcontainer::error::LibcontainerError> = with_oom_score(self.oom_score_adj, build);
        let pid = result.map_err(|error| self.complaints.explain(mark, &error))?;
        started(pid, console)
    }

    /// Starts one more process in the container.
    pub(crate) fn exec(
        &self,
        process: &Process,
        executor: ContainerExecutor,
        streams: ProcessStreams,
    ) -> Result<StartedProcess, String> {
        let document = self.directory.path().join("exec.json");
        write_json(&document, process, Durability::UntilReboot).map_err(|error| error.to_string())?;
        let console = self.console(&streams)?;
        let mark = self.complaints.mark();
        let build = || {
            let builder = self.builder(executor, streams, console.as_ref())?;
            builder.as_tenant().with_process(Some(&document)).with_detach(true).build()
        };
        let pid = with_oom_score(self.oom_score_adj, build).map_err(|error| self.complaints.explain(mark, &error))?;
        started(Some(pid.as_raw()), console)
    }

    fn builder(
        &self,
        executor: ContainerExecutor,
        streams: ProcessStreams,
        console: Option<&Console>,
    ) -> Result<ContainerBuilder, libcontainer::error::LibcontainerError> {
        let root = self.directory.oci_root();
        let builder = ContainerBuilder::new(self.id.to_string(), SyscallType::default())
            .with_root_path(root)?
            .with_executor(executor)
            .with_console_socket(console.map(|console| console.path.clone()));
        Ok(match streams {
            ProcessStreams::Terminal => builder,
            ProcessStreams::Descriptors { stdin, stdout, stderr } => {
                builder.with_stdin(stdin).with_stdout(stdout).with_stderr(stderr)
            }
        })
    }

    fn console(&self, streams: &ProcessStreams) -> Result<Option<Console>, String> {
        match streams {
            ProcessStreams::Terminal => Console::listen(self.directory.path())
                .map(Some)
                .map_err(|error| format!("failed to prepare a terminal: {error}")),
            ProcessStreams::Descriptors { .. } => Ok(None),
        }
    }
}

fn started(pid: Option<i32>, console: Option<Console>) -> Result<StartedProcess, String> {
    let pid = pid.and_then(Pid::from_raw).ok_or("the container's process has no id")?;
    let terminal = console
        .map(|console| {
            console.receive().map_err(|error| format!("failed to receive the container's terminal: {error}"))
        })
        .transpose()?;
    Ok(StartedProcess { pid, terminal })
}

/// The socket over which a new process sends the other side of its terminal.
struct Console {
    path: PathBuf,
    listener: UnixListener,
}

impl Console {
    fn listen(directory: &Path) -> io::Result<Console> {
        let path = directory.join("console.sock");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = bind_in(directory, "console.sock")?;
        listener.set_nonblocking(true)?;
        Ok(Console { path, listener })
    }

    fn receive(self) -> io::Result<OwnedFd> {
        // The process connected and sent before its creation was reported.
        let (connection, _) = self.listener.accept()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 64];
        recvmsg(&connection, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
                && let Some(descriptor) = descriptors.next()
            {
                return Ok(descriptor);
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "no descriptor was sent"))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // It goes with the container's directory at the latest.
        let _ = fs::remove_file(&self.path);
    }
}

/// Binds a socket in a directory whose path may be longer than the 108 bytes of a socket's address.
pub(crate) fn bind_in(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let directory = File::open(directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Runs `action` with another OOM score, which the processes that it makes inherit.
///
/// libcontainer would change the shim's own for good: the shim of a BestEffort pod would be the first to die.
fn with_oom_score<T>(score: i32, action: impl FnOnce() -> T) -> T {
    let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    // Lowering needs a privilege that some hosts withhold; the shim says so once at its start.
    let is_set = fs::write("/proc/self/oom_score_adj", score.to_string()).is_ok();
    let result = action();
    if is_set {
        let _ = fs::write("/proc/self/oom_score_adj", own.trim());
    }
    result
}
