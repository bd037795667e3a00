//! A server on a free port of loopback, and a node behind it that is made up.
//!
//! The node "runs" a few commands in the way a shell would, echoes what is sent to any port but 1, and has one log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::streams::{Connection, ExecOptions, LogOptions, LogStream, PodName, Session, Streams, Terminal};
use apiserver::{ApiError, Authority, Registry, RegistryOptions, Server, ServerNames, ServerOptions, Store};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

/// What tests fail with.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A running server. Dropping it ends it.
pub(crate) struct TestServer {
    /// The registry behind it.
    pub(crate) registry: Registry,
    /// Its authority.
    pub(crate) authority: Arc<Authority>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// A kubeconfig for the administrator.
    pub(crate) kubeconfig: PathBuf,
    /// A directory that is removed with the server.
    pub(crate) directory: tempfile::TempDir,
    shutdown: CancellationToken,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl TestServer {
    /// Starts a server with everything in memory.
    pub(crate) async fn start() -> Result<Self, Failure> {
        Self::start_with(Store::in_memory()).await
    }

    /// Starts a server over a store.
    pub(crate) async fn start_with(store: Store) -> Result<Self, Failure> {
        let authority = Arc::new(Authority::in_memory()?);
        let options =
            RegistryOptions { root_certificates: Some(authority.certificate().to_owned()), mount_tokens: true };
        let registry = Registry::with_options(store, Arc::new(jiff::Timestamp::now), options);
        registry.bootstrap().await?;
        apiserver::auth::rbac::bootstrap(&registry).await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let options = ServerOptions {
            advertised_address: address.to_string(),
            streams: Some(Arc::new(MadeUpNode)),
            ..ServerOptions::default()
        };
        let server = Server::new(registry.clone(), Arc::clone(&authority), options);
        let tls = authority.server_tls(&ServerNames::default())?;
        let shutdown = CancellationToken::new();
        let serving = (server.clone(), shutdown.clone());
        tokio::spawn(async move { serving.0.serve(listener, tls, serving.1).await });
        server.mark_ready();
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, authority.admin_kubeconfig(&format!("https://{address}"))?)?;
        Ok(Self { registry, authority, address, kubeconfig, directory, shutdown })
    }
}

/// A node that is made up.
struct MadeUpNode;

impl Streams for MadeUpNode {
    fn log(&self, _pod: PodName, options: LogOptions) -> BoxFuture<'_, Result<LogStream, ApiError>> {
        let lines: Vec<String> = (1..=5).map(|number| format!("{} line {number}\n", options.container)).collect();
        let tail = options.tail_lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(lines.len());
        let skipped = lines.len().saturating_sub(tail);
        let pieces: Vec<_> = lines.into_iter().skip(skipped).map(|line| Ok(Bytes::from(line))).collect();
        async move { Ok(futures::stream::iter(pieces).boxed()) }.boxed()
    }

    fn exec(&self, _pod: PodName, options: ExecOptions) -> BoxFuture<'_, Result<Session, ApiError>> {
        async move {
            let session: Session = Box::new(move |terminal| run(options, terminal).boxed());
            Ok(session)
        }
        .boxed()
    }

    fn attach(&self, pod: PodName, options: ExecOptions) -> BoxFuture<'_, Result<Session, ApiError>> {
        let command = vec!["cat".to_owned()];
        self.exec(pod, ExecOptions { command, ..options })
    }

    fn connect(&self, _pod: PodName, port: u16) -> BoxFuture<'_, Result<Connection, ApiError>> {
        async move {
            if port == 1 {
                return Err(ApiError::internal("connection refused"));
            }
            let (near, far) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                let (mut reader, mut writer) = tokio::io::split(far);
                drop(tokio::io::copy(&mut reader, &mut writer).await);
                drop(writer.shutdown().await);
            });
            let (reader, writer) = tokio::io::split(near);
            Ok(Connection { reader: Box::new(reader), writer: Box::new(writer) })
        }
        .boxed()
    }
}

/// `echo ...`, `cat`, `exit N`, `size` (of the terminal), `fail` (to start).
async fn run(options: ExecOptions, mut terminal: Terminal) -> Result<i32, ApiError> {
    let words: Vec<&str> = options.command.iter().map(String::as_str).collect();
    let mut stdout = terminal.stdout.take().unwrap_or_else(|| Box::new(tokio::io::sink()));
    match words.as_slice() {
        ["echo", rest @ ..] => {
            stdout.write_all(format!("{}\n", rest.join(" ")).as_bytes()).await.map_err(ApiError::internal)?;
            if let Some(stderr) = &mut terminal.stderr {
                stderr.write_all(b"said\n").await.map_err(ApiError::internal)?;
            }
            Ok(0)
        }
        ["cat"] => {
            let mut stdin = terminal.stdin.take().unwrap_or_else(|| Box::new(tokio::io::empty()));
            let mut piece = vec![0; 4096];
            while let Ok(length @ 1..) = stdin.read(&mut piece).await {
                stdout.write_all(piece.get(..length).unwrap_or_default()).await.map_err(ApiError::internal)?;
            }
            Ok(0)
        }
        ["exit", code] => Ok(code.parse().unwrap_or(255)),
        ["size"] => {
            let size = match &mut terminal.resize {
                Some(sizes) => sizes.recv().await,
                None => None,
            };
            stdout.write_all(format!("{size:?}").as_bytes()).await.map_err(ApiError::internal)?;
            Ok(0)
        }
        _ => Err(ApiError::internal(format!("no such command: {words:?}"))),
    }
}

/// Says something about a test where it is seen.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // Nobody to hear it is no failure.
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Runs `kubectl port-forward` on a pod that is made to run, sends a text through it and gives what came back.
pub(crate) async fn forward_and_echo(kubectl: &str, server: &TestServer, websockets: &str) -> Result<String, Failure> {
    let pods = apiserver::ResourceType::find("", "v1", "pods").ok_or("pods are not served")?;
    let options = apiserver::WriteOptions::default();
    let running = |old: &serde_json::Value| {
        let mut new = old.clone();
        apiserver::value::set(&mut new, &["status", "phase"], serde_json::Value::from("Running"));
        Ok(new)
    };
    server.registry.patch_with(pods, "default", "p", apiserver::Part::Status, &options, running).await?;
    let mut child = std::process::Command::new(kubectl)
        .args(["port-forward", "p", ":80"])
        .env("KUBECONFIG", &server.kubeconfig)
        .env("HOME", server.directory.path())
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("kubectl has no output")?;
    let echoed = tokio::time::timeout(std::time::Duration::from_secs(30), echo_through(output)).await;
    child.kill()?;
    child.wait()?;
    echoed?
}

async fn echo_through(output: std::process::ChildStdout) -> Result<String, Failure> {
    let line = tokio::task::spawn_blocking(move || -> std::io::Result<_> {
        use std::io::BufRead as _;
        let (mut line, mut output) = (String::new(), std::io::BufReader::new(output));
        output.read_line(&mut line)?;
        Ok((line, output))
    });
    // "Forwarding from 127.0.0.1:41234 -> 80"; the pipe is kept, or kubectl would die of its next line.
    let (line, _output) = line.await??;
    let address = line.split(' ').nth(2).ok_or_else(|| format!("no address in {line:?}"))?;
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(b"hello through the tunnel").await?;
    stream.shutdown().await?;
    let mut echoed = String::new();
    stream.read_to_string(&mut echoed).await?;
    Ok(echoed)
}
