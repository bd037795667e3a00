//! What agent and shim say to each other over the shim's socket.
//!
//! A connection carries one request, then its answers: one for most, a stream for watching, two for exec.
//! A frame is a length (four bytes, big-endian) and JSON; descriptors travel with the first bytes of the frame that announces them.
//! Every request names the protocol's version, because a shim outlives the program that started it and may be asked by a newer one.
//! Both sides bound what they read: a frame has at most [`FRAME_BYTES_MAX`], and a client that does not read is cut off.

use std::io;
use std::time::Duration;

use lifecycle::ContainerId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::records::SandboxSnapshot;
use crate::runtime::config::{ContainerConfig, LinuxResources};

/// The version that this program speaks.
pub(crate) const VERSION: u32 = 1;
/// The longest frame: a container's environment may hold several ConfigMaps of 1 MiB.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 20;
/// The length before a frame.
pub(crate) const HEAD_BYTES: usize = 4;
/// The most descriptors that go with a frame.
pub(crate) const DESCRIPTORS_MAX: usize = 3;
/// The socket's name in the sandbox's directory.
pub(crate) const SOCKET_NAME: &str = "shim.sock";

/// What a client asks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestFrame {
    pub(crate) version: u32,
    pub(crate) request: Request,
}

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Answered by [`Reply::Snapshot`] at once and after every change, until the client goes.
    Watch,
    /// Answered by [`Reply::NetworkNamespace`] and one descriptor.
    NetworkNamespace,
    CreateContainer {
        id: ContainerId,
        config: Box<ContainerConfig>,
    },
    StartContainer {
        id: ContainerId,
    },
    SignalContainer {
        id: ContainerId,
        signal: ShimSignal,
    },
    RemoveContainer {
        id: ContainerId,
        keep_logs: bool,
    },
    LimitContainer {
        id: ContainerId,
        resources: LinuxResources,
    },
    /// Answered by [`Reply::Streams`] and descriptors, later by [`Reply::Ended`].
    Exec {
        id: ContainerId,
        exec: ExecRequest,
    },
    /// Answered by [`Reply::Streams`] and descriptors, later by [`Reply::Detached`].
    Attach {
        id: ContainerId,
        attach: AttachRequest,
    },
    /// Follows an `Attach` on the same connection: no more input comes. Not answered.
    CloseStdin,
    /// Kills what runs, forgets nothing, and ends the shim. Answered by `Done` when all is down.
    Stop,
}

/// A signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ShimSignal {
    /// To the first process: the one named here, else the container's own, else SIGTERM.
    Stop { named: Option<String> },
    /// SIGKILL to every process.
    KillAll,
}

/// A program to run beside a container's first process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecRequest {
    pub(crate) argv: Vec<String>,
    pub(crate) streams: StreamSet,
    /// After which it is killed.
    pub(crate) timeout: Option<Duration>,
}

/// A look at a container's streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttachRequest {
    pub(crate) streams: StreamSet,
}

/// Which streams; their descriptors travel in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamSet {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// A terminal takes the place of all three.
    pub(crate) terminal: bool,
}

/// An answer, and how many changes the shim had seen when it gave it.
///
/// Whoever watches waits until it has a snapshot of that generation, and then knows what the answer is about.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplyFrame {
    pub(crate) generation: u64,
    pub(crate) reply: Reply,
}

/// What a shim answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Failed(ShimFailure),
    Snapshot(SandboxSnapshot),
    NetworkNamespace,
    Streams(StreamSet),
    Ended(ExecExit),
    Detached,
}

/// How an exec ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecExit {
    /// Exit code; death by signal n is 128 + n.
    pub exit_code: i32,
    /// True if it was killed because its time was over.
    pub timed_out: bool,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShimFailure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

/// What kind of refusal it is, for who must tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FailureKind {
    /// There is no such container.
    NotFound,
    /// The container does not run.
    NotRunning,
    /// The container's program could not be started; the container's record says so too.
    StartFailed,
    /// The program to run in a container could not be started.
    ExecFailed,
    /// The other side speaks another version.
    Version,
    /// Anything else.
    Other,
}

impl ShimFailure {
    pub(crate) fn new(kind: FailureKind, message: impl ToString) -> Self {
        ShimFailure { kind, message: message.to_string() }
    }

    pub(crate) fn other(message: impl ToString) -> Self {
        ShimFailure::new(FailureKind::Other, message)
    }
}

/// A value as a frame.
pub(crate) fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD_BYTES];
    serde_json::to_writer(&mut frame, value)?;
    let length = frame.len() - HEAD_BYTES;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes, at most {FRAME_BYTES_MAX} can be sent"),
        ));
    }
    let head = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?.to_be_bytes();
    for (to, from) in frame.iter_mut().zip(head) {
        *to = from;
    }
    Ok(frame)
}

/// The length that a frame's head announces.
pub(crate) fn frame_length(head: [u8; HEAD_BYTES]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is announced, at most {FRAME_BYTES_MAX} are read"),
        ));
    }
    Ok(length)
}

/// A frame's content as a value.
pub(crate) fn decode<T: DeserializeOwned>(content: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(content)?)
}
