//! One container of the shim's: created, started, read from, ended, removed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use lifecycle::{ContainerId, Exit};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::complaints::Complaints;
use super::devices::node_devices;
use super::executor::{ContainerExecutor, parse_capabilities};
use super::files::FileError;
use super::log::{LogWriter, OutputStream};
use super::oci::{OciContainer, ProcessStreams, StartedProcess};
use super::protocol::{ExecRequest, FailureKind, ShimFailure, StreamSet};
use super::records::{ContainerDirectory, ContainerState};
use super::rootfs::{MountNamespaces, StagedMounts, stage};
use super::seccomp;
use super::spec::{PidNamespace, SpecInput, container_process, container_spec, device_rules, environment};
use super::termination::termination_message;
use crate::cgroup::{Cgroup, CgroupError, CgroupVersion, attach_device_filter};
use crate::runtime::config::{ContainerConfig, LinuxResources};

/// The exit code of a container whose program could not be started; containerd's.
const START_ERROR_EXIT_CODE: i32 = 128;
const START_ERROR: &str = "StartError";
const OOM_KILLED: &str = "OOMKilled";
/// How long processes that were killed may take to end.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// What a container needs of its sandbox.
pub(crate) struct SandboxContext<'a> {
    pub(crate) hostname: &'a str,
    /// The shim's private mounts.
    pub(crate) mounts: &'a Path,
    pub(crate) shared_memory: &'a Path,
    pub(crate) namespaces: &'a MountNamespaces,
    pub(crate) cgroup_version: CgroupVersion,
    pub(crate) complaints: &'a Complaints,
    /// The process namespace, where it is not the container's own affair.
    pub(crate) pid_namespace: PidNamespace,
}

/// A container.
pub(crate) struct Container {
    pub(crate) id: ContainerId,
    pub(crate) config: ContainerConfig,
    pub(crate) state: ContainerState,
    pub(crate) directory: ContainerDirectory,
    pub(crate) running: Option<RunningContainer>,
    cgroup: Cgroup,
    log: LogWriter,
}

/// What exists while a container's first process runs.
pub(crate) struct RunningContainer {
    pub(crate) pid: Pid,
    /// The write end of its standard input, or its terminal.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) outputs: Vec<Output>,
    staged: StagedMounts,
    /// What a further process of the container starts from.
    executor: ContainerExecutor,
}

/// One stream that a container writes.
pub(crate) struct Output {
    pub(crate) stream: OutputStream,
    pub(crate) descriptor: OwnedFd,
}

/// What is handed to the asker of an exec.
pub(crate) struct StartedExec {
    pub(crate) pid: Pid,
    pub(crate) streams: StreamSet,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Container {
    /// Puts a new container on record.
    pub(crate) fn create(
        id: ContainerId,
        config: ContainerConfig,
        directory: ContainerDirectory,
        pod_cgroup: &Cgroup,
    ) -> Result<Container, FileError> {
        directory.create(&config)?;
        let log = LogWriter::open(config.log_path.as_deref())?;
        let state = ContainerState { created_at: Timestamp::now(), started_at: None, exit: None };
        directory.write_state(&state)?;
        let cgroup = pod_cgroup.child(id.as_str());
        Ok(Container { id, config, state, directory, running: None, cgroup, log })
    }

    /// Starts the first process. If that fails the container has ended, and its record says why.
    pub(crate) fn start(&mut self, context: &SandboxContext<'_>) -> Result<(), ShimFailure> {
        match self.try_start(context) {
            Ok(running) => {
                self.running = Some(running);
                self.state.started_at = Some(Timestamp::now());
                self.directory.write_state(&self.state).map_err(ShimFailure::other)
            }
            Err(message) => {
                // A process that was made half may live; nobody would find it later.
                self.kill_remains();
                self.release();
                self.record_exit(Exit {
                    exit_code: START_ERROR_EXIT_CODE,
                    reason: Some(START_ERROR.to_owned()),
                    message: message.clone(),
                    started_at: None,
                    finished_at: Timestamp::now(),
                });
                Err(ShimFailure::new(FailureKind::StartFailed, message))
            }
        }
    }

    fn try_start(&mut self, context: &SandboxContext<'_>) -> Result<RunningContainer, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let staged = stage(&self.config, &context.mounts.join(self.id.as_str()), context.namespaces)
            .map_err(|error| text(&error))?;
        let result = self.start_on(&staged, context);
        match result {
            Ok((process, stdin, outputs, executor)) => {
                Ok(RunningContainer { pid: process.pid, stdin, outputs, staged, executor })
            }
            Err(message) => {
                staged.remove();
                Err(message)
            }
        }
    }

    fn start_on(
        &self,
        staged: &StagedMounts,
        context: &SandboxContext<'_>,
    ) -> Result<(StartedProcess, Option<OwnedFd>, Vec<Output>, ContainerExecutor), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.prepare_cgroup(context).map_err(|error| error.to_string())?;
        let env = environment(&self.config, context.hostname, &staged.rootfs);
        let spec = container_spec(&SpecInput {
            config: &self.config,
            staged,
            env: &env,
            cgroup_path: self.cgroup.absolute_path(),
            cgroup_version: context.cgroup_version,
            shared_memory: context.shared_memory,
            pid_namespace: context.pid_namespace.clone(),
            node_devices: if self.config.security.privileged { node_devices() } else { Vec::new() },
        })
        .map_err(|error| text(&error))?;
        let executor = self.executor(env)?;
        let (theirs, stdin, mut outputs) =
            self.open_streams().map_err(|error| format!("failed to make pipes: {error}"))?;
        let mut process = self.oci(context).start(&spec, executor.clone(), theirs)?;
        let mut stdin = stdin;
        if let Some(terminal) = process.terminal.take() {
            set_nonblocking(terminal.as_fd()).map_err(|error| text(&error))?;
            stdin = Some(terminal.try_clone().map_err(|error| text(&error))?);
            outputs.push(Output { stream: OutputStream::Stdout, descriptor: terminal });
        }
        Ok((process, stdin, outputs, executor))
    }

