//! GET requests of probes and hooks, and how redirects are followed (L-411, L-412, L-505).
//!
//! One connection for each request, HTTP/1.1, no proxy, no compression, any certificate.
//! Error texts are those of Go's `net/http`, which Kubernetes puts into events.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::KUBERNETES_VERSION;
use super::network::{DialError, Network};
use super::port::{PortError, resolve_port};
use super::recorded::{FirstBytes, Recorded};
use super::tls;
use super::url::{Url, UrlError};
use crate::wording;

/// So much of a body is read.
const BODY_BYTES_MAX: usize = 10 * 1024;
/// So many requests one probe makes.
const REQUESTS_MAX: usize = 10;

/// A GET request to make.
#[derive(Clone, Debug)]
pub(crate) struct Get {
    pub(crate) url: Url,
    /// The `Host` header, if it is not the URL's.
    pub(crate) host: Option<String>,
    /// All other headers.
    pub(crate) headers: Vec<(String, String)>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The beginning of the body.
    pub(crate) body: String,
}

/// Why nothing came back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// The request failed.
    #[error("Get {}: {cause}", wording::quoted(url))]
    Request { url: String, cause: RequestError },
    /// The answer began but its body could not be read.
    #[error("{0}")]
    Body(String),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("http: server gave HTTP response to HTTPS client")]
    PlainServer,
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Exchange(String),
    #[error("net/http: invalid header field {0}")]
    Header(String),
    #[error("stopped after {REQUESTS_MAX} redirects")]
    Redirects,
    #[error("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    Timeout,
}

impl Get {
    /// The request that a probe (`purpose` is `probe`) or hook (`lifecycle`) means; `default_host` stands for one that is not given.
    pub(crate) fn of_action(
        action: &HTTPGetAction,
        container: &Container,
        default_host: &str,
        purpose: &str,
    ) -> Result<Get, PortError> {
        let port = resolve_port(&action.port, container)?;
        let host = action.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(default_host);
        let is_https = action.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let url = Url::new(is_https, host, port, action.path.as_deref().unwrap_or_default());
        let given = action.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
        let mut headers: Vec<(String, String)> = given.collect();
        let first = |headers: &[(String, String)], name: &str| {
            headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        let host = first(&headers, "Host").filter(|host| !host.is_empty());
        headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Host"));
        let agent = format!("kube-{purpose}/{KUBERNETES_VERSION}");
        for (name, default) in [("User-Agent", agent.as_str()), ("Accept", "*/*")] {
            match first(&headers, name) {
                None => headers.push((name.to_owned(), default.to_owned())),
                // To give one of the two without a value is to leave it out.
                Some(value) if value.is_empty() => headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name)),
                Some(_) => {}
            }
        }
        Ok(Get { url, host, headers })
    }

    /// Sends it, follows redirects and reads the beginning of the answer's body, all within a time.
    pub(crate) async fn fetch(&self, network: &Network, timeout: Duration) -> Result<Answer, GetError> {
        let deadline = Instant::now() + timeout;
        let (response, _connection) = self.send(network, Some(deadline)).await?;
        read_body(response, deadline).await
    }

    /// Sends it and follows redirects to the same host; an answer that leads elsewhere is given back as it is.
    pub(crate) async fn send(
        &self,
        network: &Network,
        deadline: Option<Instant>,
    ) -> Result<(Response<Incoming>, Connection), GetError> {
        let mut current = self.clone();
        let mut requests = 0;
        loop {
            requests += 1;
            let failed = |cause| GetError::Request { url: current.url.to_string(), cause };
            let exchange = within(deadline, current.exchange(network)).await;
            let (response, connection) = exchange.unwrap_or(Err(RequestError::Timeout)).map_err(failed)?;
            let Some(location) = location(&response) else { return Ok((response, connection)) };
            let next = current.url.join(&location).map_err(|cause| failed(cause.into()))?;
            if next.host != self.url.host {
                return Ok((response, connection));
            }
            if requests >= REQUESTS_MAX {
                return Err(GetError::Request { url: location, cause: RequestError::Redirects });
            }
            current.follow(next, &location);
        }
    }

    /// Becomes the request that a redirect asks for, as Go's client makes it.
    fn follow(&mut self, next: Url, location: &str) {
        if location.contains("://") || location.starts_with("//") {
            self.host = None;
        }
        // Where a page was reached over TLS is told to nobody in the clear.
        if !self.url.is_https || next.is_https {
            self.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("Referer"));
            self.headers.push(("Referer".to_owned(), self.url.to_string()));
        }
        self.url = next;
    }

    async fn exchange(&self, network: &Network) -> Result<(Response<Incoming>, Connection), RequestError> {
        let stream = network.connect(&self.url.host, self.url.port()).await?;
        let ends = ends(&stream);
        if !self.url.is_https {
            return self.exchange_on(stream, &ends).await;
        }
        let (recorded, first) = Recorded::new(stream);
        let config = tls::client_config().map_err(|error| RequestError::Tls(format!("tls: {error}")))?;
        let name =
            ServerName::try_from(self.url.host.clone()).map_err(|error| RequestError::Tls(format!("tls: {error}")))?;
        match tokio_rustls::TlsConnector::from(config).connect(name, recorded).await {
            Ok(stream) => self.exchange_on(stream, &ends).await,
            Err(error) => Err(handshake_error(&error, &first)),
        }
    }

    async fn exchange_on<S>(&self, stream: S, ends: &str) -> Result<(Response<Incoming>, Connection), RequestError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let request = self.http_request()?;
        let (stream, first) = Recorded::new(stream);
        let explain = |error: hyper::Error| RequestError::Exchange(exchange_error(&error, &first, ends));
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .title_case_headers(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(explain)?;
        let connection = Connection { _task: AbortOnDropHandle::new(tokio::spawn(connection)) };
        let response = sender.send_request(request).await.map_err(explain)?;
        Ok((response, connection))
    }

    fn http_request(&self) -> Result<Request<Empty<Bytes>>, RequestError> {
        let mut headers = HeaderMap::new();
        let host = self.host.clone().unwrap_or_else(|| self.url.authority());
        for (name, value) in std::iter::once(("Host".to_owned(), host)).chain(self.headers.iter().cloned()) {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| RequestError::Header(format!("name {}", wording::quoted(&name))))?;
            let value = HeaderValue::from_str(&value)
                .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
                .map_err(|_| RequestError::Header(format!("value for {}", wording::quoted(&name))))?;
            headers.append(header, value);
        }
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.url.request_target().parse().map_err(|error: http::uri::InvalidUri| {
            RequestError::Exchange(format!("invalid URI for request: {error}"))
        })?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Keeps a connection going; dropped, it is closed.
