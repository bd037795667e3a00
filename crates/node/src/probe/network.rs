//! Connections into a pod: sockets made in its network namespace.
//!
//! A thread that enters another namespace must never go back to a pool, so each socket is made by a short-lived thread of its own.
//! The socket stays in the namespace that it was made in; the runtime's threads connect, read and write it as any other.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use rustix::thread::LinkNameSpaceType;
use tokio::net::{TcpSocket, TcpStream};

use crate::wording;

/// Whose network a connection is made in.
#[derive(Clone, Debug)]
pub enum Network {
    /// The node's.
    Node,
    /// The network namespace that the descriptor names.
    Namespace(Arc<OwnedFd>),
}

/// Why there is no connection; the text is that of Go's `net.OpError`.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The host's name has no address.
    #[error("dial tcp: lookup {host}: no such host")]
    Lookup {
        /// The name.
        host: String,
    },
    /// No socket could be made.
    #[error("dial tcp {address}: socket: {}", wording::io_error(source))]
    Socket {
        /// Where to.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// Nobody answered, or somebody refused.
    #[error("dial tcp {address}: connect: {}", wording::io_error(source))]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// Nobody answered in time.
    #[error("dial tcp {address}: i/o timeout")]
    Timeout {
        /// Where to, as it was named.
        address: String,
    },
}

impl Network {
    /// Connects to a host by name or address; every address of a name is tried.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        let mut failure = DialError::Lookup { host: host.to_owned() };
        for address in addresses(host, port).await {
            match self.connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// As [`Network::connect`], within a time.
    pub async fn connect_within(&self, timeout: Duration, host: &str, port: u16) -> Result<TcpStream, DialError> {
        match tokio::time::timeout(timeout, self.connect(host, port)).await {
            Ok(connected) => connected,
            Err(_) => Err(DialError::Timeout { address: wording::host_port(host, port) }),
        }
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<TcpStream, DialError> {
        let socket = match self {
            Network::Node if address.is_ipv4() => TcpSocket::new_v4(),
            Network::Node => TcpSocket::new_v6(),
            Network::Namespace(namespace) => socket_in(Arc::clone(namespace), address.is_ipv4()).await,
        };
        let socket = socket.map_err(|source| DialError::Socket { address, source })?;
        socket.connect(address).await.map_err(|source| DialError::Connect { address, source })
    }
}

async fn addresses(host: &str, port: u16) -> Vec<SocketAddr> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return vec![SocketAddr::new(address, port)];
    }
    // A name that cannot be looked up has no address.
    tokio::net::lookup_host((host, port)).await.map(Iterator::collect).unwrap_or_default()
}

async fn socket_in(namespace: Arc<OwnedFd>, is_ipv4: bool) -> io::Result<TcpSocket> {
    let (give, take) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("netns-socket".to_owned()).spawn(move || {
        // The receiver is gone if the attempt was given up meanwhile.
        let _ = give.send(make_socket(&namespace, is_ipv4));
    })?;
    let socket = take.await.map_err(|_| io::Error::other("the thread that makes the socket died"))??;
    Ok(TcpSocket::from_std_stream(std::net::TcpStream::from(socket)))
}

/// Changes the namespace of the calling thread, for good.
fn make_socket(namespace: &OwnedFd, is_ipv4: bool) -> io::Result<OwnedFd> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    let family = if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn own_namespace() -> io::Result<Network> {
        Ok(Network::Namespace(Arc::new(std::fs::File::open("/proc/self/ns/net")?.into())))
    }

    #[tokio::test]
    async fn a_namespace_is_reached_by_its_descriptor() -> Result {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        for network in [Network::Node, own_namespace()?] {
            let connected = network.connect("127.0.0.1", port).await;
            if let Err(DialError::Socket { source, .. }) = &connected
                && source.kind() == io::ErrorKind::PermissionDenied
            {
                skipped("no right to enter a network namespace");
                return Ok(());
            }
            connected?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn failures_have_gos_words() -> Result {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        drop(listener);
        let refused = Network::Node.connect("127.0.0.1", address.port()).await.map_err(|error| error.to_string());
        assert_eq!(refused.err(), Some(format!("dial tcp {address}: connect: connection refused")));
        let unknown = Network::Node.connect("no.such.host.invalid", 80).await.map_err(|error| error.to_string());
        assert_eq!(unknown.err().as_deref(), Some("dial tcp: lookup no.such.host.invalid: no such host"));
        Ok(())
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
    fn skipped(why: &str) {
        eprintln!("skipped: {why}");
    }
}
