//! Connections: accept, TLS, HTTP/1.1 or HTTP/2, and an end to all of them.
//!
//! Limits: so many connections at once, so long for a handshake, so long for a request's head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::{Front, ServerOptions};
use crate::auth::{Authority, User};
use crate::registry::Registry;

/// Connections at once; further ones wait to be accepted. A client without HTTP/2 opens one for each watch.
const CONNECTIONS_MAX: usize = 4096;
/// A TLS handshake takes two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that takes longer for the head of its request, or is idle for longer, is cut off.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// What runs gets so long to end when the server does.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The API server's HTTP front.
#[derive(Clone)]
pub struct Server {
    front: Arc<Front>,
}

impl Server {
    /// A front for a registry. Call [`Server::mark_ready`] when everything behind it stands.
    pub fn new(registry: Registry, authority: Arc<Authority>, options: ServerOptions) -> Self {
        Self { front: Arc::new(Front::new(registry, authority, options)) }
    }

    /// From here on `/readyz` says so.
    pub fn mark_ready(&self) {
        self.front.mark_ready();
    }

    /// Serves the listener until the token is cancelled; then ends what runs and returns.
    pub async fn serve(&self, listener: TcpListener, tls: Arc<ServerConfig>, shutdown: CancellationToken) {
        let acceptor = TlsAcceptor::from(tls);
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let connections = TaskTracker::new();
        self.front.stop_with(&shutdown);
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = shutdown.cancelled() => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, or the client went away: neither is for ever.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (front, acceptor, shutdown) = (Arc::clone(&self.front), acceptor.clone(), shutdown.clone());
            connections.spawn(async move {
                connection(front, acceptor, stream, peer, shutdown).await;
                drop(slot);
            });
        }
        connections.close();
        if tokio::time::timeout(DRAIN_TIMEOUT, connections.wait()).await.is_err() {
            tracing::debug!("connections were still open at the end");
        }
    }
}

async fn connection(
    front: Arc<Front>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    shutdown: CancellationToken,
) {
    // Small messages go out at once; failing that they are only slower.
    drop(stream.set_nodelay(true));
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
    };
    let user = certified_user(&stream);
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, user) = (Arc::clone(&front), user.clone());
        async move { Ok::<_, std::convert::Infallible>(front.handle(request.map(Body::new), user).await) }
    });
    let io = TokioIo::new(stream);
    let served = if http2 {
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .serve_connection(io, service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

/// Who the client's certificate says it is; TLS has verified it.
fn certified_user(stream: &TlsStream<TcpStream>) -> Option<User> {
    let certificates = stream.get_ref().1.peer_certificates()?;
    User::from_certificate(certificates.first()?)
}
