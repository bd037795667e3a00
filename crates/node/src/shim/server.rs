//! The shim's life: one thread that waits for clients, output, and the end of processes.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lifecycle::ContainerId;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::client::{Client, ClientId, Incoming};
use super::complaints::Complaints;
use super::container::{Container, SandboxContext};
use super::log::OutputStream;
use super::poller::{EventFlags, Poller, Token};
use super::protocol::{ExecExit, FailureKind, Reply, ReplyFrame, RequestFrame, ShimFailure, VERSION};
use super::records::{Life, SandboxDirectory, SandboxFile, SandboxSnapshot, container_record};
use super::rootfs::MountNamespaces;
use super::sinks::Sinks;
use super::spec::PidNamespace;
use crate::cgroup::{Cgroup, CgroupVersion};
use crate::runtime::config::PidNamespaceMode;

/// What is read of a stream before the others have their turn.
const READ_BYTES: usize = 64 * 1024;
/// What is read of a stream whose writers are gone: a pipe holds no more than this.
const DRAIN_ROUNDS: usize = 32;
/// More clients than these are turned away: an agent has a handful.
const CLIENTS_MAX: usize = 512;

/// What a descriptor that becomes ready means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Listener,
    Signals,
    Client(ClientId),
    Output(ContainerId, OutputStream),
    Sink(ClientId),
}

/// The parts of a sandbox that stand before the first client comes.
pub(crate) struct Sandbox {
    pub(crate) directory: SandboxDirectory,
    pub(crate) file: SandboxFile,
    pub(crate) hostname: String,
    pub(crate) namespaces: MountNamespaces,
    pub(crate) shared_memory: PathBuf,
    pub(crate) cgroup: Cgroup,
    pub(crate) cgroup_version: CgroupVersion,
    pub(crate) complaints: Complaints,
    /// The pause process, if the pod has a process namespace.
    pub(crate) pause: Option<Pid>,
}

/// A shim at work.
pub(crate) struct Server {
    pub(super) sandbox: Sandbox,
    poller: Poller<Source>,
    listener: UnixListener,
    signals: OwnedFd,
    pub(super) clients: BTreeMap<ClientId, Client>,
    next_client: u64,
    pub(super) containers: BTreeMap<ContainerId, Container>,
    output_tokens: BTreeMap<(ContainerId, OutputStream), Token>,
    pub(super) execs: HashMap<Pid, RunningExec>,
    pub(super) sinks: Sinks,
    /// What each attached client is attached to.
    pub(super) attached: BTreeMap<ClientId, ContainerId>,
    /// Counts changes; a change is told to all who watch at the end of a round.
    generation: u64,
    told_generation: u64,
    /// Who asked for the end.
    pub(super) stopping: Option<ClientId>,
    has_lost_pause: bool,
}

/// A process beside a container's first.
pub(crate) struct RunningExec {
    pub(super) client: ClientId,
    pub(super) deadline: Option<Instant>,
    pub(super) has_timed_out: bool,
}

impl Server {
    pub(crate) fn new(sandbox: Sandbox, listener: UnixListener, signals: OwnedFd) -> io::Result<Server> {
        listener.set_nonblocking(true)?;
        let mut poller = Poller::new()?;
        poller.add(&listener, EventFlags::IN, Source::Listener)?;
        poller.add(&signals, EventFlags::IN, Source::Signals)?;
        Ok(Server {
            sandbox,
            poller,
            listener,
            signals,
            clients: BTreeMap::new(),
            next_client: 0,
            containers: BTreeMap::new(),
            output_tokens: BTreeMap::new(),
            execs: HashMap::new(),
            sinks: Sinks::default(),
            attached: BTreeMap::new(),
            generation: 1,
            told_generation: 1,
            stopping: None,
            has_lost_pause: false,
        })
    }

