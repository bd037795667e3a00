//! Exec and attach over WebSocket: `v5.channel.k8s.io`, `v4.channel.k8s.io`, and the oldest form.

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use super::session::{self, Channel, ClientEnds, Outgoing};
use super::{ExecOptions, Session};

/// The protocols, the newest first.
pub(super) const PROTOCOLS: [&str; 3] = [V5, V4, "channel.k8s.io"];
const V5: &str = "v5.channel.k8s.io";
const V4: &str = "v4.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// v5: the channel named in the next byte is closed.
const CLOSE: u8 = 255;

/// Runs a session over an accepted WebSocket, until the process or the client ends.
pub(super) async fn run(socket: WebSocket, options: ExecOptions, session: Session) {
    // without a protocol, and in its first version, errors are plain text.
    let protocol = socket.protocol().and_then(|protocol| protocol.to_str().ok()).unwrap_or_default();
    let structured = protocol == V5 || protocol == V4;
    let (sink, stream) = socket.split();
    let (pipes, ends) = session::pipes(&options);
    let (outgoing, to_send) = mpsc::channel(session::OUTGOING_QUEUED_MAX);
    let running = async {
        tokio::join!(session::run(session, pipes, outgoing), send(sink, to_send, structured));
    };
    tokio::select! {
        () = running => {}
        // The client went away: the session is dropped.
        () = receive(stream, ends) => {}
    }
}

/// Sends what the session gives; after the status the connection is closed.
async fn send(mut sink: SplitSink<WebSocket, Message>, mut to_send: mpsc::Receiver<Outgoing>, structured: bool) {
    while let Some(outgoing) = to_send.recv().await {
        let (channel, data) = match outgoing {
            Outgoing::Data(Channel::Stdout, data) => (STDOUT, data),
            Outgoing::Data(Channel::Stderr, data) => (STDERR, data),
            // There is no half-close towards the client; the Close frame ends everything.
            Outgoing::End(_) => continue,
            Outgoing::Status(status) => (ERROR, status_bytes(&status, structured)),
        };
        if channel == ERROR && data.is_empty() {
            continue;
        }
        let mut message = Vec::with_capacity(data.len() + 1);
        message.push(channel);
        message.extend_from_slice(&data);
        if sink.send(Message::Binary(message.into())).await.is_err() {
            return;
        }
    }
    let close = CloseFrame { code: 1000, reason: "".into() };
    // A client that is gone does not need it.
    drop(sink.send(Message::Close(Some(close))).await);
    drop(sink.close().await);
}

fn status_bytes(status: &Value, structured: bool) -> Vec<u8> {
    if structured {
        return status.to_string().into_bytes();
    }
    let failed = status.get("status").and_then(Value::as_str) == Some("Failure");
    let message = status.get("message").and_then(Value::as_str).filter(|_| failed);
    message.unwrap_or_default().as_bytes().to_vec()
}

/// Takes what the client sends until it goes away.
async fn receive(mut stream: SplitStream<WebSocket>, mut ends: ClientEnds) {
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) => continue,
        };
        match bytes.split_first() {
            Some((&STDIN, data)) => {
                if let Some(stdin) = &mut ends.stdin
                    && stdin.write_all(data).await.is_err()
                {
                    ends.stdin = None;
                }
            }
            Some((&RESIZE, size)) => {
                if let (Some(resize), Some(size)) = (&ends.resize, session::parse_size(size)) {
                    // A full queue has newer sizes than anybody has looked at; a closed one nobody to look.
                    let _full = resize.try_send(size);
                }
            }
            Some((&CLOSE, [STDIN])) => ends.stdin = None,
            _ => {}
        }
    }
}
