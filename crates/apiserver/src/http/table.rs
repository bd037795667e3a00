//! Rows and columns: the kinds' printers of `api`, as JSON.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::resource::ResourceType;

/// A rendered Table without its frame.
pub(super) struct Rendered {
    /// `columnDefinitions`.
    pub(super) columns: Vec<Value>,
    /// `rows`, without objects, one for each object given.
    pub(super) rows: Vec<Value>,
}

/// Renders objects of one resource.
pub(super) fn render(_resource: &ResourceType, objects: &[Arc<Value>], _now: Timestamp) -> Result<Rendered, ApiError> {
    let columns = vec![
        json!({"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}),
        json!({"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0}),
    ];
    let rows = objects.iter().map(|object| {
        let cell = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
        json!({"cells": [cell("/metadata/name"), cell("/metadata/creationTimestamp")]})
    });
    Ok(Rendered { columns, rows: rows.collect() })
}
