//! Admission: what a write needs of other objects.

use serde_json::Value;

use super::{Part, Registry};
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

impl Registry {
    /// Lets a new object in, or refuses it; may fill it in.
    pub(super) fn admit_create(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if resource.namespaced {
            self.check_namespace(resource, namespace, object)?;
        }
        Ok(())
    }

    /// Lets a change in, or refuses it.
    pub(super) fn admit_update(
        &self,
        _resource: &ResourceType,
        _part: Part,
        _old: &Value,
        _new: &Value,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    /// the namespace must be there and not on its way out.
    fn check_namespace(&self, resource: &ResourceType, namespace: &str, object: &Value) -> Result<(), ApiError> {
        let namespaces = self.namespaces()?;
        let found = self.stored(namespaces, "", namespace)?;
        if !value::is_set(&found.object, "/metadata/deletionTimestamp") {
            return Ok(());
        }
        let name = value::text(object, "/metadata/name").unwrap_or_default();
        let detail = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        Err(ApiError::forbidden(resource, name, &detail).with_cause(
            "NamespaceTerminating",
            &message,
            "metadata.namespace",
        ))
    }
}
