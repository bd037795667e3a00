//! PATCH: four kinds of change to a stored object.

use api::merge::{self, PatchError, PatchFault};
use serde_json::Value;

use super::front::{Front, Incoming};
use super::query::invalid;
use super::respond::Answered;
use super::{body, resources};
use crate::error::ApiError;
use crate::registry::{Configuration, Part};
use crate::resource::ResourceType;

/// What a client may send.
const MEDIA_TYPES: [&str; 4] =
    ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", APPLY];
/// Server-side apply.
const APPLY: &str = "application/apply-patch+yaml";

/// Answers a PATCH.
pub(super) async fn answer(front: &Front, resource: &'static ResourceType, part: Part, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let options = request.query.write_options(request.user_agent())?;
    let media_type = body::media_type(&request.parts.headers);
    if !MEDIA_TYPES.contains(&media_type.as_str()) {
        return Err(body::unsupported(&media_type, &MEDIA_TYPES));
    }
    let (namespace, name) = (request.info.namespace.clone(), request.info.name.clone());
    let bytes = body::read(request.body).await?;
    let query = request.query;
    if media_type == APPLY {
        let object = body::decode_yaml(&bytes)?.object;
        if query.get("fieldManager").is_none() {
            let message = "Required value: is required for apply patch";
            return Err(invalid("fieldManager", "FieldValueRequired", message));
        }
        let configuration = Configuration { object, force: query.flag("force") };
        let registry = &front.registry;
        let answer = registry.apply(resource, &namespace, &name, part, configuration, &options).await?;
        return resources::written(front, resource, accepted, &query, &answer);
    }
    if query.get("force").is_some() {
        return Err(invalid("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch"));
    }
    let change = change(resource, &media_type, &bytes)?;
    let answer = front.registry.patch_with(resource, &namespace, &name, part, &options, change).await?;
    resources::written(front, resource, accepted, &query, &answer)
}

/// A change, as a function of what is stored.
type Change = Box<dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync>;

fn change(resource: &'static ResourceType, media_type: &str, bytes: &[u8]) -> Result<Change, ApiError> {
    let patch = body::decode_json(bytes)?.object;
    let refuse = move |error: PatchError| refused(resource, &error);
    Ok(match media_type {
        "application/json-patch+json" => Box::new(move |old| merge::json_patch(old, &patch).map_err(refuse)),
        "application/merge-patch+json" => Box::new(move |old| merge::merge_patch(old, &patch).map_err(refuse)),
        _ => Box::new(move |old| {
            merge::strategic_merge_patch(resource.group, resource.kind, old, &patch).map_err(refuse)
        }),
    })
}

/// A patch that cannot be applied.
fn refused(resource: &ResourceType, error: &PatchError) -> ApiError {
    match error.fault() {
        PatchFault::Malformed => ApiError::bad_request(error.to_string()),
        PatchFault::TooLarge => ApiError::new(413, "RequestEntityTooLarge", error.to_string(), None),
        PatchFault::DoesNotFit => {
            let message = format!("the server rejected our request due to an error in our request: {error}");
            let details = k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails {
                group: (!resource.group.is_empty()).then(|| resource.group.to_owned()),
                kind: Some(resource.kind.to_owned()),
                ..Default::default()
            };
            ApiError::new(422, "Invalid", message, Some(details))
        }
    }
}