    fn executor(&self, env: Vec<(String, String)>) -> Result<ContainerExecutor, String> {
        let security = &self.config.security;
        let capabilities = parse_capabilities(&security.capabilities)
            .map_err(|name| format!("unknown capability to add or keep: {name:?}"))?;
        let filters = seccomp::compile(&security.seccomp, &security.capabilities).map_err(|error| error.to_string())?;
        Ok(ContainerExecutor {
            argv: self.config.argv.clone(),
            env,
            capabilities,
            filters: Rc::new(filters),
            announces_failure: true,
        })
    }

    fn oci<'a>(&'a self, context: &SandboxContext<'a>) -> OciContainer<'a> {
        OciContainer {
            id: &self.id,
            directory: &self.directory,
            complaints: context.complaints,
            oom_score_adj: self.config.oom_score_adj.unwrap_or(0),
        }
    }

    /// Makes and limits the cgroup before anybody lives in it.
    fn prepare_cgroup(&self, context: &SandboxContext<'_>) -> Result<(), Box<dyn std::error::Error>> {
        self.cgroup.create()?;
        self.cgroup.limit(&self.config.resources)?;
        if context.cgroup_version == CgroupVersion::V2
            && !self.config.security.privileged
            && let Some(directory) = self.cgroup.v2_directory()
        {
            attach_device_filter(&directory, &device_rules(&self.config))?;
        }
        Ok(())
    }

    /// The container's ends of its streams, and ours.
    fn open_streams(&self) -> std::io::Result<(ProcessStreams, Option<OwnedFd>, Vec<Output>)> {
        if self.config.tty {
            return Ok((ProcessStreams::Terminal, None, Vec::new()));
        }
        let (stdin, stdin_writer) = if self.config.stdin {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            (reader, Some(writer))
        } else {
            (open_null()?, None)
        };
        let mut outputs = Vec::new();
        let mut output = |stream| -> std::io::Result<OwnedFd> {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            set_nonblocking(reader.as_fd())?;
            outputs.push(Output { stream, descriptor: reader });
            Ok(writer)
        };
        let stdout = output(OutputStream::Stdout)?;
        let stderr = output(OutputStream::Stderr)?;
        Ok((ProcessStreams::Descriptors { stdin, stdout, stderr }, stdin_writer, outputs))
    }

    /// Takes output.
    pub(crate) fn log(&mut self, stream: OutputStream, output: &[u8]) {
        self.log.write(stream, output);
    }

