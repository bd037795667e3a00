//! From an HTTP request to a connection of bytes: which transport and which protocol the client wants.
//!
//! Everything that can be refused is refused here, as a Status, before the connection changes hands.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::WebSocketUpgrade;
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{ExecOptions, PodName, Session, Streams, channels, forward, terminal};
use crate::error::ApiError;

/// The header that SPDY clients name protocols in.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
/// The most that one WebSocket message may hold; clients send 32 KiB.
const MESSAGE_SIZE_MAX_BYTES: usize = 1024 * 1024;
/// Ports that one connection may forward.
const PORTS_MAX: usize = 64;

/// A connection that can be taken over.
pub(crate) enum Upgrade {
    /// By WebSocket.
    WebSocket {
        /// The handshake.
        handshake: Box<WebSocketUpgrade>,
        /// The ports of a port-forward without SPDY.
        ports: Vec<u16>,
    },
    /// By SPDY/3.1.
    Spdy {
        /// The connection.
        connection: OnUpgrade,
        /// The protocol that was agreed on.
        protocol: &'static str,
    },
}

impl Upgrade {
    /// For exec and attach.
    pub(crate) async fn of_terminal(parts: Parts) -> Result<Self, ApiError> {
        Self::of(parts, &channels::PROTOCOLS, &terminal::PROTOCOLS, Vec::new()).await
    }

    /// For port-forward.
    pub(crate) async fn of_forward(parts: Parts, ports: Vec<u16>) -> Result<Self, ApiError> {
        Self::of(parts, &forward::WEBSOCKET_PROTOCOLS, &[forward::SPDY_PROTOCOL], ports).await
    }

    async fn of(
        mut parts: Parts,
        websocket: &[&'static str],
        spdy: &[&'static str],
        ports: Vec<u16>,
    ) -> Result<Self, ApiError> {
        let upgrade = parts.headers.get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if upgrade.eq_ignore_ascii_case("websocket") {
            let handshake = WebSocketUpgrade::from_request_parts(&mut parts, &())
                .await
                .map_err(|rejection| ApiError::bad_request(format!("the WebSocket handshake is wrong: {rejection}")))?;
            let handshake = agree(handshake, websocket)?.max_message_size(MESSAGE_SIZE_MAX_BYTES);
            return Ok(Self::WebSocket { handshake: Box::new(handshake), ports });
        }
        if upgrade.to_lowercase().starts_with("spdy/") {
            let protocol = agreed_protocol(&parts, spdy)?;
            let connection = parts
                .extensions
                .remove::<OnUpgrade>()
                .ok_or_else(|| ApiError::bad_request("this connection cannot be upgraded; HTTP/1.1 is needed"))?;
            return Ok(Self::Spdy { connection, protocol });
        }
        Err(ApiError::bad_request("Upgrade request required"))
    }

    /// Runs a session over the connection.
    pub(crate) fn run(self, options: ExecOptions, session: Session) -> Response<Body> {
        match self {
            Self::WebSocket { handshake, .. } => {
                handshake.on_upgrade(move |socket| channels::run(socket, options, session))
            }
            Self::Spdy { connection, protocol } => {
                tokio::spawn(async move {
                    match connection.await {
                        Ok(upgraded) => terminal::run(TokioIo::new(upgraded), protocol, options, session).await,
                        Err(error) => tracing::debug!(%error, "an upgrade did not happen"),
                    }
                });
                switching(protocol)
            }
        }
    }

    /// Forwards ports over the connection.
    pub(crate) fn forward(self, pod: PodName, streams: Arc<dyn Streams>) -> Result<Response<Body>, ApiError> {
        match self {
            Self::WebSocket { handshake, ports } => {
                let tunnel = handshake.selected_protocol().is_some_and(|protocol| protocol == forward::TUNNEL_PROTOCOL);
                if !tunnel && ports.is_empty() {
                    return Err(ApiError::bad_request("query parameter \"ports\" is required"));
                }
                Ok(handshake.on_upgrade(move |socket| async move {
                    if tunnel {
                        forward::over_tunnel(socket, pod, streams).await;
                    } else {
                        forward::over_channels(socket, pod, ports, streams).await;
                    }
                }))
            }
            Self::Spdy { connection, protocol } => {
                tokio::spawn(async move {
                    match connection.await {
                        Ok(upgraded) => forward::over_spdy(TokioIo::new(upgraded), pod, streams).await,
                        Err(error) => tracing::debug!(%error, "an upgrade did not happen"),
                    }
                });
                Ok(switching(protocol))
            }
        }
    }
}

/// Reads the ports of a query: repeated, or joined by commas.
pub(crate) fn ports<'a>(values: impl Iterator<Item = &'a str>) -> Result<Vec<u16>, ApiError> {
    let texts = values.flat_map(|value| value.split(',')).filter(|text| !text.is_empty());
    let ports: Result<Vec<u16>, _> = texts
        .map(|text| {
            text.parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| ApiError::bad_request(format!("unable to parse \"{text}\" as a port")))
        })
        .collect();
    let ports = ports?;
    if ports.len() > PORTS_MAX {
        return Err(ApiError::bad_request(format!("at most {PORTS_MAX} ports can be forwarded over one connection")));
    }
    Ok(ports)
}

/// Chooses the first of ours that the client offers; a client that offers none gets the oldest form.
fn agree(mut handshake: WebSocketUpgrade, ours: &[&'static str]) -> Result<WebSocketUpgrade, ApiError> {
    let offered: Vec<HeaderValue> = handshake.requested_protocols().cloned().collect();
    if offered.is_empty() {
        return Ok(handshake);
    }
    let chosen = ours.iter().find(|protocol| offered.iter().any(|offer| offer.as_bytes() == protocol.as_bytes()));
    let Some(chosen) = chosen else {
        return Err(ApiError::bad_request(format!(
            "no common WebSocket subprotocol; this server knows {}",
            ours.join(", ")
        )));
    };
    handshake.set_selected_protocol(HeaderValue::from_static(chosen));
    Ok(handshake)
}

/// 400 without the header, 403 without a common version.
fn agreed_protocol(parts: &Parts, ours: &[&'static str]) -> Result<&'static str, ApiError> {
    let offered: BTreeMap<&str, ()> = parts
        .headers
        .get_all(STREAM_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| (protocol.trim(), ()))
        .collect();
    if offered.is_empty() {
        return Err(ApiError::bad_request("upgrade request required: header X-Stream-Protocol-Version is missing"));
    }
    ours.iter().copied().find(|protocol| offered.contains_key(protocol)).ok_or_else(|| {
        let message =
            format!("unable to upgrade: unable to negotiate protocol; {ACCEPTED_PROTOCOLS}: {}", ours.join(", "));
        ApiError::new(403, "Forbidden", message, None)
    })
}

fn switching(protocol: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_244_ports_come_repeated_or_in_a_list() {
        let read = |values: &[&str]| ports(values.iter().copied()).map_err(|error| error.code());
        assert_eq!(read(&["80,81", "82"]), Ok(vec![80, 81, 82]));
        assert_eq!(read(&["0"]), Err(400));
        assert_eq!(read(&["x"]), Err(400));
    }
}
