//! Exec and attach over SPDY.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::session::{self, Channel, ClientEnds, Outgoing};
use super::{ExecOptions, Session, spdy};

/// The protocols, the newest first. Before `v4` errors are plain text.
pub(super) const PROTOCOLS: [&str; 4] =
    ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io"];
/// The client has so long to open all of its streams.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);

/// The streams of one session.
#[derive(Default)]
struct Streams {
    error: Option<spdy::Incoming>,
    stdin: Option<spdy::Incoming>,
    stdout: Option<spdy::Incoming>,
    stderr: Option<spdy::Incoming>,
    resize: Option<spdy::Incoming>,
}

/// Runs a session over a connection that was upgraded, until the process or the client ends.
pub(super) async fn run(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    protocol: &str,
    options: ExecOptions,
    session: Session,
) {
    let structured = !matches!(protocol, "v3.channel.k8s.io" | "v2.channel.k8s.io");
    let resizes = options.tty && protocol != "v2.channel.k8s.io";
    let mut connection = spdy::accept(io);
    let expected = expected(&options, resizes);
    let opening = open(&mut connection.streams, expected);
    let Ok(Some(streams)) = tokio::time::timeout(STREAMS_TIMEOUT, opening).await else {
        return tracing::debug!("the client did not open the streams of its session");
    };
    let (pipes, ends) = session::pipes(&options);
    let (outgoing, to_send) = mpsc::channel(session::OUTGOING_QUEUED_MAX);
    let mut inputs = JoinSet::new();
    let senders = Senders::new(&streams);
    take_inputs(streams, ends, &mut inputs);
    let running = async {
        tokio::join!(session::run(session, pipes, outgoing), send(senders, to_send, structured));
    };
    tokio::select! {
        () = running => {}
        // No stream is opened any more, so that this ends when the connection does.
        _ = connection.streams.recv() => {}
    }
    drop(inputs);
    finish(connection).await;
}

/// Lets everything that was sent reach the client, then closes.
async fn finish(connection: spdy::Accepted) {
    let spdy::Accepted { streams, mut tasks } = connection;
    drop(streams);
    // Both tasks end when the client closes, which it does once it has read the status.
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(STREAMS_TIMEOUT, ended).await.is_err() {
        tracing::debug!("the client did not close its session");
    }
}

/// How many streams the client opens.
fn expected(options: &ExecOptions, resizes: bool) -> usize {
    1 + [options.stdin, options.stdout, options.stderr, resizes].into_iter().filter(|wanted| *wanted).count()
}

/// Waits until every expected stream is open; `None` if the connection ended first.
async fn open(opened: &mut mpsc::Receiver<spdy::Incoming>, expected: usize) -> Option<Streams> {
    let mut streams = Streams::default();
    for _ in 0..expected {
        let stream = opened.recv().await?;
        let place = match stream.headers.get("streamtype").map(String::as_str) {
            Some("error") => &mut streams.error,
            Some("stdin") => &mut streams.stdin,
            Some("stdout") => &mut streams.stdout,
            Some("stderr") => &mut streams.stderr,
            Some("resize") => &mut streams.resize,
            _ => return None,
        };
        *place = Some(stream);
    }
    Some(streams)
}

fn take_inputs(streams: Streams, ends: ClientEnds, inputs: &mut JoinSet<()>) {
    if let (Some(stream), Some(mut stdin)) = (streams.stdin, ends.stdin) {
        let mut input = stream.input;
        inputs.spawn(async move {
            // Either end may close; dropping the pipe is the end of standard input.
            drop(tokio::io::copy(&mut input, &mut stdin).await);
        });
    }
    if let (Some(stream), Some(resize)) = (streams.resize, ends.resize) {
        inputs.spawn(async move {
            let mut input = stream.input;
            let mut lines = Vec::new();
            let mut piece = [0; 256];
            while let Ok(length @ 1..) = input.read(&mut piece).await {
                lines.extend_from_slice(piece.get(..length).unwrap_or_default());
                while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = lines.drain(..=end).collect();
                    if let Some(size) = session::parse_size(&line) {
                        // A full queue has newer sizes than anybody has looked at; a closed one nobody to look.
                        let _full = resize.try_send(size);
                    }
                }
                // A line of sizes is short; what is long is none.
                if lines.len() > 1024 {
                    return;
                }
            }
        });
    }
}

/// Where output goes.
struct Senders {
    error: Option<spdy::Sender>,
    stdout: Option<spdy::Sender>,
    stderr: Option<spdy::Sender>,
}

impl Senders {
    fn new(streams: &Streams) -> Self {
        let sender = |stream: &Option<spdy::Incoming>| stream.as_ref().map(|stream| stream.sender.clone());
        Self { error: sender(&streams.error), stdout: sender(&streams.stdout), stderr: sender(&streams.stderr) }
    }

    fn of(&self, channel: Channel) -> Option<&spdy::Sender> {
        match channel {
            Channel::Stdout => self.stdout.as_ref(),
            Channel::Stderr => self.stderr.as_ref(),
        }
    }
}

async fn send(senders: Senders, mut to_send: mpsc::Receiver<Outgoing>, structured: bool) {
    while let Some(outgoing) = to_send.recv().await {
        let sent = match outgoing {
            Outgoing::Data(_, data) if data.is_empty() => true,
            Outgoing::Data(channel, data) => match senders.of(channel) {
                Some(sender) => sender.send(data).await,
                None => true,
            },
            Outgoing::End(channel) => match senders.of(channel) {
                Some(sender) => sender.finish().await,
                None => true,
            },
            Outgoing::Status(status) => send_status(&senders, &status, structured).await,
        };
        if !sent {
            return;
        }
    }
}

async fn send_status(senders: &Senders, status: &Value, structured: bool) -> bool {
    let Some(error) = &senders.error else { return true };
    let failed = status.get("status").and_then(Value::as_str) == Some("Failure");
    let text = match structured {
        true => status.to_string(),
        false if failed => status.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
        false => String::new(),
    };
    (text.is_empty() || error.send(text.into_bytes()).await) && error.finish().await
}
