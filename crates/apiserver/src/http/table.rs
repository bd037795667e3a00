//! Rows and columns: the kinds' printers of `api`, as JSON.

use std::sync::Arc;

use api::printers::{Column, Printer};
use jiff::Timestamp;
use serde_json::Value;

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
pub(super) fn render(resource: &ResourceType, objects: &[Arc<Value>], now: Timestamp) -> Result<Rendered, ApiError> {
    let printer = Printer::of(resource.group, resource.kind);
    let rows: Result<Vec<Value>, _> = objects.iter().map(|object| Ok(printer.row(object, now)?.to_json())).collect();
    let rows = rows.map_err(|error: serde_json::Error| ApiError::internal(error))?;
    Ok(Rendered { columns: printer.columns.iter().map(Column::to_json).collect(), rows })
}
