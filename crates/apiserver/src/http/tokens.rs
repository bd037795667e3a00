//! `serviceaccounts/{name}/token`: tokens on demand.

use http::StatusCode;
use serde_json::{Value, json};

use super::front::{Front, Incoming};
use super::resources::read_object;
use super::respond::{self, Answered};
use crate::codec;
use crate::error::{ApiError, cause};
use crate::tokens::TokenRequest;
use crate::value;

/// Answers a TokenRequest.
pub(super) async fn answer(front: &Front, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let name = request.info.name.clone();
    let (sent, _, namespace) = read_object(request).await?;
    let decoded = codec::decode_kind("authentication.k8s.io", "TokenRequest", sent.object);
    let mut object = decoded.map_err(|error| ApiError::bad_request(error.to_string()))?.object;
    let wanted = read_request(&object)?;
    let issued = crate::tokens::issue(&front.registry, &front.authority, &namespace, &name, &wanted)?;
    value::set(&mut object, &["apiVersion"], json!("authentication.k8s.io/v1"));
    value::set(&mut object, &["kind"], json!("TokenRequest"));
    value::set(&mut object, &["metadata"], json!({"name": name, "namespace": namespace}));
    value::set(&mut object, &["spec", "audiences"], json!(issued.audiences));
    value::set(&mut object, &["spec", "expirationSeconds"], json!(issued.expiration_seconds));
    let expires = issued.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    value::set(&mut object, &["status"], json!({"token": issued.token, "expirationTimestamp": expires}));
    respond::object(StatusCode::CREATED, accepted.format, &object)
}

fn read_request(object: &Value) -> Result<TokenRequest, ApiError> {
    let seconds = value::integer(object, "/spec/expirationSeconds");
    if seconds.is_some_and(|seconds| seconds < 600) {
        let message = "Invalid value: may not specify a duration less than 10 minutes";
        let cause = cause("FieldValueInvalid", "spec.expirationSeconds", message);
        let text = format!("TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: {message}");
        let details = k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails {
            causes: Some(vec![cause]),
            ..Default::default()
        };
        return Err(ApiError::new(422, "Invalid", text, Some(details)));
    }
    let bound = value::text(object, "/spec/boundObjectRef/kind").map(|kind| {
        let text = |pointer: &str| value::text(object, pointer).unwrap_or_default().to_owned();
        (
            kind.to_owned(),
            text("/spec/boundObjectRef/name"),
            value::text(object, "/spec/boundObjectRef/uid").map(str::to_owned),
        )
    });
    Ok(TokenRequest { audiences: value::texts(object, "/spec/audiences"), expiration_seconds: seconds, bound })
}