    /// Starts one more process beside the first.
    pub(crate) fn exec(&self, request: &ExecRequest, context: &SandboxContext<'_>) -> Result<StartedExec, ShimFailure> {
        let Some(running) = &self.running else {
            return Err(ShimFailure::new(FailureKind::NotRunning, "the container is not running"));
        };
        let mut executor = running.executor.clone();
        executor.argv.clone_from(&request.argv);
        executor.announces_failure = false;
        if request.streams.terminal && !executor.env.iter().any(|(name, _)| name == "TERM") {
            executor.env.push(("TERM".to_owned(), "xterm".to_owned()));
        }
        let process = container_process(&self.config, &request.argv, request.streams.terminal, &executor.env)
            .map_err(ShimFailure::other)?;
        let (theirs, ours) = exec_streams(request.streams).map_err(ShimFailure::other)?;
        let failed = |message| ShimFailure::new(FailureKind::ExecFailed, message);
        let started = self.oci(context).exec(&process, executor, theirs).map_err(failed)?;
        let descriptors = ours.into_iter().chain(started.terminal).collect();
        Ok(StartedExec { pid: started.pid, streams: request.streams, descriptors })
    }

    /// Changes the limits of a container that runs or is to run.
    pub(crate) fn change_limits(&mut self, resources: LinuxResources) -> Result<(), CgroupError> {
        if self.running.is_some() {
            self.cgroup.change_limits(&resources)?;
        }
        self.config.resources = resources;
        Ok(())
    }

    /// Kills every process of the container. The first one's end is reported like any other.
    pub(crate) fn kill(&self) -> Result<(), CgroupError> {
        // The shim has to reap the first process before its namespace can end: no waiting here.
        self.cgroup.kill(Duration::ZERO).or_else(|error| match error {
            CgroupError::StillRunning { .. } => Ok(()),
            error => Err(error),
        })
    }

    /// Puts the end on record once the first process is gone. All output has been read.
    pub(crate) fn end(&mut self, exit_code: i32) {
        self.log.finish();
        let reason = (self.cgroup.oom_kills() > 0).then(|| OOM_KILLED.to_owned());
        self.release();
        let exit = Exit {
            exit_code,
            message: termination_message(&self.config, exit_code, reason.as_deref()),
            reason,
            started_at: self.state.started_at,
            finished_at: Timestamp::now(),
        };
        self.record_exit(exit);
    }

    /// Kills what the first process has left behind, which may hold its streams open.
    pub(crate) fn kill_remains(&self) {
        if let Err(error) = self.cgroup.kill(KILL_PATIENCE) {
            tracing::warn!(container = %self.id, %error, "processes outlive their container");
        }
    }

    fn record_exit(&mut self, exit: Exit) {
        self.state.exit = Some(exit);
        if let Err(error) = self.directory.write_state(&self.state) {
            // Reported all the same: the agent that hears it now is better off than one that hears nothing.
            tracing::error!(container = %self.id, %error, "the end of a container is not on record");
        }
    }

    /// Gives up mounts, the cgroup and libcontainer's state.
    fn release(&mut self) {
        if let Some(running) = self.running.take() {
            running.staged.remove();
        }
        if let Err(error) = self.cgroup.remove() {
            tracing::warn!(container = %self.id, %error, "a cgroup stays behind");
        }
        if let Err(error) = super::files::remove_directory(&self.directory.oci_root()) {
            tracing::warn!(container = %self.id, %error, "libcontainer's state stays behind");
        }
    }
}

/// The process's ends of an exec's streams, and those for who asked.
fn exec_streams(wanted: StreamSet) -> std::io::Result<(ProcessStreams, Vec<OwnedFd>)> {
    if wanted.terminal {
        return Ok((ProcessStreams::Terminal, Vec::new()));
    }
    let mut ours = Vec::new();
    let stdin = if wanted.stdin {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        ours.push(writer);
        reader
    } else {
        open_null()?
    };
    let mut output = |is_wanted: bool| -> std::io::Result<OwnedFd> {
        if !is_wanted {
            return open_null();
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        ours.push(reader);
        Ok(writer)
    };
    let stdout = output(wanted.stdout)?;
    let stderr = output(wanted.stderr)?;
    Ok((ProcessStreams::Descriptors { stdin, stdout, stderr }, ours))
}

fn open_null() -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// Makes reading and writing give up instead of waiting.
pub(crate) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> std::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    Ok(rustix::fs::fcntl_setfl(descriptor, flags | OFlags::NONBLOCK)?)
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} on {}", self.stream, self.descriptor.as_raw_fd())
    }
}
