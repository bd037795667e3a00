//! Answers: JSON or YAML with their Content-Type, Status objects, Warning headers.

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::negotiate::Format;
use crate::error::ApiError;

/// What every handler gives.
pub(super) type Answered = Result<Response<Body>, ApiError>;

/// An answer with an object in it.
pub(super) fn object<T: Serialize>(code: StatusCode, format: Format, object: &T) -> Answered {
    let (content_type, text) = match format {
        Format::Json => ("application/json", serde_json::to_vec(object).map_err(ApiError::internal)?),
        Format::PrettyJson => {
            let mut text = serde_json::to_vec_pretty(object).map_err(ApiError::internal)?;
            text.push(b'\n');
            ("application/json", text)
        }
        // YAML 1.2 is a superset of JSON: every reader of YAML reads it.
        Format::Yaml => ("application/yaml", serde_json::to_vec_pretty(object).map_err(ApiError::internal)?),
    };
    Ok(bytes(code, content_type, text))
}

/// An answer with text in it.
pub(super) fn text(code: StatusCode, text: impl Into<String>) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", text.into().into_bytes())
}

/// An answer with anything in it; a body always has a Content-Type.
pub(super) fn bytes(code: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A failure, as a Status object.
pub(super) fn failure(error: &ApiError) -> Response<Body> {
    let mut status = serde_json::to_value(error.status()).unwrap_or(Value::Null);
    crate::value::set(&mut status, &["kind"], Value::from("Status"));
    crate::value::set(&mut status, &["apiVersion"], Value::from("v1"));
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = bytes(code, "application/json", status.to_string().into_bytes());
    let retry = error.status().details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = retry {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(0)));
    }
    if code == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Adds one Warning header for each text.
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // What a header cannot carry (line ends) is made a space.
        let plain: String = quoted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Ok(value) = HeaderValue::try_from(format!("299 - \"{plain}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

/// A Status object of success.
pub(super) fn success(
    code: StatusCode,
    mut status: k8s_openapi::apimachinery::pkg::apis::meta::v1::Status,
) -> Answered {
    status.code.get_or_insert(i32::from(code.as_u16()));
    status.status = Some("Success".to_owned());
    object(code, Format::Json, &status)
}
