//! Copies of a container's output for who is attached to it.
//!
//! A reader that falls too far behind is cut off: the container is never held up, and the log has all of it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use lifecycle::ContainerId;
use rustix::io::Errno;

use super::client::ClientId;
use super::log::OutputStream;
use super::poller::{EventFlags, Poller, Token};

/// What a reader may be behind.
const PENDING_BYTES_MAX: usize = 8 << 20;

/// One stream of one attached client.
pub(crate) struct Sink {
    pub(crate) client: ClientId,
    container: ContainerId,
    stream: OutputStream,
    descriptor: OwnedFd,
    pending: VecDeque<u8>,
    /// The registration, while something is pending.
    token: Option<Token>,
    /// True once the container has ended: what is pending is the last.
    is_closing: bool,
}

/// All sinks of a shim.
#[derive(Default)]
pub(crate) struct Sinks(Vec<Sink>);

impl Sinks {
    /// Adds a sink; the descriptor does not block.
    pub(crate) fn add(&mut self, client: ClientId, container: ContainerId, stream: OutputStream, descriptor: OwnedFd) {
        let pending = VecDeque::new();
        self.0.push(Sink { client, container, stream, descriptor, pending, token: None, is_closing: false });
    }

    /// Copies output to who is attached.
    pub(crate) fn write<S: Clone>(
        &mut self,
        container: &ContainerId,
        stream: OutputStream,
        output: &[u8],
        poller: &mut Poller<S>,
        source: impl Fn(ClientId) -> S,
    ) {
        for sink in self.0.iter_mut().filter(|sink| sink.container == *container && sink.stream == stream) {
            sink.pending.extend(output);
            sink.advance(poller, &source);
        }
        self.drop_done(poller);
    }

    /// Goes on with a client's sinks that can take more.
    pub(crate) fn advance<S: Clone>(
        &mut self,
        client: ClientId,
        poller: &mut Poller<S>,
        source: impl Fn(ClientId) -> S,
    ) {
        for sink in self.0.iter_mut().filter(|sink| sink.client == client) {
            sink.advance(poller, &source);
        }
        self.drop_done(poller);
    }

    /// The container has ended: its sinks end when what is pending has been taken.
    pub(crate) fn close<S: Clone>(&mut self, container: &ContainerId, poller: &mut Poller<S>) {
        for sink in self.0.iter_mut().filter(|sink| sink.container == *container) {
            sink.is_closing = true;
        }
        self.drop_done(poller);
    }

    /// The client has gone.
    pub(crate) fn drop_client<S: Clone>(&mut self, client: ClientId, poller: &mut Poller<S>) {
        self.drop_where(poller, |sink| sink.client == client);
    }

    /// Whether a client still has a sink.
    pub(crate) fn has(&self, client: ClientId) -> bool {
        self.0.iter().any(|sink| sink.client == client)
    }

    fn drop_done<S: Clone>(&mut self, poller: &mut Poller<S>) {
        self.drop_where(poller, Sink::is_done);
    }

    fn drop_where<S: Clone>(&mut self, poller: &mut Poller<S>, is_over: impl Fn(&Sink) -> bool) {
        for sink in self.0.extract_if(.., |sink| is_over(sink)) {
            if let Some(token) = sink.token {
                poller.remove(token, &sink.descriptor);
            }
        }
    }
}

impl Sink {
    fn advance<S: Clone>(&mut self, poller: &mut Poller<S>, source: &impl Fn(ClientId) -> S) {
        while !self.pending.is_empty() {
            let (first, _) = self.pending.as_slices();
            match rustix::io::write(&self.descriptor, first) {
                Ok(written) => {
                    self.pending.drain(..written);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    // The reader has gone.
                    self.pending.clear();
                    self.is_closing = true;
                }
            }
        }
        match (self.token, self.pending.is_empty()) {
            (None, false) => {
                self.token = poller.add(&self.descriptor, EventFlags::OUT, source(self.client)).ok();
            }
            (Some(token), true) => {
                poller.remove(token, &self.descriptor);
                self.token = None;
            }
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        (self.is_closing && self.pending.is_empty()) || self.pending.len() > PENDING_BYTES_MAX
    }
}
