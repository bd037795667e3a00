//! The registry with Rust types, for callers in process.
//!
//! Each function is the one of the same name in [`crate::registry`] with the resource taken from the type.

use std::sync::Arc;

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DeleteOptions, Deleted, ListOptions, Part, Registry, Selection, WriteOptions};
use crate::error::ApiError;
use crate::resource::ResourceType;

/// A Kubernetes type with metadata, as `k8s-openapi` has them.
pub trait Object: Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned {}

impl<K: Metadata<Ty = ObjectMeta> + Serialize + DeserializeOwned> Object for K {}

impl Registry {
    /// Reads one object; `None` if it is not there.
    pub fn get_typed<K: Object>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        match self.get(resource_of::<K>()?, namespace, name) {
            Ok(object) => Ok(Some(typed(&object)?)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the selected objects of a namespace, or of all.
    pub fn list_typed<K: Object>(&self, namespace: Option<&str>, selection: Selection) -> Result<Vec<K>, ApiError> {
        let list = self.list(resource_of::<K>()?, namespace, &ListOptions::select(selection))?;
        list.objects.iter().map(|object| typed(object)).collect()
    }

    /// Creates an object in the namespace of its metadata (`default` if it has none).
    pub async fn create_typed<K: Object>(&self, object: &K) -> Result<K, ApiError> {
        let namespace = namespace(object);
        let answer = self.create(resource_of::<K>()?, namespace, json(object)?, &WriteOptions::default()).await?;
        typed(&answer.object)
    }

    /// Replaces an object; conditional if it carries its `resourceVersion`.
    pub async fn update_typed<K: Object>(&self, object: &K) -> Result<K, ApiError> {
        self.write_typed(object, Part::Main).await
    }

    /// Replaces an object's status; conditional if it carries its `resourceVersion`.
    pub async fn update_status_typed<K: Object>(&self, object: &K) -> Result<K, ApiError> {
        self.write_typed(object, Part::Status).await
    }

    /// Deletes an object.
    pub async fn delete_typed<K: Object>(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        self.delete(resource_of::<K>()?, namespace, name, options).await
    }

    async fn write_typed<K: Object>(&self, object: &K, part: Part) -> Result<K, ApiError> {
        let namespace = namespace(object);
        let answer = self.update(resource_of::<K>()?, namespace, part, json(object)?, &WriteOptions::default()).await?;
        typed(&answer.object)
    }
}

fn resource_of<K: Object>() -> Result<&'static ResourceType, ApiError> {
    ResourceType::of::<K>().ok_or_else(|| ApiError::internal(format!("{} {} is not served", K::API_VERSION, K::KIND)))
}

fn namespace<K: Object>(object: &K) -> &str {
    object.metadata().namespace.as_deref().unwrap_or("default")
}

fn json<K: Object>(object: &K) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::internal)
}

fn typed<K: Object>(object: &Arc<Value>) -> Result<K, ApiError> {
    K::deserialize(&**object)
        .map_err(|error| ApiError::internal(format!("a stored {} cannot be read: {error}", K::KIND)))
}
