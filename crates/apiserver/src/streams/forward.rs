//! Port-forward over SPDY, over SPDY in a WebSocket, and over WebSocket channels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Connection, PodName, Streams, spdy};
use crate::error::ApiError;

/// SPDY frames inside WebSocket messages.
pub(super) const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
/// What is spoken over SPDY.
pub(super) const SPDY_PROTOCOL: &str = "portforward.k8s.io";
/// What is spoken over WebSocket; of the channels `v4` alone has a meaning here.
pub(super) const WEBSOCKET_PROTOCOLS: [&str; 2] = [TUNNEL_PROTOCOL, "v4.channel.k8s.io"];

const PIPE_SIZE_BYTES: usize = 64 * 1024;
const PIECE_SIZE_BYTES: usize = 32 * 1024;
/// Half of a pair of streams waits so long for the other half.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages that wait to be sent before those who send wait.
const MESSAGES_QUEUED_MAX: usize = 16;

/// Forwards over a connection that was upgraded.
pub(super) async fn over_spdy(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    pod: PodName,
    streams: Arc<dyn Streams>,
) {
    let mut connection = spdy::accept(io);
    let mut halves: BTreeMap<String, (spdy::Incoming, tokio::time::Instant)> = BTreeMap::new();
    let mut forwards = JoinSet::new();
    while let Some(stream) = connection.streams.recv().await {
        halves.retain(|_, (_, since)| since.elapsed() < PAIR_TIMEOUT);
        while forwards.try_join_next().is_some() {}
        let id = stream.headers.get("requestid").cloned().unwrap_or_default();
        match halves.remove(&id) {
            Some((first, _)) => {
                let (pod, streams) = (pod.clone(), Arc::clone(&streams));
                forwards.spawn(async move { forward_pair(first, stream, pod, streams).await });
            }
            None => {
                halves.insert(id, (stream, tokio::time::Instant::now()));
            }
        }
    }
}

