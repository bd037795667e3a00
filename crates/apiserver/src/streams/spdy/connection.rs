//! A SPDY connection over any byte stream: two tasks around the codec.
//!
//! One task reads frames and hands each new stream out, with what its peer sends as a pipe; the other writes frames.
//! They are two so that a stream that nobody reads holds up reading, never writing: no program can wait for itself.

use std::collections::BTreeMap;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::frame::{Decoder, Encoder, Frame, Headers, SpdyError};

/// What a pipe holds before its writer waits.
const PIPE_SIZE_BYTES: usize = 64 * 1024;
/// Frames that wait to be written before those who send wait.
const FRAMES_QUEUED_MAX: usize = 64;
/// Streams that are open at once; a client that opens more is refused.
const STREAMS_MAX: usize = 1024;
/// The status of a stream that is not taken (RST_STREAM, REFUSED_STREAM).
const REFUSED: u32 = 3;
/// The status of a stream that failed (RST_STREAM, INTERNAL_ERROR).
const FAILED: u32 = 6;

/// A stream that the client opened.
pub struct Incoming {
    /// Its headers.
    pub headers: Headers,
    /// What the client sends on it; ends when the client ends its half.
    pub input: DuplexStream,
    /// Sends on it.
    pub sender: Sender,
}

/// Sends on one stream.
#[derive(Clone)]
pub struct Sender {
    stream: u32,
    frames: mpsc::Sender<Frame>,
}

impl Sender {
    /// Sends data; false if the connection is gone.
    pub async fn send(&self, data: Vec<u8>) -> bool {
        self.frames.send(Frame::Data { stream: self.stream, data, fin: false }).await.is_ok()
    }

    /// Ends this half of the stream.
    pub async fn finish(&self) -> bool {
        self.frames.send(Frame::Data { stream: self.stream, data: Vec::new(), fin: true }).await.is_ok()
    }

    /// Ends the stream at once, both halves.
    pub async fn reset(&self) -> bool {
        self.frames.send(Frame::Reset { stream: self.stream, status: FAILED }).await.is_ok()
    }
}

/// An accepted connection.
pub struct Accepted {
    /// The streams that the client opens; ends with the connection.
    pub streams: mpsc::Receiver<Incoming>,
    /// The two tasks; they end with the connection, and dropping this ends them.
    pub tasks: JoinSet<()>,
}

/// Accepts a connection as the server's side.
pub fn accept<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(io: S) -> Accepted {
    let (reader, writer) = tokio::io::split(io);
    let (frames, to_write) = mpsc::channel(FRAMES_QUEUED_MAX);
    let (opened, streams) = mpsc::channel(STREAMS_MAX);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        if let Err(error) = read(reader, frames, opened).await {
            tracing::debug!(%error, "a SPDY connection ended");
        }
    });
    tasks.spawn(write(writer, to_write));
    Accepted { streams, tasks }
}

/// Writes frames until nobody can send any more, or the peer is gone.
async fn write(mut writer: impl AsyncWrite + Unpin, mut frames: mpsc::Receiver<Frame>) {
    let mut encoder = Encoder::default();
    while let Some(frame) = frames.recv().await {
        let written = async {
            writer.write_all(&encoder.encode(&frame)).await?;
            if frames.is_empty() { writer.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
    // The peer may be gone already.
    drop(writer.shutdown().await);
}

/// Reads frames until the peer ends the connection.
async fn read(
    mut reader: impl AsyncRead + Unpin,
    frames: mpsc::Sender<Frame>,
    opened: mpsc::Sender<Incoming>,
) -> Result<(), SpdyError> {
    let mut decoder = Decoder::default();
    let mut inputs: BTreeMap<u32, DuplexStream> = BTreeMap::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        while let Some(frame) = decoder.next_frame()? {
            if !receive(frame, &mut inputs, &frames, &opened).await {
                return Ok(());
            }
        }
        let length = match reader.read(&mut piece).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(length) => length,
        };
        decoder.receive(piece.get(..length).unwrap_or_default());
    }
}

/// Does what a frame asks for; false if the connection is to end.
async fn receive(
    frame: Frame,
    inputs: &mut BTreeMap<u32, DuplexStream>,
    frames: &mpsc::Sender<Frame>,
    opened: &mpsc::Sender<Incoming>,
) -> bool {
    match frame {
        Frame::SynStream { stream, headers, fin } => {
            if inputs.len() >= STREAMS_MAX {
                return frames.send(Frame::Reset { stream, status: REFUSED }).await.is_ok();
            }
            let (input, pipe) = tokio::io::duplex(PIPE_SIZE_BYTES);
            if !fin {
                inputs.insert(stream, pipe);
            }
            // the client waits for this before it opens the next one.
            let reply = Frame::SynReply { stream, headers: Headers::new(), fin: false };
            let sender = Sender { stream, frames: frames.clone() };
            frames.send(reply).await.is_ok() && opened.send(Incoming { headers, input, sender }).await.is_ok()
        }
        Frame::Data { stream, data, fin } => {
            if let Some(pipe) = inputs.get_mut(&stream)
                && pipe.write_all(&data).await.is_err()
            {
                // Whoever read it is gone: what still comes is thrown away.
                inputs.remove(&stream);
            }
            if fin {
                inputs.remove(&stream);
            }
            true
        }
        Frame::Reset { stream, .. } => {
            inputs.remove(&stream);
            true
        }
        // A client's pings have odd numbers; an even one would be the answer to ours.
        Frame::Ping(id) if id % 2 == 1 => frames.send(Frame::Ping(id)).await.is_ok(),
        Frame::GoAway { .. } | Frame::Ping(_) | Frame::SynReply { .. } | Frame::Other(_) => true,
    }
}
