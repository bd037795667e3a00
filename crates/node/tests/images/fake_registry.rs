//! A registry on the loopback that serves one image, and misbehaves as it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::image_builder::ImageBuilder;

/// How a blob is served.
#[derive(Clone)]
pub(crate) enum Answer {
    Whole,
    /// Every answer breaks after so many bytes.
    CutAfter(usize),
    /// Every answer stops after so many bytes and never ends.
    HangAfter(usize),
    /// Bytes without end.
    Endless,
    Body(Vec<u8>),
    Status(u16),
}

pub(crate) struct FakeRegistry {
    address: String,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    manifest: Vec<u8>,
    blobs: BTreeMap<String, Vec<u8>>,
    answers: BTreeMap<String, Answer>,
    requests: BTreeMap<String, Vec<u64>>,
}

impl FakeRegistry {
    /// Serves an image as `app:1`.
    pub(crate) async fn start(builder: &ImageBuilder) -> Self {
        let blobs = builder.blobs().unwrap();
        let manifest = blobs.blob(&blobs.manifest).unwrap();
        let state = Arc::new(Mutex::new(State { manifest, blobs: blobs.blobs, ..State::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = Arc::clone(&state);
        let server = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&served);
                // A client that goes away is no fault of the server's.
                connections.spawn(async move { drop(serve(stream, &state).await) });
            }
        });
        FakeRegistry { address, state, server }
    }

    pub(crate) fn image(&self) -> String {
        format!("{}/app:1", self.address)
    }

    pub(crate) fn set_manifest(&self, manifest: Vec<u8>) {
        self.state.lock().unwrap().manifest = manifest;
    }

    pub(crate) fn answer(&self, digest: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(digest.to_owned(), answer);
    }

    /// The digests of the layers.
    pub(crate) fn layers(&self) -> Vec<String> {
        let manifest: Value = serde_json::from_slice(&self.state.lock().unwrap().manifest).unwrap();
        let layers = manifest["layers"].as_array().unwrap();
        layers.iter().map(|layer| layer["digest"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn size(&self, digest: &str) -> usize {
        self.state.lock().unwrap().blobs[digest].len()
    }

    /// The offset of each request for a blob.
    pub(crate) fn requests(&self, digest: &str) -> Vec<u64> {
        self.state.lock().unwrap().requests.get(digest).cloned().unwrap_or_default()
    }
}

impl Drop for FakeRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let mut offset = None;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        if header.trim().is_empty() {
            break;
        }
        let header = header.to_lowercase();
        if let Some(range) = header.strip_prefix("range: bytes=") {
            offset = range.split('-').next().and_then(|start| start.parse::<u64>().ok());
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let Some((_, digest)) = path.split_once("/blobs/") else {
        let manifest = state.lock().unwrap().manifest.clone();
        let body = if path.contains("/manifests/") { manifest } else { b"{}".to_vec() };
        return send(stream.get_mut(), "200 OK", body.len(), &body).await;
    };
    let (content, answer) = {
        let mut state = state.lock().unwrap();
        state.requests.entry(digest.to_owned()).or_default().push(offset.unwrap_or_default());
        let answer = state.answers.get(digest).cloned().unwrap_or(Answer::Whole);
        (state.blobs.get(digest).cloned().unwrap_or_default(), answer)
    };
    let start = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX).min(content.len());
    let status = if offset.is_some() { "206 Partial Content" } else { "200 OK" };
    let rest = &content[start..];
    match answer {
        Answer::Whole => send(stream.get_mut(), status, rest.len(), rest).await,
        Answer::CutAfter(bytes) => send(stream.get_mut(), status, rest.len(), &rest[..bytes.min(rest.len())]).await,
        Answer::HangAfter(bytes) => {
            send(stream.get_mut(), status, rest.len(), &rest[..bytes.min(rest.len())]).await?;
            // Until the test is over.
            std::future::pending().await
        }
        Answer::Endless => {
            send(stream.get_mut(), status, 1 << 40, b"").await?;
            loop {
                stream.get_mut().write_all(&[0; 4096]).await?;
            }
        }
        Answer::Body(body) => send(stream.get_mut(), status, body.len(), &body).await,
        Answer::Status(code) => send(stream.get_mut(), &format!("{code} Other"), 0, b"").await,
    }
}

async fn send(stream: &mut TcpStream, status: &str, length: usize, body: &[u8]) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.flush().await
}
