//! What the server needs of whoever runs the pods: logs, exec, attach, port-forward.
//!
//! [`Streams`] is implemented outside of this crate (the binary joins it to the node).
//! The server does everything that faces the client: it checks the request against the pod, upgrades the connection,
//! speaks WebSocket or SPDY, and carries bytes.
//!
//! - `channels`: exec and attach over WebSocket (`v5.channel.k8s.io` and its elders)
//! - `spdy`: the SPDY/3.1 codec and sessions, raw or tunnelled in a WebSocket
//! - `forward`: port-forward over all of them
//! - `session`: what is the same over every transport; `terminal`: it over SPDY; `upgrade`: which one the client wants

mod channels;
mod forward;
mod session;
pub mod spdy;
mod terminal;
pub(crate) mod upgrade;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::error::ApiError;

/// Names the pod that a stream is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid of the pod that the server looked at.
    pub uid: String,
}

/// Which log lines are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container.
    pub container: String,
    /// True to go on with what is yet to come.
    pub follow: bool,
    /// True for the instance before the last.
    pub previous: bool,
    /// Only lines from this time on.
    pub since: Option<jiff::Timestamp>,
    /// True to lead each line with its time.
    pub timestamps: bool,
    /// Only so many of the last lines.
    pub tail_lines: Option<u64>,
    /// Only so many bytes.
    pub limit_bytes: Option<u64>,
}

/// A command to run in a container, or the container's own process to attach to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The container.
    pub container: String,
    /// The command; empty to attach.
    pub command: Vec<String>,
    /// True if standard input is wanted.
    pub stdin: bool,
    /// True if standard output is wanted.
    pub stdout: bool,
    /// True if standard error is wanted; never with a terminal.
    pub stderr: bool,
    /// True for a terminal.
    pub tty: bool,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Something to read bytes from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Something to write bytes to.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// A client's ends of a session. Those that were not asked for are absent.
pub struct Terminal {
    /// What the client sends; ends when the client has ended it.
    pub stdin: Option<Input>,
    /// Where standard output goes.
    pub stdout: Option<Output>,
    /// Where standard error goes.
    pub stderr: Option<Output>,
    /// The client's sizes, the first one soon after the start.
    pub resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// A session that can start: given the client's ends it runs until the process ends, and gives the exit code.
///
/// An error is one of starting or of the connection to the process; a command that fails is an exit code.
pub type Session = Box<dyn FnOnce(Terminal) -> BoxFuture<'static, Result<i32, ApiError>> + Send>;

/// A connection to a port: what it sends, and where to send to.
pub struct Connection {
    /// What the port sends.
    pub reader: Input,
    /// What is sent to the port; shutting it down ends that half alone.
    pub writer: Output,
}

/// The lines of a log, in pieces of any size.
pub type LogStream = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// Whoever runs the pods.
///
/// Every error is shown to the client as it is.
pub trait Streams: Send + Sync {
    /// Opens a container's log.
    fn log(&self, pod: PodName, options: LogOptions) -> BoxFuture<'_, Result<LogStream, ApiError>>;
    /// Prepares a command; nothing runs until the session is called. Errors here are told before the upgrade.
    fn exec(&self, pod: PodName, options: ExecOptions) -> BoxFuture<'_, Result<Session, ApiError>>;
    /// Prepares to attach to the container's own process.
    fn attach(&self, pod: PodName, options: ExecOptions) -> BoxFuture<'_, Result<Session, ApiError>>;
    /// Connects to a port on the pod's loopback. The error's text is shown to the client.
    fn connect(&self, pod: PodName, port: u16) -> BoxFuture<'_, Result<Connection, ApiError>>;
}
