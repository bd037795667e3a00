//! What the shim waits for: descriptors by what they mean.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

pub(crate) use rustix::event::epoll::EventFlags;

/// The most events that are taken at once.
const EVENTS_MAX: usize = 64;

/// Waits for descriptors, each of which has a meaning `S`.
pub(crate) struct Poller<S> {
    epoll: OwnedFd,
    sources: BTreeMap<u64, S>,
    next_token: u64,
}

/// Names a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(u64);

impl<S: Clone> Poller<S> {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, sources: BTreeMap::new(), next_token: 0 })
    }

    /// Starts waiting for a descriptor. It must be removed before it is closed if it has been duplicated.
    pub(crate) fn add(&mut self, descriptor: impl AsFd, flags: EventFlags, source: S) -> io::Result<Token> {
        let token = self.next_token;
        epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(token), flags)?;
        self.next_token += 1;
        self.sources.insert(token, source);
        Ok(Token(token))
    }

    /// Changes what is waited for.
    pub(crate) fn modify(&self, token: Token, descriptor: impl AsFd, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, epoll::EventData::new_u64(token.0), flags)?)
    }

    /// Stops waiting for a descriptor.
    pub(crate) fn remove(&mut self, token: Token, descriptor: impl AsFd) {
        self.sources.remove(&token.0);
        // It was never registered, or closing it will do.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Waits until something happens, for ever if there is no timeout.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<(S, EventFlags)>> {
        let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        let mut events = [MaybeUninit::uninit(); EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => &*events,
            Err(rustix::io::Errno::INTR) => &[],
            Err(error) => return Err(error.into()),
        };
        // A source that an earlier event of the same round has removed is gone from the map and is left out by the caller's own look-up.
        Ok(events
            .iter()
            .filter_map(|event| Some((self.sources.get(&event.data.u64())?.clone(), event.flags)))
            .collect())
    }
}
