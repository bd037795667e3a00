//! PATCH: four kinds of change to a stored object.

use super::front::{Front, Incoming};
use super::respond::Answered;
use super::{body, resources};
use crate::error::ApiError;
use crate::registry::Part;
use crate::resource::ResourceType;
use serde_json::Value;

/// What a client may send.
const MEDIA_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

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
    let change: Box<dyn Fn(&Value) -> Result<Value, ApiError> + Send + Sync> = match media_type.as_str() {
        "application/merge-patch+json" => {
            let patch = body::decode_json(&bytes)?.object;
            Box::new(move |old| {
                let mut new = old.clone();
                merge(&mut new, &patch);
                Ok(new)
            })
        }
        other => return Err(body::unsupported(other, &MEDIA_TYPES)),
    };
    let answer = front.registry.patch_with(resource, &namespace, &name, part, &options, change).await?;
    resources::written(front, resource, accepted, &query, &answer)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
