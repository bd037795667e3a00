//! Exec and attach, as they are over every transport.
//!
//! A transport gives what the client sends to the [`ClientEnds`] and carries [`Outgoing`] to the client;
//! [`run`] stands between them and the [`Session`].

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;

use super::{ExecOptions, Output, Session, Terminal, TerminalSize};
use crate::error::ApiError;

/// What a pipe holds before its writer waits.
const PIPE_SIZE_BYTES: usize = 64 * 1024;
/// Pieces that wait to be sent before those who send wait.
pub(super) const OUTGOING_QUEUED_MAX: usize = 16;
/// The most that one message carries.
const PIECE_SIZE_BYTES: usize = 32 * 1024;
/// Sizes of a terminal that wait to be applied; the newest matters, so few are kept.
const SIZES_QUEUED_MAX: usize = 8;

/// Something to carry to the client.
#[derive(Debug, PartialEq)]
pub(super) enum Outgoing {
    /// Output.
    Data(Channel, Vec<u8>),
    /// Nothing more comes on a channel.
    End(Channel),
    /// How it ended; the last thing that is sent.
    Status(Value),
}

/// The two channels of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channel {
    Stdout,
    Stderr,
}

/// Where a transport puts what the client sends.
pub(super) struct ClientEnds {
    /// Standard input; to drop it is its end.
    pub(super) stdin: Option<DuplexStream>,
    /// Sizes of the terminal.
    pub(super) resize: Option<mpsc::Sender<TerminalSize>>,
}

/// Both sides of a session: the process's, and what carries its output.
pub(super) struct Pipes {
    terminal: Terminal,
    outputs: Vec<(Channel, DuplexStream)>,
}

/// Makes the pipes that a client asked for.
pub(super) fn pipes(options: &ExecOptions) -> (Pipes, ClientEnds) {
    let mut outputs = Vec::new();
    let mut output = |wanted: bool, channel| -> Option<Output> {
        let (near, far) = tokio::io::duplex(PIPE_SIZE_BYTES);
        wanted.then(|| {
            outputs.push((channel, near));
            Box::new(far) as Output
        })
    };
    let (stdout, stderr) = (output(options.stdout, Channel::Stdout), output(options.stderr, Channel::Stderr));
    let (stdin, far_stdin) = tokio::io::duplex(PIPE_SIZE_BYTES);
    let (resize, sizes) = mpsc::channel(SIZES_QUEUED_MAX);
    let terminal = Terminal {
        stdin: options.stdin.then(|| Box::new(far_stdin) as super::Input),
        stdout,
        stderr,
        resize: options.tty.then_some(sizes),
    };
    let ends = ClientEnds { stdin: options.stdin.then_some(stdin), resize: options.tty.then_some(resize) };
    (Pipes { terminal, outputs }, ends)
}

/// Runs a session: sends all of its output, then how it ended.
pub(super) async fn run(session: Session, pipes: Pipes, outgoing: mpsc::Sender<Outgoing>) {
    // an empty message shows that the process started.
    if let Some((channel, _)) = pipes.outputs.first() {
        drop(outgoing.send(Outgoing::Data(*channel, Vec::new())).await);
    }
    let pumps = pipes.outputs.into_iter().map(|(channel, pipe)| pump(channel, pipe, outgoing.clone()));
    let (ended, _) = tokio::join!(session(pipes.terminal), futures::future::join_all(pumps));
    // The client may be gone: then nobody asks how it ended.
    drop(outgoing.send(Outgoing::Status(status(&ended))).await);
}

async fn pump(channel: Channel, mut pipe: DuplexStream, outgoing: mpsc::Sender<Outgoing>) {
    let mut piece = vec![0; PIECE_SIZE_BYTES];
    loop {
        let data = match pipe.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(length) => piece.get(..length).unwrap_or_default().to_vec(),
        };
        if outgoing.send(Outgoing::Data(channel, data)).await.is_err() {
            return;
        }
    }
    // The same as above.
    drop(outgoing.send(Outgoing::End(channel)).await);
}

///
fn status(ended: &Result<i32, ApiError>) -> Value {
    match ended {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}}),
        Err(error) => json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": error.to_string(), "details": {"causes": [{"message": error.to_string()}]}}),
    }
}

/// Reads the size in a resize message; nonsense is no size.
pub(super) fn parse_size(message: &[u8]) -> Option<TerminalSize> {
    serde_json::from_slice(message).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_228_all_output_comes_before_the_status() {
        let options = ExecOptions { stdout: true, stderr: true, ..ExecOptions::default() };
        let (pipes, _ends) = pipes(&options);
        let session: Session = Box::new(|terminal| {
            Box::pin(async move {
                for (output, text) in [(terminal.stdout, "out"), (terminal.stderr, "err")] {
                    if let Some(mut output) = output {
                        output.write_all(text.as_bytes()).await.map_err(ApiError::internal)?;
                    }
                }
                Ok(3)
            })
        });
        let (sender, mut receiver) = mpsc::channel(OUTGOING_QUEUED_MAX);
        run(session, pipes, sender).await;
        let mut sent = Vec::new();
        while let Some(outgoing) = receiver.recv().await {
            sent.push(outgoing);
        }
        assert_eq!(sent.first(), Some(&Outgoing::Data(Channel::Stdout, Vec::new())));
        assert!(sent.contains(&Outgoing::Data(Channel::Stderr, b"err".to_vec())));
        let Some(Outgoing::Status(status)) = sent.last() else { unreachable!("the status comes last: {sent:?}") };
        assert_eq!(status.pointer("/details/causes/0/message"), Some(&json!("3")));
    }

    #[test]
    fn a_226_a_size_has_capital_keys() {
        let size = TerminalSize { width: 120, height: 40 };
        assert_eq!(parse_size(b"{\"Width\":120,\"Height\":40}\n"), Some(size));
        assert_eq!(parse_size(b"{"), None);
    }
}
