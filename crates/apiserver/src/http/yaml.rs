//! YAML bodies.

use serde_json::Value;

use crate::error::ApiError;

/// Reads one YAML document.
pub(super) fn read(_text: &str) -> Result<Value, ApiError> {
    Err(super::body::unsupported("application/yaml", &["application/json"]))
}
