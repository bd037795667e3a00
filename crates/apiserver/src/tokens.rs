//! Issuing service account tokens: for the API and for the node, which puts them into pods.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::auth::Authority;
use crate::auth::token::{Bound, Claims, ISSUER, KubernetesClaims};
use crate::error::ApiError;
use crate::registry::Registry;
use crate::resource::ResourceType;
use crate::value;

/// How long a token is good for if nobody says.
const EXPIRATION_SECONDS_DEFAULT: i64 = 3600;
/// How long one is good for at most: a year.
const EXPIRATION_SECONDS_MAX: i64 = 365 * 24 * 3600;

/// What token is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRequest {
    /// Whom it is for; the server itself if empty.
    pub audiences: Vec<String>,
    /// How long it is good for.
    pub expiration_seconds: Option<i64>,
    /// The object that it ends with: kind (`Pod`, `Secret`), name, and uid where it is known.
    pub bound: Option<(String, String, Option<String>)>,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: String,
    /// When it ends.
    pub expires_at: Timestamp,
    /// Whom it is for.
    pub audiences: Vec<String>,
    /// How long it is good for.
    pub expiration_seconds: i64,
}

/// Issues a token for a service account.
///
/// Fails with 404 if the account or the bound object is not there, 409 if its uid is another.
pub fn issue(
    registry: &Registry,
    authority: &Authority,
    namespace: &str,
    account: &str,
    request: &TokenRequest,
) -> Result<IssuedToken, ApiError> {
    let now = registry.now();
    let seconds = request.expiration_seconds.unwrap_or(EXPIRATION_SECONDS_DEFAULT).clamp(1, EXPIRATION_SECONDS_MAX);
    let expires_at = now.checked_add(SignedDuration::from_secs(seconds)).map_err(ApiError::internal)?;
    let audiences = if request.audiences.is_empty() { vec![ISSUER.to_owned()] } else { request.audiences.clone() };
    let claims = Claims {
        aud: audiences.clone(),
        exp: expires_at.as_second(),
        iat: now.as_second(),
        iss: ISSUER.to_owned(),
        jti: crate::registry::new_uid()?,
        kubernetes: bind(registry, namespace, account, request)?,
        nbf: now.as_second(),
        sub: format!("system:serviceaccount:{namespace}:{account}"),
    };
    let token = authority.tokens().sign(&claims).ok_or_else(|| ApiError::internal("the token could not be signed"))?;
    Ok(IssuedToken { token, expires_at, audiences, expiration_seconds: seconds })
}

fn bind(
    registry: &Registry,
    namespace: &str,
    account: &str,
    request: &TokenRequest,
) -> Result<KubernetesClaims, ApiError> {
    let found = get(registry, "serviceaccounts", namespace, account)?;
    let mut claims = KubernetesClaims {
        namespace: namespace.to_owned(),
        serviceaccount: bound(&found),
        ..KubernetesClaims::default()
    };
    let Some((kind, name, uid)) = &request.bound else { return Ok(claims) };
    let plural = match kind.as_str() {
        "Pod" => "pods",
        "Secret" => "secrets",
        other => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount to object of kind {other:?}"
            )));
        }
    };
    let found = get(registry, plural, namespace, name)?;
    let object = bound(&found);
    if uid.as_ref().is_some_and(|uid| *uid != object.uid) {
        let resource = ResourceType::find("", "v1", plural).ok_or_else(|| ApiError::internal(plural))?;
        let given = uid.as_deref().unwrap_or_default();
        let detail = format!(
            "the UID in the bound object reference ({given}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(resource, name, &detail));
    }
    if plural == "secrets" {
        claims.secret = Some(object);
        return Ok(claims);
    }
    claims.pod = Some(object);
    claims.node = value::text(&found, "/spec/nodeName")
        .and_then(|node| get(registry, "nodes", "", node).ok())
        .map(|node| bound(&node));
    Ok(claims)
}

fn bound(object: &Value) -> Bound {
    let text = |pointer: &str| value::text(object, pointer).unwrap_or_default().to_owned();
    Bound { name: text("/metadata/name"), uid: text("/metadata/uid") }
}

fn get(registry: &Registry, plural: &str, namespace: &str, name: &str) -> Result<std::sync::Arc<Value>, ApiError> {
    let resource = ResourceType::find("", "v1", plural).ok_or_else(|| ApiError::internal(plural))?;
    registry.get(resource, namespace, name)
}
