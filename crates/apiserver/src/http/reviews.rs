//! Questions about rights and identity: answered by POST, stored nowhere.

use http::StatusCode;
use serde_json::{Value, json};

use super::front::{Front, Incoming};
use super::resources::read_object;
use super::respond::{self, Answered};
use crate::auth::{Attributes, User, rbac};
use crate::codec;
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// Answers a review.
pub(super) async fn answer(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    if request.info.verb != "create" || !request.info.name.is_empty() {
        return Err(ApiError::method_not_allowed(&request.info.verb, &resource.qualified()));
    }
    let accepted = request.accepted()?;
    let user = request.user.clone();
    let (sent, _, namespace) = read_object(request).await?;
    let decoded = codec::decode(resource, sent.object);
    let mut review = decoded.map_err(|error| ApiError::bad_request(error.to_string()))?.object;
    let status = match resource.kind {
        "SelfSubjectReview" => json!({"userInfo": user.to_json()}),
        "SelfSubjectAccessReview" => decide(front, &user, &review),
        "SelfSubjectRulesReview" => {
            let namespace = value::text(&review, "/spec/namespace").unwrap_or_default();
            rbac::rules_review(&rbac::rules_for(&front.registry, &user, namespace))
        }
        "SubjectAccessReview" => decide(front, &subject(&review), &review),
        "LocalSubjectAccessReview" => {
            check_namespace(&review, &namespace)?;
            decide(front, &subject(&review), &review)
        }
        "TokenReview" => review_token(front, &review),
        other => return Err(ApiError::internal(format!("{other} has no answer"))),
    };
    value::set(&mut review, &["status"], status);
    value::set(&mut review, &["apiVersion"], json!(resource.api_version()));
    value::set(&mut review, &["kind"], json!(resource.kind));
    respond::object(StatusCode::CREATED, accepted.format, &review)
}

fn decide(front: &Front, user: &User, review: &Value) -> Value {
    let wanted = attributes(review);
    let decision = rbac::authorize(&front.registry, user, &wanted);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        value::set(&mut status, &["reason"], json!(decision.reason));
    }
    status
}

fn attributes(review: &Value) -> Attributes {
    let text = |pointer: &str| value::text(review, pointer).unwrap_or_default().to_owned();
    if let Some(path) = value::text(review, "/spec/nonResourceAttributes/path") {
        let verb = text("/spec/nonResourceAttributes/verb");
        return Attributes { verb, path: Some(path.to_owned()), ..Attributes::default() };
    }
    Attributes {
        verb: text("/spec/resourceAttributes/verb"),
        path: None,
        group: text("/spec/resourceAttributes/group"),
        resource: text("/spec/resourceAttributes/resource"),
        subresource: text("/spec/resourceAttributes/subresource"),
        namespace: text("/spec/resourceAttributes/namespace"),
        name: text("/spec/resourceAttributes/name"),
    }
}

fn subject(review: &Value) -> User {
    User {
        name: value::text(review, "/spec/user").unwrap_or_default().to_owned(),
        uid: value::text(review, "/spec/uid").map(str::to_owned),
        groups: value::texts(review, "/spec/groups"),
        ..User::default()
    }
}

fn check_namespace(review: &Value, namespace: &str) -> Result<(), ApiError> {
    if value::text(review, "/spec/resourceAttributes/namespace") == Some(namespace) {
        return Ok(());
    }
    let message = "spec.resourceAttributes.namespace must match the namespace of the request";
    Err(ApiError::bad_request(message))
}

fn review_token(front: &Front, review: &Value) -> Value {
    let token = value::text(review, "/spec/token").unwrap_or_default();
    let wanted = value::texts(review, "/spec/audiences");
    let wanted = if wanted.is_empty() { vec![crate::auth::token::ISSUER.to_owned()] } else { wanted };
    let claims = front.authority.tokens().verify(token, front.registry.now());
    let audiences: Vec<String> = claims
        .iter()
        .flat_map(|claims| claims.aud.iter())
        .filter(|audience| wanted.contains(audience))
        .cloned()
        .collect();
    let user = claims.filter(|_| !audiences.is_empty()).and_then(|claims| User::from_claims(&front.registry, &claims));
    match user {
        Some(user) => json!({"authenticated": true, "user": user.to_json(), "audiences": audiences}),
        None => json!({"authenticated": false, "user": {}}),
    }
}
