//! The answer to a watch: one JSON document per event, for as long as the client listens.
//!
//! Events are taken from the store when the client reads, so a slow client holds no queue here;
//! one that falls behind the history gets the Status 410 and the end.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::present::Presenter;
use crate::error::ApiError;
use crate::registry::{Watch, WatchEvent};
use crate::resource::ResourceType;

/// How often a client that asked for them gets a bookmark.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Events that are put into one piece of the body at most, so that many are sent at once but none waits.
const EVENTS_PER_CHUNK_MAX: usize = 64;
/// The mark of the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// How a watch is answered.
pub(super) struct Options {
    /// True to send bookmarks.
    pub(super) bookmarks: bool,
    /// How long it lasts; for as long as the server does if absent.
    pub(super) timeout: Option<Duration>,
    /// How objects are shown.
    pub(super) presenter: Presenter,
}

/// One watch being answered.
struct Session {
    watch: Watch,
    resource: &'static ResourceType,
    options: Options,
    ends_at: Option<Instant>,
    bookmark_at: Instant,
    shutdown: CancellationToken,
    /// Nothing follows.
    over: bool,
    /// An error was told, the last thing that is.
    failed: bool,
}

/// What made the session go on.
enum Wake {
    Event(Result<WatchEvent, ApiError>),
    Bookmark,
    End,
}

/// Answers a watch: the headers at once, then the events.
pub(super) fn answer(
    watch: Watch,
    resource: &'static ResourceType,
    options: Options,
    shutdown: CancellationToken,
) -> Response<Body> {
    let now = Instant::now();
    let ends_at = options.timeout.map(|timeout| now + timeout);
    let session = Session {
        watch,
        resource,
        options,
        ends_at,
        bookmark_at: now + BOOKMARK_PERIOD,
        shutdown,
        over: false,
        failed: false,
    };
    let chunks = futures::stream::unfold(session, |mut session| async move {
        let chunk = session.next_chunk().await?;
        Some((Ok::<_, std::convert::Infallible>(Frame::data(chunk)), session))
    });
    let mut response = Response::new(Body::new(StreamBody::new(chunks)));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl Session {
    /// The next piece of the body; `None` at the end.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let mut chunk = BytesMut::new();
        match self.wake().await {
            Wake::Event(event) => self.write_events(&mut chunk, event),
            Wake::Bookmark => {
                self.write_pending(&mut chunk);
                self.write_bookmark(&mut chunk, false);
            }
            Wake::End => {
                self.over = true;
                if self.options.bookmarks {
                    self.write_pending(&mut chunk);
                    self.write_bookmark(&mut chunk, false);
                }
            }
        }
        Some(chunk.freeze()).filter(|chunk| !chunk.is_empty())
    }

    async fn wake(&mut self) -> Wake {
        let ends_at = self.ends_at;
        let end = async move {
            match ends_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => futures::future::pending().await,
            }
        };
        let (bookmarks, bookmark_at) = (self.options.bookmarks, self.bookmark_at);
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => Wake::End,
            () = end => Wake::End,
            event = self.watch.next() => Wake::Event(event),
            () = tokio::time::sleep_until(bookmark_at), if bookmarks => Wake::Bookmark,
        }
    }

    /// One event, and whatever else there is already.
    fn write_events(&mut self, chunk: &mut BytesMut, first: Result<WatchEvent, ApiError>) {
        self.write(chunk, first);
        for _ in 1..EVENTS_PER_CHUNK_MAX {
            if self.over {
                return;
            }
            match self.watch.try_next().transpose() {
                Some(event) => self.write(chunk, event),
                None => return,
            }
        }
    }

    /// What has happened but was not told yet: a bookmark may not overtake it.
    fn write_pending(&mut self, chunk: &mut BytesMut) {
        while let Some(event) = self.watch.try_next().transpose() {
            self.write(chunk, event);
            if self.failed {
                return;
            }
        }
    }

    fn write(&mut self, chunk: &mut BytesMut, event: Result<WatchEvent, ApiError>) {
        let (kind, object) = match event {
            Ok(WatchEvent::Added(object)) => ("ADDED", object),
            Ok(WatchEvent::Modified(object)) => ("MODIFIED", object),
            Ok(WatchEvent::Deleted(object)) => ("DELETED", object),
            Ok(WatchEvent::InitialEnd(_)) => {
                if self.options.bookmarks {
                    self.write_bookmark(chunk, true);
                }
                return;
            }
            Err(error) => return self.write_error(chunk, &error),
        };
        match self.options.presenter.watched(&object) {
            Ok(shown) => write_line(chunk, kind, &shown),
            Err(error) => self.write_error(chunk, &error),
        }
    }

    fn write_bookmark(&mut self, chunk: &mut BytesMut, initial_end: bool) {
        if self.failed {
            return;
        }
        self.bookmark_at = Instant::now() + BOOKMARK_PERIOD;
        let version = self.watch.revision().to_string();
        let mut metadata = json!({"resourceVersion": version, "creationTimestamp": null});
        if initial_end {
            crate::value::set(&mut metadata, &["annotations"], json!({INITIAL_EVENTS_END: "true"}));
        }
        let object =
            json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        match self.options.presenter.bookmark(object) {
            Ok(shown) => write_line(chunk, "BOOKMARK", &shown),
            Err(error) => self.write_error(chunk, &error),
        }
    }

    /// An error ends the watch.
    fn write_error(&mut self, chunk: &mut BytesMut, error: &ApiError) {
        self.over = true;
        self.failed = true;
        let mut status = serde_json::to_value(error.status()).unwrap_or(Value::Null);
        crate::value::set(&mut status, &["kind"], json!("Status"));
        crate::value::set(&mut status, &["apiVersion"], json!("v1"));
        write_line(chunk, "ERROR", &Arc::new(status));
    }
}

fn write_line(chunk: &mut BytesMut, kind: &str, object: &Value) {
    chunk.put_slice(b"{\"type\":\"");
    chunk.put_slice(kind.as_bytes());
    chunk.put_slice(b"\",\"object\":");
    // Writing JSON values into memory cannot fail.
    drop(serde_json::to_writer((&mut *chunk).writer(), object));
    chunk.put_slice(b"}\n");
}
