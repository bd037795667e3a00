//! `grpc`: one call of `grpc.health.v1.Health/Check`, plaintext (L-413).
//!
//! The two messages have one field each, so they are written and read by hand; the call itself is HTTP/2 with three headers.
//! Like the client that the kubelet uses, a connection is tried again until the time is up.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lifecycle::input::ProbeOutcome;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::KUBERNETES_VERSION;
use super::network::Network;
use super::recorded::{FirstBytes, Recorded};
use crate::wording;

/// The wait between two tries to connect.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// A health response has two bytes; what is longer is none.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The codes that are told apart; the others go by number.
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The status of a call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Status {
    code: u32,
    message: String,
}

/// How a try ended.
enum Call {
    /// The server's `status` field.
    Answered(u64),
    Failed(Status),
    /// There was no HTTP/2 connection.
    NotConnected,
}

pub(super) async fn attempt(
    network: &Network,
    host: &str,
    port: u16,
    service: &str,
    timeout: Duration,
) -> ProbeOutcome {
    let deadline = Instant::now() + timeout;
    let address = wording::host_port(host, port);
    let within = wording::seconds(timeout.as_secs());
    loop {
        let mut connected = None;
        let call = call(network, host, port, service, deadline, &mut connected);
        match tokio::time::timeout_at(deadline, call).await {
            Ok(Call::Answered(status)) => return of_health(status),
            Ok(Call::Failed(status)) => return of_status(&status, &within),
            Ok(Call::NotConnected) => {}
            // The server's first frame tells a server that is slow from one that is not there.
            Err(_) if connected.is_some_and(|first: FirstBytes| !first.get().is_empty()) => {
                return of_status(&Status { code: DEADLINE_EXCEEDED, message: String::new() }, &within);
            }
            Err(_) => {}
        }
        if Instant::now() + RECONNECT_AFTER >= deadline {
            tokio::time::sleep_until(deadline).await;
            return ProbeOutcome::Failure(format!(
                "timeout: failed to connect service \"{address}\" within {within}: context deadline exceeded"
            ));
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

fn of_health(status: u64) -> ProbeOutcome {
    let name = match status {
        1 => return ProbeOutcome::Success,
        0 => "UNKNOWN".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    };
    ProbeOutcome::Failure(format!("service unhealthy (responded with \"{name}\")"))
}

fn of_status(status: &Status, within: &str) -> ProbeOutcome {
    let message = &status.message;
    ProbeOutcome::Failure(match status.code {
        UNIMPLEMENTED => {
            format!("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}")
        }
        DEADLINE_EXCEEDED => format!("timeout: health rpc did not complete within {within}"),
        code => {
            let index = usize::try_from(code).unwrap_or(usize::MAX);
            let name = CODES.get(index).map_or_else(|| format!("Code({code})"), |name| (*name).to_owned());
            format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}")
        }
    })
}

async fn call(
    network: &Network,
    host: &str,
    port: u16,
    service: &str,
    deadline: Instant,
    connected: &mut Option<FirstBytes>,
) -> Call {
    let Ok(stream) = network.connect(host, port).await else { return Call::NotConnected };
    let (stream, first) = Recorded::new(stream);
    *connected = Some(first.clone());
    match exchange(stream, &wording::host_port(host, port), service, deadline).await {
        Ok(call) => call,
        Err(_) if !looks_like_http2(&first.get()) => Call::NotConnected,
        Err(error) => Call::Failed(Status { code: 14, message: error.to_string() }),
    }
}

/// A server's first frame is SETTINGS, type 4, on stream 0 (RFC 9113, section 3.4).
fn looks_like_http2(first: &[u8]) -> bool {
    matches!(first, [_, _, _, 4, _, 0, 0, 0, 0, ..])
}

async fn exchange(
    stream: Recorded<TcpStream>,
    address: &str,
    service: &str,
    deadline: Instant,
) -> Result<Call, hyper::Error> {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let Some(request) = request(address, service, deadline) else { return Ok(Call::NotConnected) };
    let response = sender.send_request(request).await?;
    read(response).await
}

fn request(address: &str, service: &str, deadline: Instant) -> Option<Request<Full<Bytes>>> {
    let milliseconds = deadline.saturating_duration_since(Instant::now()).as_millis().min(99_999_999);
    Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, format!("kube-probe/{KUBERNETES_VERSION}"))
        .header("grpc-timeout", format!("{milliseconds}m"))
        .body(Full::new(message(&health_request(service))))
        .ok()
}

async fn read(response: Response<Incoming>) -> Result<Call, hyper::Error> {
    let (head, mut body) = response.into_parts();
    if let Some(status) = status_of(&head.headers) {
        return Ok(finished(status, &[]));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if head.status != StatusCode::OK || !content_type.starts_with(b"application/grpc") {
        return Ok(Call::Failed(of_http(head.status, content_type)));
    }
    let (mut data, mut trailers) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(bytes) => data.extend_from_slice(&bytes),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if data.len() > RESPONSE_BYTES_MAX {
            let message = "received message larger than max".to_owned();
            return Ok(Call::Failed(Status { code: 8, message }));
        }
    }
    let status = trailers.as_ref().and_then(status_of);
    let missing = || Status { code: 13, message: "server closed the stream without sending trailers".to_owned() };
    Ok(finished(status.unwrap_or_else(missing), &data))
}

fn finished(status: Status, data: &[u8]) -> Call {
    if status.code != 0 {
        return Call::Failed(status);
    }
    match data.split_first_chunk::<5>().map(|(prefix, message)| (prefix, health_status(message))) {
        // A message that is compressed was never asked for.
        Some(([0, ..], Some(status))) => Call::Answered(status),
        _ => Call::Failed(Status { code: 13, message: "cannot read the health response".to_owned() }),
    }
}

/// `grpc-status` and `grpc-message`; the message is percent-encoded.
fn status_of(headers: &HeaderMap) -> Option<Status> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().unwrap_or(2);
    let message = headers.get("grpc-message").map(HeaderValue::as_bytes).unwrap_or_default();
    Some(Status { code, message: percent_decoded(message) })
}

