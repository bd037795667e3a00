//! The shim: one process for each pod sandbox, the parent of all of the pod's processes.
//!
//! It is the program itself, executed anew with a hidden subcommand, so that it has one thread and nothing else in it:
//! libcontainer changes the process's directory and runs Rust after a fork, which no threaded agent survives.
//! It outlives the agent. It makes containers, holds their pipes and terminals, writes their logs, and puts each end on disk before it tells anybody.
//! It knows nothing of Kubernetes' rules; what is in a [`ContainerConfig`](crate::runtime::config::ContainerConfig) is carried out to the letter.
//!
//! | file | holds |
//! |---|---|
//! | `namespaces`, `pause` | the sandbox |
//! | `server`, `requests`, `client`, `poller`, `sinks` | the loop and who asks |
//! | `protocol` | what is said over the socket |
//! | `container`, `rootfs`, `spec`, `oci`, `executor`, `seccomp` | how a container is made |
//! | `records`, `log`, `termination`, `complaints`, `files` | what is on disk |

mod client;
mod complaints;
mod container;
mod devices;
mod executor;
pub(crate) mod files;
mod log;
mod namespaces;
mod oci;
mod pause;
mod poller;
pub(crate) mod protocol;
pub(crate) mod records;
mod requests;
mod rootfs;
mod seccomp;
mod server;
mod sinks;
mod spec;
mod termination;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchy;
use crate::runtime::config::PidNamespaceMode;
use crate::sys;
use complaints::Complaints;
use namespaces::SandboxError;
use protocol::SOCKET_NAME;
use records::SandboxDirectory;
use server::{Sandbox, Server};

pub use protocol::ExecExit;

/// The hidden subcommand that makes a process a shim: `<program> shim ...`.
pub const SUBCOMMAND: &str = "shim";

/// As low as an unprivileged container never gets: the kernel kills the pod's processes first.
const SHIM_OOM_SCORE: &str = "-998";

/// What a new shim tells who started it, as one line on its standard output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Hello {
    /// The sandbox stands, and clients are served.
    Ready {
        /// Things that the host withholds, to be said once.
        warnings: Vec<String>,
    },
    /// There is no sandbox.
    Failed(String),
}

/// Runs as a shim, or as the pause process of one: `arguments` is what follows the subcommand.
///
/// To be called before the program starts a thread, a runtime or a logger.
pub fn main(arguments: &[OsString]) -> ExitCode {
    let result = match arguments {
        [word] if word == "pause" => pause::main().map_err(|error| error.to_string()),
        [directory] => run(PathBuf::from(directory)),
        _ => Err("expected the sandbox's directory: this subcommand is for the program's own use".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Standard error is the shim's log or nothing at all.
            let _ = writeln!(io::stderr(), "shim: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: PathBuf) -> Result<(), String> {
    let directory = SandboxDirectory::new(directory);
    let mut warnings = Vec::new();
    let prepared = leave_agent(&mut warnings).and_then(|()| make_sandbox(directory));
    let (server, hello) = match prepared {
        Ok(server) => (Some(server), Hello::Ready { warnings }),
        Err(error) => (None, Hello::Failed(error.to_string())),
    };
    say(&hello).map_err(|error| error.to_string())?;
    match (server, hello) {
        (Some(server), _) => server.run().map_err(|error| error.to_string()),
        (None, Hello::Failed(message)) => Err(message),
        (None, Hello::Ready { .. }) => Ok(()),
    }
}

/// Becomes independent of who started it.
fn leave_agent(warnings: &mut Vec<String>) -> Result<(), SandboxError> {
    // A process group leader cannot; then it has a group of its own at least.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/").map_err(SandboxError::step("change to the root directory"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // libcontainer leaves the groups as they are if a container has none of its own.
    rustix::thread::set_thread_groups(&[]).map_err(SandboxError::step("give up supplementary groups"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(SandboxError::step("become the parent of orphans"))?;
    rustix::thread::set_name(c"monopod-shim").map_err(SandboxError::step("set the process's name"))?;
    if let Err(error) = fs::write("/proc/self/oom_score_adj", SHIM_OOM_SCORE) {
        warnings.push(format!(
            "the host does not let OOM scores be lowered ({error}): under memory pressure the kernel may choose important processes first\n\
             hint: run with CAP_SYS_RESOURCE"
        ));
    }
    Ok(())
}

fn make_sandbox(directory: SandboxDirectory) -> Result<Server, SandboxError> {
    let no_sandbox = || SandboxError::NoSandbox { path: directory.path().to_owned() };
    let file = directory.read()?.ok_or_else(no_sandbox)?;
    let complaints = Complaints::collect(&directory.log()).map_err(SandboxError::step("open the shim's log"))?;
    let hierarchy = Hierarchy::detect(&file.cgroup_root)?;
    let cgroup = hierarchy.cgroup(&file.cgroup);
    cgroup.create()?;
    cgroup.limit(&file.config.resources)?;
    let namespaces = namespaces::enter(&file.config, &directory.mounts())?;
    // Blocked before there is a child whose end could be missed.
    let signals = sys::signal::signal_descriptor(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
        .map_err(SandboxError::step("receive signals"))?;
    let pause = match file.config.namespaces.pid {
        PidNamespaceMode::Pod => Some(pause::start().map_err(SandboxError::step("start the pause process"))?),
        PidNamespaceMode::Container | PidNamespaceMode::Node => None,
    };
    let listener = oci::bind_in(directory.path(), SOCKET_NAME).map_err(SandboxError::step("listen for the agent"))?;
    let sandbox = Sandbox {
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        shared_memory: namespaces::shared_memory(&file.config, &directory.mounts()),
        cgroup_version: hierarchy.version(),
        directory,
        file,
        namespaces,
        cgroup,
        complaints,
        pause,
    };
    Server::new(sandbox, listener, signals).map_err(SandboxError::step("prepare to serve"))
}

/// Tells who started the shim, and lets go of them.
fn say(hello: &Hello) -> io::Result<()> {
    let mut line = serde_json::to_vec(hello)?;
    line.push(b'\n');
    // Who started it may be gone: the sandbox stands all the same, and is found on disk.
    let _ = rustix::io::write(rustix::stdio::stdout(), &line);
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
