//! A client's connection, as the shim sees it: never waited for, bounded in both directions.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::poller::Token;
use super::protocol::{DESCRIPTORS_MAX, HEAD_BYTES, Reply, ReplyFrame, RequestFrame, decode, encode, frame_length};

/// What a client may leave unread before it is cut off.
const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// What is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Names a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(crate) u64);

/// A client's connection.
pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) token: Token,
    input: Vec<u8>,
    output: VecDeque<OutgoingFrame>,
    /// True if it is told of every change.
    pub(crate) is_watching: bool,
    /// True once the connection is to be closed when all is sent.
    pub(crate) is_finished: bool,
}

struct OutgoingFrame {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
    is_snapshot: bool,
}

/// What reading from a client gave.
pub(crate) enum Incoming {
    /// Whole requests, and whether the client has gone.
    Requests(Vec<RequestFrame>, bool),
    /// Nothing that can be understood; the text is for the client.
    Garbage(String),
}

impl Client {
    /// Takes a connection that does not block.
    pub(crate) fn new(stream: UnixStream, token: Token) -> Self {
        Client { stream, token, input: Vec::new(), output: VecDeque::new(), is_watching: false, is_finished: false }
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) -> Incoming {
        let mut requests = Vec::new();
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Incoming::Requests(requests, true),
                Ok(length) => self.input.extend(buffer.iter().take(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Incoming::Requests(requests, false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Incoming::Requests(requests, true),
            }
            loop {
                match self.take_request() {
                    Ok(Some(request)) => requests.push(request),
                    Ok(None) => break,
                    Err(error) => return Incoming::Garbage(format!("not a request: {error}")),
                }
            }
        }
    }

    fn take_request(&mut self) -> io::Result<Option<RequestFrame>> {
        let Some((head, rest)) = self.input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = frame_length(*head)?;
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let request = decode(content)?;
        self.input.drain(..HEAD_BYTES + length);
        Ok(Some(request))
    }

    /// Queues an answer; a snapshot takes the place of one that has not been sent yet.
    pub(crate) fn send(&mut self, frame: &ReplyFrame, descriptors: Vec<OwnedFd>) {
        debug_assert!(descriptors.len() <= DESCRIPTORS_MAX);
        let is_snapshot = matches!(frame.reply, Reply::Snapshot(_));
        if is_snapshot {
            self.output.retain(|frame| !frame.is_snapshot || frame.sent > 0);
        }
        match encode(frame) {
            Ok(bytes) => self.output.push_back(OutgoingFrame { bytes, sent: 0, descriptors, is_snapshot }),
            Err(error) => {
                tracing::error!(%error, "failed to encode an answer");
                self.is_finished = true;
            }
        }
    }

    /// Sends what can be sent; false if the client is to be cut off.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some(frame) = self.output.front_mut() {
            match frame.send(&self.stream) {
                Ok(()) if frame.sent == frame.bytes.len() => {
                    self.output.pop_front();
                }
                Ok(()) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        self.output.iter().map(|frame| frame.bytes.len()).sum::<usize>() <= OUTPUT_BYTES_MAX
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl OutgoingFrame {
    fn send(&mut self, stream: &UnixStream) -> rustix::io::Result<()> {
        let rest = self.bytes.get(self.sent..).unwrap_or_default();
        let borrowed: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let sent = sendmsg(stream, &[IoSlice::new(rest)], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.sent += sent;
        // They went with the first bytes.
        self.descriptors.clear();
        Ok(())
    }
}
