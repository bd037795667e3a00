//! What the shim does when it is asked.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;

use lifecycle::ContainerId;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::client::ClientId;
use super::container::{Container, set_nonblocking};
use super::log::OutputStream;
use super::protocol::{AttachRequest, ExecRequest, FailureKind, Reply, Request, ShimFailure, ShimSignal, StreamSet};
use super::server::{RunningExec, Server};
use crate::runtime::config::{ContainerConfig, LinuxResources};
use crate::runtime::stop_signal::signal_number;
use crate::sys;

/// What a pipe to an attached client holds; a pipe's usual greatest size.
const ATTACH_PIPE_BYTES: usize = 1 << 20;

type Answer = Result<(), ShimFailure>;

impl Server {
    /// Carries a request out and queues its answer.
    pub(super) fn carry_out(&mut self, client: ClientId, request: Request) {
        let answer = match request {
            Request::Watch => return self.watch(client),
            Request::NetworkNamespace => return self.send_network_namespace(client),
            Request::Exec { id, exec } => self.exec(client, &id, &exec),
            Request::Attach { id, attach } => self.attach(client, &id, &attach),
            Request::CloseStdin => return self.close_stdin_of(client),
            Request::Stop => return self.stop(client),
            Request::CreateContainer { id, config } => {
                let answer = self.create_container(id, *config);
                return self.reply_done(client, answer);
            }
            Request::StartContainer { id } => {
                let answer = self.start_container(&id);
                return self.reply_done(client, answer);
            }
            Request::SignalContainer { id, signal } => {
                let answer = self.signal_container(&id, signal);
                return self.reply_done(client, answer);
            }
            Request::RemoveContainer { id, keep_logs } => {
                let answer = self.remove_container(&id, keep_logs);
                return self.reply_done(client, answer);
            }
            Request::LimitContainer { id, resources } => {
                let answer = self.limit_container(&id, resources);
                return self.reply_done(client, answer);
            }
        };
        if let Err(failure) = answer {
            self.reply(client, Reply::Failed(failure), Vec::new());
        }
    }

    fn reply_done(&mut self, client: ClientId, answer: Answer) {
        let reply = match answer {
            Ok(()) => Reply::Done,
            Err(failure) => Reply::Failed(failure),
        };
        self.reply(client, reply, Vec::new());
    }

    fn create_container(&mut self, id: ContainerId, config: ContainerConfig) -> Answer {
        // The same id is the same container: it was asked for twice.
        if self.containers.contains_key(&id) {
            return Ok(());
        }
        if self.stopping.is_some() {
            return Err(ShimFailure::other("the pod sandbox is being stopped"));
        }
        let directory = self.sandbox.directory.container(&id);
        let container =
            Container::create(id.clone(), config, directory, &self.sandbox.cgroup).map_err(ShimFailure::other)?;
        self.containers.insert(id, container);
        self.changed();
        Ok(())
    }

    fn start_container(&mut self, id: &ContainerId) -> Answer {
        if self.stopping.is_some() {
            return Err(ShimFailure::other("the pod sandbox is being stopped"));
        }
        let result = self.with_container(id, |container, context| {
            let is_new = container.state.started_at.is_none() && container.state.exit.is_none();
            // It runs, or has run: a start that is repeated changes nothing.
            if is_new { container.start(context) } else { Ok(()) }
        });
        let result = result.ok_or_else(|| not_found(id))?;
        self.changed();
        self.watch_outputs(id);
        result
    }

    fn signal_container(&mut self, id: &ContainerId, signal: ShimSignal) -> Answer {
        let container = self.containers.get(id).ok_or_else(|| not_found(id))?;
        let Some(running) = &container.running else { return Ok(()) };
        match signal {
            ShimSignal::KillAll => container.kill().map_err(ShimFailure::other),
            ShimSignal::Stop { named } => {
                let name = named.as_deref().unwrap_or(&container.config.stop_signal);
                // A name that nobody knows must not keep a container from being stopped.
                let number = signal_number(name).unwrap_or(libc::SIGTERM);
                sys::signal::send(running.pid, number)
                    .map_err(|error| ShimFailure::other(format!("failed to send signal {number}: {error}")))
            }
        }
    }