pub(crate) struct Connection {
    _task: AbortOnDropHandle<Result<(), hyper::Error>>,
}

/// `None` once the deadline has passed.
async fn within<F: Future>(deadline: Option<Instant>, future: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

/// Where a redirect leads; one that does not say so is an answer like any other.
fn location(response: &Response<Incoming>) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?;
    let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
    (!location.is_empty()).then_some(location)
}

async fn read_body(response: Response<Incoming>, deadline: Instant) -> Result<Answer, GetError> {
    let (head, mut body) = response.into_parts();
    let mut read = Vec::new();
    while read.len() < BODY_BYTES_MAX {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => read.extend_from_slice(frame.data_ref().map_or(&[], Bytes::as_ref)),
            Ok(Some(Err(error))) => return Err(GetError::Body(body_error(&error))),
            Ok(None) => break,
            Err(_) => {
                let text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
                return Err(GetError::Body(text.to_owned()));
            }
        }
    }
    read.truncate(BODY_BYTES_MAX);
    Ok(Answer { status: head.status, body: String::from_utf8_lossy(&read).into_owned() })
}

/// Both ends of a connection as Go names them: `127.0.0.1:40000->127.0.0.1:80`.
fn ends(stream: &TcpStream) -> String {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => format!("{local}->{peer}"),
        _ => String::new(),
    }
}

fn handshake_error(error: &io::Error, first: &FirstBytes) -> RequestError {
    let first = first.get();
    if first.starts_with(b"HTTP/") {
        return RequestError::PlainServer;
    }
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return RequestError::Tls("EOF".to_owned());
    }
    // A record of the handshake begins with its type, 22; an alert with 21.
    let is_record = first.first().is_none_or(|kind| matches!(kind, 21 | 22));
    RequestError::Tls(match is_record {
        true => format!("tls: {}", wording::io_error(error)),
        false => "tls: first record does not look like a TLS handshake".to_owned(),
    })
}

fn exchange_error(error: &hyper::Error, first: &FirstBytes, ends: &str) -> String {
    if let Some(cause) = io_cause(error) {
        return format!("read tcp {ends}: read: {}", wording::io_error(cause));
    }
    let first = first.get();
    if first.is_empty() {
        return "EOF".to_owned();
    }
    if error.is_parse() {
        let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = wording::quoted_bytes(line);
        return format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response {line}");
    }
    "unexpected EOF".to_owned()
}

fn body_error(error: &hyper::Error) -> String {
    match io_cause(error) {
        Some(cause) if cause.kind() != io::ErrorKind::UnexpectedEof => wording::io_error(cause),
        _ => "unexpected EOF".to_owned(),
    }
}

fn io_cause(error: &hyper::Error) -> Option<&io::Error> {
    let first = std::error::Error::source(error);
    std::iter::successors(first, |cause| cause.source()).find_map(|cause| cause.downcast_ref())
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
