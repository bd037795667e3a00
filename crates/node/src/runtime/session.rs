//! A process run in a container, and a look at a container's own streams.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use lifecycle::SandboxId;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::connection::Connection;
use super::error::RuntimeError;
use super::streams::{ProcessInput, ProcessOutput, Terminal, input, output, terminal_streams};
use crate::shim::protocol::{ExecExit, Reply, Request, StreamSet};

/// How long the output of a process that has ended is read, if a child of its holds it open.
const DRAIN_PATIENCE: Duration = Duration::from_millis(500);

/// What to run in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecConfig {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether it has a terminal; then `stderr` is part of `stdout`.
    pub tty: bool,
    /// Whether it can be written to.
    pub stdin: bool,
    /// Whether its standard output is wanted.
    pub stdout: bool,
    /// Whether its standard error is wanted.
    pub stderr: bool,
    /// After which it is killed.
    pub timeout: Option<Duration>,
}

/// Which streams of a container to attach to. With a terminal there is one output, `stdout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachConfig {
    /// Its standard input, if it has one.
    pub stdin: bool,
    /// Its standard output from here on.
    pub stdout: bool,
    /// Its standard error from here on.
    pub stderr: bool,
}

/// A process that runs in a container beside its first. To drop it leaves the process alone.
#[derive(Debug)]
pub struct ExecSession {
    /// To write to, if asked for.
    pub stdin: Option<ProcessInput>,
    /// To read from, if asked for.
    pub stdout: Option<ProcessOutput>,
    /// To read from, if asked for and there is no terminal.
    pub stderr: Option<ProcessOutput>,
    /// Its terminal, if it has one.
    pub terminal: Option<Terminal>,
    sandbox: SandboxId,
    connection: Connection,
}

/// A look at a container's own streams. To drop it detaches.
#[derive(Debug)]
pub struct AttachSession {
    /// To write to, if asked for and the container has one.
    pub stdin: Option<ProcessInput>,
    /// To read from, if asked for. Ends when the container does, or when its reader falls megabytes behind.
    pub stdout: Option<ProcessOutput>,
    /// To read from, if asked for and there is no terminal.
    pub stderr: Option<ProcessOutput>,
    /// The container's terminal, if it has one.
    pub terminal: Option<Terminal>,
    connection: Connection,
}

/// What a process wrote and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedExec {
    /// How it ended.
    pub exit: ExecExit,
    /// Standard output, then standard error, together cut at the limit.
    pub output: Vec<u8>,
    /// How much of `output` is standard output.
    pub standard_output_bytes: usize,
}

impl CapturedExec {
    /// The part of the output that is standard error.
    pub fn standard_error(&self) -> &[u8] {
        self.output.get(self.standard_output_bytes..).unwrap_or_default()
    }
}

impl ExecConfig {
    pub(super) fn streams(&self) -> StreamSet {
        StreamSet { stdin: self.stdin, stdout: self.stdout, stderr: self.stderr && !self.tty, terminal: self.tty }
    }
}

impl ExecSession {
    pub(super) fn new(
        sandbox: SandboxId,
        connection: Connection,
        streams: StreamSet,
        sent: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let mut sent = sent.into_iter();
        let mut session = ExecSession { stdin: None, stdout: None, stderr: None, terminal: None, sandbox, connection };
        if streams.terminal {
            let (stdin, stdout, terminal) = terminal_streams(next(&mut sent)?)?;
            session.stdin = streams.stdin.then_some(stdin);
            session.stdout = Some(stdout);
            session.terminal = Some(terminal);
            return Ok(session);
        }
        if streams.stdin {
            session.stdin = Some(input(next(&mut sent)?)?);
        }
        if streams.stdout {
            session.stdout = Some(output(next(&mut sent)?)?);
        }
        if streams.stderr {
            session.stderr = Some(output(next(&mut sent)?)?);
        }
        Ok(session)
    }

    /// Waits for the end of the process. Its output may have more to read.
    pub async fn wait(&mut self) -> Result<ExecExit, RuntimeError> {
        match self.connection.receive().await.map_err(RuntimeError::unreachable(&self.sandbox))?.reply {
            Reply::Ended(exit) => Ok(exit),
            other => Err(RuntimeError::Refused(format!("an unexpected answer to exec: {other:?}"))),
        }
    }

    /// Reads all that the process writes and waits for its end.
    pub(super) async fn capture(mut self, limit_bytes: usize) -> Result<CapturedExec, RuntimeError> {
        let mut stdout = Capture::new(self.stdout.take(), limit_bytes);
        let mut stderr = Capture::new(self.stderr.take(), limit_bytes);
        let exit = {
            let reading = async { tokio::join!(stdout.read(), stderr.read()) };
            tokio::pin!(reading);
            let mut is_read = false;
            let exit = loop {
                tokio::select! {
                    exit = self.wait() => break exit?,
                    _ = &mut reading, if !is_read => is_read = true,
                }
            };
            if !is_read {
                // Who holds the output open now is not the process that was run.
                let _ = tokio::time::timeout(DRAIN_PATIENCE, reading).await;
            }
            exit
        };
        let mut output = stdout.bytes;
        let standard_output_bytes = output.len();
        output.append(&mut stderr.bytes);
        output.truncate(limit_bytes);
        Ok(CapturedExec { exit, output, standard_output_bytes })
    }
}

impl AttachSession {
    pub(super) fn new(connection: Connection, streams: StreamSet, sent: Vec<OwnedFd>) -> io::Result<Self> {
        let mut sent = sent.into_iter();
        let mut session = AttachSession { stdin: None, stdout: None, stderr: None, terminal: None, connection };
        if streams.terminal {
            let (stdin, _, terminal) = terminal_streams(next(&mut sent)?)?;
            session.stdin = streams.stdin.then_some(stdin);
            session.terminal = Some(terminal);
        } else if streams.stdin {
            session.stdin = Some(input(next(&mut sent)?)?);
        }
        if streams.stdout {
            session.stdout = Some(output(next(&mut sent)?)?);
        }
        if streams.stderr {
            session.stderr = Some(output(next(&mut sent)?)?);
        }
        Ok(session)
    }

    /// Says that no more input comes: with `stdinOnce` the container's input ends.
    pub async fn close_stdin(&mut self) -> io::Result<()> {
        self.stdin = None;
        self.connection.send(Request::CloseStdin).await
    }

    /// Waits until the container has ended and its output has been taken, or the shim is gone.
    pub async fn wait(&mut self) {
        // Either way there is nothing to be attached to any more.
        let _ = self.connection.receive().await;
    }
}

fn next(sent: &mut impl Iterator<Item = OwnedFd>) -> io::Result<OwnedFd> {
    sent.next().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the shim sent too few descriptors"))
}

/// Reads a stream to its end and keeps its beginning.
struct Capture {
    stream: Option<ProcessOutput>,
    bytes: Vec<u8>,
    limit_bytes: usize,
}

impl Capture {
    fn new(stream: Option<ProcessOutput>, limit_bytes: usize) -> Self {
        Capture { stream, bytes: Vec::new(), limit_bytes }
    }

    async fn read(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        if read_to_end(stream, &mut self.bytes, self.limit_bytes).await.is_err() {
            tracing::debug!("the output of a process ends with an error");
        }
    }
}

async fn read_to_end(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>, limit_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let room = limit_bytes.saturating_sub(bytes.len());
        // The rest is read all the same: a process that cannot write does not end.
        bytes.extend(buffer.iter().take(length.min(room)));
    }
}
