//! How objects are shown to a client: whole, as metadata alone, or as rows of a Table.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::negotiate::Shape;
use super::query::{Query, invalid};
use super::table;
use crate::error::ApiError;
use crate::registry::{Clock, List};
use crate::resource::ResourceType;

/// What goes into a Table's rows besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum IncludeObject {
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the query's `includeObject`.
    pub(super) fn of(query: &Query) -> Result<Self, ApiError> {
        match query.get("includeObject") {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("Object") => Ok(Self::Object),
            Some("None") => Ok(Self::None),
            Some(other) => {
                let message =
                    format!("Unsupported value: \"{other}\": supported values: \"Metadata\", \"Object\", \"None\"");
                Err(invalid("includeObject", "FieldValueNotSupported", &message))
            }
        }
    }
}

/// Shows objects of one resource in the shape that a client asked for.
pub(super) struct Presenter {
    resource: &'static ResourceType,
    shape: Shape,
    include: IncludeObject,
    clock: Clock,
    /// In a watch only the first Table names the columns.
    columns_told: bool,
}

impl Presenter {
    /// A presenter for one request.
    pub(super) fn new(resource: &'static ResourceType, shape: Shape, include: IncludeObject, clock: Clock) -> Self {
        Self { resource, shape, include, clock, columns_told: false }
    }

    /// One object.
    pub(super) fn one(&self, object: &Arc<Value>) -> Result<Arc<Value>, ApiError> {
        match self.shape {
            Shape::Plain => Ok(Arc::clone(object)),
            Shape::Metadata => Ok(metadata_only(object).into()),
            Shape::Table => {
                let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
                Ok(self.table(std::slice::from_ref(object), json!({"resourceVersion": version}), true)?.into())
            }
        }
    }

    /// A list.
    pub(super) fn list(&self, list: &List) -> Result<Value, ApiError> {
        let mut metadata = json!({"resourceVersion": list.revision.to_string()});
        if let Some(token) = &list.continue_token {
            crate::value::set(&mut metadata, &["continue"], json!(token));
        }
        if let Some(remaining) = list.remaining {
            crate::value::set(&mut metadata, &["remainingItemCount"], json!(remaining));
        }
        match self.shape {
            Shape::Table => self.table(&list.objects, metadata, true),
            Shape::Metadata => {
                let items: Vec<Value> = list.objects.iter().map(|object| metadata_only(object)).collect();
                let kind = "PartialObjectMetadataList";
                Ok(json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}))
            }
            Shape::Plain => {
                let kind = format!("{}List", self.resource.kind);
                let items: Vec<Value> = list.objects.iter().map(|object| Value::clone(object)).collect();
                Ok(
                    json!({"kind": kind, "apiVersion": self.resource.api_version(), "metadata": metadata, "items": items}),
                )
            }
        }
    }

    /// An object of a watch's event.
    pub(super) fn watched(&mut self, object: &Arc<Value>) -> Result<Arc<Value>, ApiError> {
        if self.shape != Shape::Table {
            return self.one(object);
        }
        let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
        let columns = !std::mem::replace(&mut self.columns_told, true);
        Ok(self.table(std::slice::from_ref(object), json!({"resourceVersion": version}), columns)?.into())
    }

    /// A bookmark's object.
    pub(super) fn bookmark(&mut self, object: Value) -> Result<Value, ApiError> {
        match self.shape {
            Shape::Plain => Ok(object),
            Shape::Metadata => Ok(metadata_only(&object)),
            Shape::Table => {
                let metadata = object.pointer("/metadata").cloned().unwrap_or_default();
                let columns = !std::mem::replace(&mut self.columns_told, true);
                self.table(&[], metadata, columns)
            }
        }
    }

    fn table(&self, objects: &[Arc<Value>], metadata: Value, columns: bool) -> Result<Value, ApiError> {
        let now: Timestamp = (self.clock)();
        let mut rendered = table::render(self.resource, objects, now)?;
        if !columns {
            rendered.columns.clear();
        }
        let rows = rendered.rows.into_iter().zip(objects).map(|(mut row, object)| {
            let object = match self.include {
                IncludeObject::Metadata => metadata_only(object),
                IncludeObject::Object => Value::clone(object),
                IncludeObject::None => return row,
            };
            crate::value::set(&mut row, &["object"], object);
            row
        });
        let rows: Vec<Value> = rows.collect();
        Ok(json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": rendered.columns, "rows": rows}))
    }
}

/// The object as `PartialObjectMetadata`.
pub(super) fn metadata_only(object: &Value) -> Value {
    let metadata = object.pointer("/metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