    /// Serves until a client stops it.
    pub(crate) fn run(mut self) -> io::Result<()> {
        loop {
            let events = self.poller.wait(self.time_to_next_deadline())?;
            for (source, _) in events {
                self.handle(source);
            }
            self.enforce_deadlines();
            self.tell_watchers();
            self.flush_clients();
            if self.is_over() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, source: Source) {
        match source {
            Source::Listener => self.accept(),
            Source::Signals => self.reap(),
            Source::Client(client) => self.receive(client),
            Source::Output(container, stream) => self.read_output(&container, stream),
            Source::Sink(client) => {
                self.sinks.advance(client, &mut self.poller, Source::Sink);
                self.tell_detached(client);
            }
        }
    }

    // === Clients ===

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() >= CLIENTS_MAX || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let id = ClientId(self.next_client);
            self.next_client += 1;
            match self.poller.add(&stream, EventFlags::IN, Source::Client(id)) {
                Ok(token) => {
                    self.clients.insert(id, Client::new(stream, token));
                }
                Err(error) => tracing::error!(%error, "failed to wait for a client"),
            }
        }
    }

    fn receive(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        match client.receive() {
            Incoming::Requests(requests, has_gone) => {
                for request in requests {
                    self.answer(id, request);
                }
                if has_gone {
                    // It may have closed its side alone, and wait for the answer.
                    self.clients.get_mut(&id).map(Client::flush);
                    self.drop_client(id);
                }
            }
            Incoming::Garbage(message) => {
                self.reply(id, Reply::Failed(ShimFailure::other(message)), Vec::new());
                self.finish_client(id);
            }
        }
    }

    fn answer(&mut self, client: ClientId, frame: RequestFrame) {
        if frame.version != VERSION {
            let message = format!(
                "this pod's shim speaks version {VERSION} of the protocol, the agent version {}\n\
                 hint: let the pod end under the program that started it, or delete it",
                frame.version
            );
            self.reply(client, Reply::Failed(ShimFailure::new(FailureKind::Version, message)), Vec::new());
            return;
        }
        self.carry_out(client, frame.request);
    }

    /// Queues an answer; it is sent at the end of the round.
    pub(super) fn reply(&mut self, client: ClientId, reply: Reply, descriptors: Vec<OwnedFd>) {
        let generation = self.generation;
        if let Some(client) = self.clients.get_mut(&client) {
            client.send(&ReplyFrame { generation, reply }, descriptors);
        }
    }

    /// Lets a client watch; it is told at the end of this round.
    pub(super) fn watch(&mut self, id: ClientId) {
        let snapshot = self.snapshot();
        self.reply(id, Reply::Snapshot(snapshot), Vec::new());
        if let Some(client) = self.clients.get_mut(&id) {
            client.is_watching = true;
        }
    }

    fn finish_client(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.is_finished = true;
        }
    }

    fn drop_client(&mut self, id: ClientId) {
        if let Some(client) = self.clients.remove(&id) {
            self.poller.remove(client.token, &client);
        }
        self.sinks.drop_client(id, &mut self.poller);
        self.close_stdin_of(id);
        self.attached.remove(&id);
    }

    /// The input of who is attached has ended: with `stdinOnce` that is the end of the container's input.
    pub(super) fn close_stdin_of(&mut self, client: ClientId) {
        let container = self.attached.get(&client).and_then(|id| self.containers.get_mut(id));
        if let Some(container) = container
            && container.config.stdin_once
            && !container.config.tty
            && let Some(running) = &mut container.running
        {
            running.stdin = None;
        }
    }

    pub(super) fn tell_detached(&mut self, client: ClientId) {
        let is_over = self
            .attached
            .get(&client)
            .is_some_and(|id| self.containers.get(id).is_none_or(|container| container.running.is_none()));
        if is_over && !self.sinks.has(client) {
            self.attached.remove(&client);
            self.reply(client, Reply::Detached, Vec::new());
        }
    }

    fn flush_clients(&mut self) {
        let mut gone = Vec::new();
        for (id, client) in &mut self.clients {
            let is_fine = client.flush();
            let flags = if client.has_output() { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            let is_registered = self.poller.modify(client.token, &*client, flags).is_ok();
            if !is_fine || !is_registered || (client.is_finished && !client.has_output()) {
                gone.push(*id);
            }
        }
        for id in gone {
            self.drop_client(id);
        }
    }

    // === Changes ===

    /// Something that is reported has changed.
    pub(super) fn changed(&mut self) {
        self.generation += 1;
    }

    fn tell_watchers(&mut self) {
        if self.told_generation == self.generation {
            return;
        }
        self.told_generation = self.generation;
        let frame = ReplyFrame { generation: self.generation, reply: Reply::Snapshot(self.snapshot()) };
        for client in self.clients.values_mut().filter(|client| client.is_watching) {
            client.send(&frame, Vec::new());
        }
    }

    fn snapshot(&self) -> SandboxSnapshot {
        let file = &self.sandbox.file;
        let sandbox = file.record(self.stopping.is_none() && !self.has_lost_pause, file.config.ips.clone());
        let containers = self
            .containers
            .values()
            .map(|it| container_record(&it.id, &sandbox.id, &it.config, Some(&it.state), Life::Going))
            .collect();
        SandboxSnapshot { pod: file.config.pod.clone(), sandbox, containers }
    }

    // === Processes ===

    /// What a container, or a process in it, is made with.
    pub(super) fn with_container<T>(
        &mut self,
        id: &ContainerId,
        action: impl FnOnce(&mut Container, &SandboxContext<'_>) -> T,
    ) -> Option<T> {
        let target = self.containers.get(id).and_then(|container| container.config.target.clone());
        let target_pid =
            target.as_ref().and_then(|target| self.containers.get(target)?.running.as_ref().map(|it| it.pid));
        let mode = self.sandbox.file.config.namespaces.pid;
        let pid_namespace = match (target_pid, mode, self.sandbox.pause) {
            (_, PidNamespaceMode::Node, _) => PidNamespace::Node,
            (_, PidNamespaceMode::Pod, Some(pause)) => PidNamespace::Of(pause),
            (Some(target), _, _) => PidNamespace::Of(target),
            _ => PidNamespace::New,
        };
        let mounts = self.sandbox.directory.mounts();
        let context = SandboxContext {
            hostname: &self.sandbox.hostname,
            mounts: &mounts,
            shared_memory: &self.sandbox.shared_memory,
            namespaces: &self.sandbox.namespaces,
            cgroup_version: self.sandbox.cgroup_version,
            complaints: &self.sandbox.complaints,
            pid_namespace,
        };
        self.containers.get_mut(id).map(|container| action(container, &context))
    }

    /// Waits for the output of a container that has started.
    pub(super) fn watch_outputs(&mut self, id: &ContainerId) {
        let Some(running) = self.containers.get(id).and_then(|container| container.running.as_ref()) else { return };
        for output in &running.outputs {
            let source = Source::Output(id.clone(), output.stream);
            match self.poller.add(&output.descriptor, EventFlags::IN, source) {
                Ok(token) => {
                    self.output_tokens.insert((id.clone(), output.stream), token);
                }
                Err(error) => tracing::error!(container = %id, %error, "failed to wait for output"),
            }
        }
    }

    fn read_output(&mut self, id: &ContainerId, stream: OutputStream) {
        if self.read_once(id, stream) == ReadResult::Ended {
            self.close_output(id, stream);
        }
    }

    /// Reads once, so that one container that floods does not starve the others.
    fn read_once(&mut self, id: &ContainerId, stream: OutputStream) -> ReadResult {
        let Some(container) = self.containers.get_mut(id) else { return ReadResult::Ended };
        let outputs = container.running.as_ref().map(|running| &running.outputs);
        let Some(output) = outputs.and_then(|outputs| outputs.iter().find(|output| output.stream == stream)) else {
            return ReadResult::Ended;
        };
        let mut buffer = [0; READ_BYTES];
        match rustix::io::read(&output.descriptor, &mut buffer) {
            Ok(0) => ReadResult::Ended,
            Ok(length) => {
                let read = buffer.get(..length).unwrap_or_default();
                container.log(stream, read);
                self.sinks.write(id, stream, read, &mut self.poller, Source::Sink);
                ReadResult::Read
            }
            Err(Errno::AGAIN | Errno::INTR) => ReadResult::Empty,
            // A terminal whose last process is gone gives an error in place of an end.
            Err(_) => ReadResult::Ended,
        }
    }

    fn close_output(&mut self, id: &ContainerId, stream: OutputStream) {
        let Some(running) = self.containers.get_mut(id).and_then(|container| container.running.as_mut()) else {
            return;
        };
        for output in running.outputs.extract_if(.., |output| output.stream == stream) {
            if let Some(token) = self.output_tokens.remove(&(id.clone(), stream)) {
                self.poller.remove(token, &output.descriptor);
            }
        }
    }

    /// Takes the end of every process that has ended, also of orphans that the shim has inherited.
    fn reap(&mut self) {
        drain_signals(&self.signals);
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.process_ended(pid, exit_code(status)),
                Ok(None) | Err(Errno::CHILD) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "failed to wait for processes");
                    return;
                }
            }
        }
    }

    fn process_ended(&mut self, pid: Pid, exit_code: i32) {
        if let Some(exec) = self.execs.remove(&pid) {
            let exit = ExecExit { exit_code, timed_out: exec.has_timed_out };
            self.reply(exec.client, Reply::Ended(exit), Vec::new());
            return;
        }
        if self.sandbox.pause == Some(pid) {
            // Nobody can enter a process namespace without its process 1: the sandbox is of no use any more.
            self.sandbox.pause = None;
            self.has_lost_pause = true;
            self.changed();
            return;
        }
        let container = self.containers.values().find(|it| it.running.as_ref().is_some_and(|it| it.pid == pid));
        if let Some(id) = container.map(|container| container.id.clone()) {
            self.container_ended(&id, exit_code);
        }
    }

    fn container_ended(&mut self, id: &ContainerId, exit_code: i32) {
        if let Some(container) = self.containers.get(id) {
            container.kill_remains();
        }
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            for _ in 0..DRAIN_ROUNDS {
                if self.read_once(id, stream) != ReadResult::Read {
                    break;
                }
            }
            self.close_output(id, stream);
        }
        if let Some(container) = self.containers.get_mut(id) {
            container.end(exit_code);
        }
        self.sinks.close(id, &mut self.poller);
        let attached: Vec<ClientId> =
            self.attached.iter().filter(|(_, container)| *container == id).map(|(client, _)| *client).collect();
        for client in attached {
            self.tell_detached(client);
        }
        self.changed();
    }

    // === Deadlines and the end ===

    fn time_to_next_deadline(&self) -> Option<Duration> {
        let next = self.execs.values().filter(|exec| !exec.has_timed_out).filter_map(|exec| exec.deadline).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn enforce_deadlines(&mut self) {
        let now = Instant::now();
        for (pid, exec) in &mut self.execs {
            if !exec.has_timed_out && exec.deadline.is_some_and(|deadline| deadline <= now) {
                exec.has_timed_out = true;
                // It leads a session of its own: its children that stayed in the group die with it.
                let _ = rustix::process::kill_process_group(*pid, Signal::KILL);
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let Some(client) = self.stopping else { return false };
        if self.containers.values().any(|container| container.running.is_some()) {
            return false;
        }
        if self.clients.contains_key(&client) {
            self.reply(client, Reply::Done, Vec::new());
            self.flush_clients();
        }
        if let Some(pause) = self.sandbox.pause {
            // It is gone already, or goes.
            let _ = rustix::process::kill_process(pause, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pause), WaitOptions::empty());
        }
        true
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadResult {
    Read,
    Empty,
    Ended,
}

fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

fn drain_signals(signals: &OwnedFd) {
    let mut buffer = [0; 1024];
    while rustix::io::read(signals.as_fd(), &mut buffer).is_ok_and(|length| length > 0) {}
}