/// Forwards over a WebSocket whose messages are pieces of a SPDY connection.
pub(super) async fn over_tunnel(socket: WebSocket, pod: PodName, streams: Arc<dyn Streams>) {
    let (near, far) = tokio::io::duplex(PIPE_SIZE_BYTES);
    let (mut from_spdy, mut to_spdy) = tokio::io::split(near);
    let (mut sink, mut source) = socket.split();
    let receive = async move {
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(bytes) if to_spdy.write_all(&bytes).await.is_err() => return,
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let send = async move {
        let mut piece = vec![0; PIECE_SIZE_BYTES];
        while let Ok(length @ 1..) = from_spdy.read(&mut piece).await {
            let bytes = piece.get(..length).unwrap_or_default().to_vec();
            if sink.send(Message::Binary(bytes.into())).await.is_err() {
                return;
            }
        }
        // A client that is gone does not need it.
        drop(sink.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await);
    };
    tokio::select! {
        () = receive => {}
        ((), ()) = async { tokio::join!(send, over_spdy(far, pod, streams)) } => {}
    }
}

/// One forwarded connection: the two streams of one request.
async fn forward_pair(one: spdy::Incoming, other: spdy::Incoming, pod: PodName, streams: Arc<dyn Streams>) {
    let is_error = |stream: &spdy::Incoming| stream.headers.get("streamtype").is_some_and(|kind| kind == "error");
    let (error, data) = if is_error(&one) { (one, other) } else { (other, one) };
    let port = data.headers.get("port").cloned().unwrap_or_default();
    let connected = match port.parse() {
        Ok(port) => streams.connect(pod.clone(), port).await,
        Err(_) => Err(ApiError::bad_request(format!("\"{port}\" is not a port"))),
    };
    match connected {
        Ok(connection) => copy_both_ways(data, connection).await,
        Err(failed) => {
            //
            let text = format!("error forwarding port {port} to pod {}, uid {}: {failed}", pod.name, pod.uid);
            error.sender.send(text.into_bytes()).await;
            data.sender.reset().await;
        }
    }
    // The client waits for this end, whatever happened.
    error.sender.finish().await;
}

/// Copies until both halves have ended.
async fn copy_both_ways(data: spdy::Incoming, connection: Connection) {
    let Connection { mut reader, mut writer } = connection;
    let spdy::Incoming { mut input, sender, .. } = data;
    let to_pod = async {
        // Either side may close first; the pod sees the end of the client's half.
        drop(tokio::io::copy(&mut input, &mut writer).await);
        drop(writer.shutdown().await);
    };
    let to_client = async {
        let mut piece = vec![0; PIECE_SIZE_BYTES];
        while let Ok(length @ 1..) = reader.read(&mut piece).await {
            if !sender.send(piece.get(..length).unwrap_or_default().to_vec()).await {
                return;
            }
        }
        sender.finish().await;
    };
    tokio::join!(to_pod, to_client);
}

/// Forwards over WebSocket channels: channel 2i carries port i, channel 2i+1 its errors.
pub(super) async fn over_channels(socket: WebSocket, pod: PodName, ports: Vec<u16>, streams: Arc<dyn Streams>) {
    let (mut sink, mut source) = socket.split();
    let (messages, mut to_send) = mpsc::channel::<Vec<u8>>(MESSAGES_QUEUED_MAX);
    let mut inputs: BTreeMap<u8, DuplexStream> = BTreeMap::new();
    let mut forwards = JoinSet::new();
    for (index, port) in (0u8..).step_by(2).zip(ports) {
        let (near, far) = tokio::io::duplex(PIPE_SIZE_BYTES);
        inputs.insert(index, near);
        forwards.spawn(forward_channel(index, port, far, pod.clone(), Arc::clone(&streams), messages.clone()));
    }
    drop(messages);
    let receive = async {
        while let Some(Ok(message)) = source.next().await {
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => return,
                _ => continue,
            };
            if let Some((channel, data)) = bytes.split_first()
                && let Some(input) = inputs.get_mut(channel)
                && input.write_all(data).await.is_err()
            {
                inputs.remove(channel);
            }
        }
    };
    let send = async {
        while let Some(message) = to_send.recv().await {
            if sink.send(Message::Binary(message.into())).await.is_err() {
                return;
            }
        }
        // A client that is gone does not need it.
        drop(sink.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await);
    };
    tokio::select! {
        () = receive => {}
        () = send => {}
    }
}

async fn forward_channel(
    index: u8,
    port: u16,
    mut input: DuplexStream,
    pod: PodName,
    streams: Arc<dyn Streams>,
    messages: mpsc::Sender<Vec<u8>>,
) {
    let send = async |channel: u8, data: &[u8]| {
        let message = [&[channel], data].concat();
        messages.send(message).await.is_ok()
    };
    // The first message of each channel names the port, low byte first.
    for channel in [index, index + 1] {
        if !send(channel, &port.to_le_bytes()).await {
            return;
        }
    }
    let connection = match streams.connect(pod.clone(), port).await {
        Ok(connection) => connection,
        Err(failed) => {
            let text = format!("error forwarding port {port} to pod {}, uid {}: {failed}", pod.name, pod.uid);
            send(index + 1, text.as_bytes()).await;
            return;
        }
    };
    let Connection { mut reader, mut writer } = connection;
    let to_pod = async {
        drop(tokio::io::copy(&mut input, &mut writer).await);
        drop(writer.shutdown().await);
    };
    let to_client = async {
        let mut piece = vec![0; PIECE_SIZE_BYTES];
        while let Ok(length @ 1..) = reader.read(&mut piece).await {
            if !send(index, piece.get(..length).unwrap_or_default()).await {
                return;
            }
        }
    };
    // Channels have no half-close: when the pod has ended, so has the connection.
    tokio::select! {
        () = async { to_pod.await; futures::future::pending().await } => {}
        () = to_client => {}
    }
}
