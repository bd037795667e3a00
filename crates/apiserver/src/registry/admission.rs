//! Admission: what a write needs of other objects.

use api::admission;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::Deserialize as _;
use serde_json::Value;

use super::{Registry, Selection, random};
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

impl Registry {
    /// Lets a new object in, filled in, or refuses it.
    pub(super) fn admit_create(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        if resource.namespaced {
            self.check_namespace(resource, namespace, &object)?;
        }
        if resource.kind == "Pod" { self.admit_pod(resource, namespace, &object) } else { Ok(object) }
    }

    /// Gives a pod its priority, its tolerations, its account and that account's token.
    fn admit_pod(&self, pods: &ResourceType, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = value::text(object, "/metadata/name").unwrap_or_default();
        let mut pod = Pod::deserialize(object).map_err(ApiError::internal)?;
        let refused = |detail: &dyn std::fmt::Display| ApiError::forbidden(pods, name, &detail.to_string());
        let classes = self.list_typed::<PriorityClass>(None, Selection::all())?;
        admission::set_priority(&mut pod, &classes).map_err(|error| refused(&error))?;
        admission::add_default_tolerations(&mut pod);
        let account: Option<ServiceAccount> = self.get_typed(namespace, admission::name_service_account(&pod))?;
        let mut account = account;
        if let Some(account) = account.as_mut().filter(|_| !self.options.mount_tokens) {
            // Nobody here can issue tokens: none is mounted where nobody asked for it.
            account.automount_service_account_token.get_or_insert(false);
        }
        admission::set_service_account(&mut pod, account.as_ref(), &random::suffix()?)
            .map_err(|error| refused(&error))?;
        serde_json::to_value(pod).map_err(ApiError::internal)
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