    fn remove_container(&mut self, id: &ContainerId, keep_logs: bool) -> Answer {
        let Some(container) = self.containers.get(id) else { return Ok(()) };
        if container.running.is_some() {
            return Err(ShimFailure::other("the container is running\nhint: stop it first"));
        }
        container.directory.remove(&container.config, keep_logs).map_err(ShimFailure::other)?;
        self.containers.remove(id);
        self.changed();
        Ok(())
    }

    fn limit_container(&mut self, id: &ContainerId, resources: LinuxResources) -> Answer {
        let container = self.containers.get_mut(id).ok_or_else(|| not_found(id))?;
        container.change_limits(resources).map_err(ShimFailure::other)
    }

    fn send_network_namespace(&mut self, client: ClientId) {
        match File::open("/proc/self/ns/net") {
            Ok(file) => self.reply(client, Reply::NetworkNamespace, vec![OwnedFd::from(file)]),
            Err(error) => {
                let failure = ShimFailure::other(format!("failed to open the network namespace: {error}"));
                self.reply(client, Reply::Failed(failure), Vec::new());
            }
        }
    }

    fn exec(&mut self, client: ClientId, id: &ContainerId, request: &ExecRequest) -> Answer {
        // The time begins when it is asked for, not when the program is up.
        let deadline = request.timeout.map(|timeout| Instant::now() + timeout);
        let started = self.with_container(id, |container, context| container.exec(request, context));
        let started = started.ok_or_else(|| not_found(id))??;
        self.execs.insert(started.pid, RunningExec { client, deadline, has_timed_out: false });
        self.reply(client, Reply::Streams(started.streams), started.descriptors);
        Ok(())
    }

    fn attach(&mut self, client: ClientId, id: &ContainerId, request: &AttachRequest) -> Answer {
        let container = self.containers.get(id).ok_or_else(|| not_found(id))?;
        let Some(running) = &container.running else {
            return Err(ShimFailure::new(FailureKind::NotRunning, "the container is not running"));
        };
        let mut streams = request.streams;
        streams.terminal = container.config.tty;
        // A container without `stdin: true` has none to attach to, and a terminal has one output.
        streams.stdin &= running.stdin.is_some();
        streams.stderr &= !container.config.tty;
        let stdin = running.stdin.as_ref().filter(|_| streams.stdin || streams.terminal);
        let mut descriptors = Vec::new();
        if let Some(stdin) = stdin {
            descriptors.push(stdin.try_clone().map_err(ShimFailure::other)?);
        }
        let (readers, writers) = attach_pipes(streams).map_err(ShimFailure::other)?;
        descriptors.extend(readers);
        for (stream, writer) in writers {
            self.sinks.add(client, id.clone(), stream, writer);
        }
        self.attached.insert(client, id.clone());
        self.reply(client, Reply::Streams(streams), descriptors);
        Ok(())
    }

    fn stop(&mut self, client: ClientId) {
        self.stopping = Some(client);
        for container in self.containers.values().filter(|container| container.running.is_some()) {
            if let Err(error) = container.kill() {
                tracing::error!(container = %container.id, %error, "failed to kill a container");
            }
        }
        self.changed();
    }
}

/// Pipes for the outputs of an attached client: the readers in the order of the protocol, and the writers.
#[expect(clippy::type_complexity, reason = "two lists that are split at once")]
fn attach_pipes(streams: StreamSet) -> std::io::Result<(Vec<OwnedFd>, Vec<(OutputStream, OwnedFd)>)> {
    let mut readers = Vec::new();
    let mut writers = Vec::new();
    for (stream, is_wanted) in [(OutputStream::Stdout, streams.stdout), (OutputStream::Stderr, streams.stderr)] {
        if is_wanted {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            // A bigger pipe is a kindness to slow readers; the limit for it may be lower.
            let _ = fcntl_setpipe_size(&writer, ATTACH_PIPE_BYTES);
            set_nonblocking(std::os::fd::AsFd::as_fd(&writer))?;
            readers.push(reader);
            writers.push((stream, writer));
        }
    }
    Ok((readers, writers))
}

fn not_found(id: &ContainerId) -> ShimFailure {
    ShimFailure::new(FailureKind::NotFound, format!("there is no container `{id}`"))
}