/// A server that speaks HTTP/2 but not gRPC.
fn of_http(status: StatusCode, content_type: &[u8]) -> Status {
    let code = match status.as_u16() {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => UNIMPLEMENTED,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    };
    let reason = status.canonical_reason().unwrap_or_default();
    let mut message = format!("unexpected HTTP status code received from server: {} ({reason})", status.as_u16());
    if !content_type.starts_with(b"application/grpc") {
        let content_type = wording::quoted_bytes(content_type);
        message += &format!("; transport: received unexpected content-type {content_type}");
    }
    Status { code, message }
}

fn percent_decoded(text: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let hexadecimal = after.split_first_chunk::<2>().and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        match (byte, hexadecimal) {
            (b'%', Some((value, after))) => {
                decoded.push(value);
                rest = after;
            }
            _ => {
                decoded.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// A message with its prefix: not compressed, length.
fn message(payload: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(payload.len() + 5);
    message.put_u8(0);
    message.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    message.put_slice(payload);
    message.freeze()
}

/// `HealthCheckRequest { string service = 1; }`
fn health_request(service: &str) -> Vec<u8> {
    if service.is_empty() {
        return Vec::new();
    }
    let mut encoded = vec![0x0a];
    let mut length = service.len();
    while length >= 0x80 {
        encoded.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    encoded.push(u8::try_from(length).unwrap_or(0));
    encoded.extend_from_slice(service.as_bytes());
    encoded
}

/// `HealthCheckResponse { ServingStatus status = 1; }`; fields that are not known are passed over.
fn health_status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let (key, rest) = varint(message)?;
        message = match key & 7 {
            0 => {
                let (value, rest) = varint(rest)?;
                if key >> 3 == 1 {
                    status = value;
                }
                rest
            }
            1 => rest.get(8..)?,
            2 => {
                let (length, rest) = varint(rest)?;
                rest.get(usize::try_from(length).ok()?..)?
            }
            5 => rest.get(4..)?,
            _ => return None,
        };
    }
    Some(status)
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(index).ok()? * 7)?;
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;
