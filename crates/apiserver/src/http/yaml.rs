//! YAML bodies, by the reader of manifests.

use serde_json::Value;

use crate::error::ApiError;

/// Reads one object.
pub(super) fn read(text: &str) -> Result<Value, ApiError> {
    let (mut objects, diagnostics) = api::manifest::read("body", text);
    let wrong = diagnostics.iter().find(|found| found.severity == api::manifest::Severity::Error);
    match (objects.pop(), wrong, objects.is_empty()) {
        (_, Some(wrong), _) => {
            Err(ApiError::bad_request(format!("the object provided is not valid YAML: {}", wrong.message)))
        }
        (Some(object), None, true) => Ok(object.value),
        _ => Err(ApiError::bad_request("exactly one object must be sent")),
    }
}
