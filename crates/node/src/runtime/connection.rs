//! One connection to a shim: one request, then its answers and what descriptors come with them.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::UnixStream;

use crate::shim::protocol::{
    DESCRIPTORS_MAX, HEAD_BYTES, ReplyFrame, Request, RequestFrame, SOCKET_NAME, VERSION, decode, encode, frame_length,
};

/// What is read at once.
const READ_BYTES: usize = 64 * 1024;

/// A connection to a shim.
#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Connection {
    /// Connects to the shim that listens in the sandbox's directory.
    pub(super) async fn open(directory: &Path) -> io::Result<Connection> {
        // The directory's own path may be longer than the 108 bytes of a socket's address.
        let directory = File::open(directory)?;
        let path = format!("/proc/self/fd/{}/{SOCKET_NAME}", directory.as_raw_fd());
        let stream = UnixStream::connect(path).await?;
        Ok(Connection { stream, input: Vec::new(), descriptors: Vec::new() })
    }

    /// Connects and asks.
    pub(super) async fn ask(directory: &Path, request: Request) -> io::Result<Connection> {
        let mut connection = Connection::open(directory).await?;
        connection.send(request).await?;
        Ok(connection)
    }

    /// Asks.
    pub(super) async fn send(&mut self, request: Request) -> io::Result<()> {
        let frame = encode(&RequestFrame { version: VERSION, request })?;
        self.stream.write_all(&frame).await
    }

    /// Waits for the next answer.
    pub(super) async fn receive(&mut self) -> io::Result<ReplyFrame> {
        loop {
            if let Some(frame) = self.take_frame()? {
                return Ok(frame);
            }
            if self.read().await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
            }
        }
    }

    /// The descriptors that have come so far.
    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    fn take_frame(&mut self) -> io::Result<Option<ReplyFrame>> {
        let Some((head, rest)) = self.input.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = frame_length(*head)?;
        let Some(content) = rest.get(..length) else { return Ok(None) };
        let frame = decode(content)?;
        self.input.drain(..HEAD_BYTES + length);
        Ok(Some(frame))
    }

    async fn read(&mut self) -> io::Result<usize> {
        let (stream, input, descriptors) = (&self.stream, &mut self.input, &mut self.descriptors);
        stream.async_io(Interest::READABLE, || receive_once(stream, input, descriptors)).await
    }
}

fn receive_once(stream: &UnixStream, input: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; READ_BYTES];
    let received = recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut buffer)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    input.extend(buffer.iter().take(received.bytes));
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    Ok(received.bytes)
}
