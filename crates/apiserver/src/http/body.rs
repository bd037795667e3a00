//! Request bodies: bounded, and in any of the forms that clients send.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use super::{json, protobuf, yaml};
use crate::error::ApiError;

/// The most that a request body may hold.
pub(super) const BODY_SIZE_MAX_BYTES: usize = 3 * 1024 * 1024;
/// A client that takes longer than this to send its body is cut off.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// An object as it was sent.
#[derive(Debug, PartialEq)]
pub(super) struct SentObject {
    /// The object.
    pub(super) object: Value,
    /// Paths of keys that stood twice.
    pub(super) duplicates: Vec<String>,
}

/// Reads a body whole; 413 if it is too large.
pub(super) async fn read(body: Body) -> Result<Bytes, ApiError> {
    let read = Limited::new(body, BODY_SIZE_MAX_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(ApiError::bad_request(format!("the request body could not be read: {error}"))),
        Err(_) => Err(ApiError::new(408, "Timeout", "the request body did not arrive in time".to_owned(), None)),
    }
}

fn too_large() -> ApiError {
    let message = format!("limit is {BODY_SIZE_MAX_BYTES}");
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity is too large: {message}"), None)
}

/// The media type of the body, in lower case and without parameters; JSON if the client says nothing.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let text = text.split(';').next().unwrap_or_default().trim().to_lowercase();
    if text.is_empty() { "application/json".to_owned() } else { text }
}

/// Reads an object of the group and kind expected (protobuf does not say it inside).
pub(super) fn decode(media_type: &str, body: &[u8]) -> Result<SentObject, ApiError> {
    match media_type {
        "application/json" => decode_json(body),
        "application/yaml" | "application/x-yaml" | "text/yaml" => decode_yaml(body),
        "application/vnd.kubernetes.protobuf" => {
            let object = protobuf::decode(body)
                .map_err(|error| ApiError::bad_request(format!("the protobuf body cannot be read: {error}")))?;
            Ok(SentObject { object, duplicates: Vec::new() })
        }
        other => {
            Err(unsupported(other, &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]))
        }
    }
}

/// 415, naming what is taken.
pub(super) fn unsupported(given: &str, accepted: &[&str]) -> ApiError {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}; `{given}` was sent",
        accepted.join(", ")
    );
    ApiError::new(415, "UnsupportedMediaType", message, None)
}

/// Reads a JSON object.
pub(super) fn decode_json(body: &[u8]) -> Result<SentObject, ApiError> {
    let document = json::read(body)
        .map_err(|error| ApiError::bad_request(format!("the object provided is not valid JSON: {error}")))?;
    Ok(SentObject { object: document.value, duplicates: document.duplicates })
}

/// Reads a YAML document; JSON is YAML too.
pub(super) fn decode_yaml(body: &[u8]) -> Result<SentObject, ApiError> {
    if let Ok(sent) = decode_json(body) {
        return Ok(sent);
    }
    let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the object provided is not UTF-8 text"))?;
    yaml::read(text).map(|object| SentObject { object, duplicates: Vec::new() })
}
