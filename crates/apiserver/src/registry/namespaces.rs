//! What stands in every cluster and in every namespace without anybody asking for it.

use serde_json::{Value, json};

use super::{Registry, WriteOptions};
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

///
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const ROOT_CERTIFICATES: &str = "kube-root-ca.crt";
const DEFAULT_ACCOUNT: &str = "default";

impl Registry {
    /// Makes the namespaces that every cluster has, with what belongs into each; what is there already stays.
    pub async fn bootstrap(&self) -> Result<(), ApiError> {
        let namespaces = self.namespaces()?;
        for name in FIRST_NAMESPACES {
            let namespace = json!({"metadata": {"name": name}});
            match self.create(namespaces, "", namespace, &WriteOptions::default()).await {
                Err(error) if error.is_already_exists() => self.furnish(name).await?,
                answer => {
                    answer?;
                }
            }
        }
        Ok(())
    }

    /// Follows the creation of an object with what comes with it.
    pub(super) async fn after_create(&self, resource: &ResourceType, object: &Value) -> Result<(), ApiError> {
        match (resource.kind, value::text(object, "/metadata/name")) {
            ("Namespace", Some(name)) => self.furnish(name).await,
            ("Event", _) => {
                self.expire_events(resource).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Follows the removal of an object: what every namespace has comes back.
    pub(super) async fn after_delete(&self, resource: &ResourceType, object: &Value) {
        let name = value::text(object, "/metadata/name");
        let furniture = matches!(
            (resource.kind, name),
            ("ServiceAccount", Some(DEFAULT_ACCOUNT)) | ("ConfigMap", Some(ROOT_CERTIFICATES))
        );
        let Some(namespace) = value::text(object, "/metadata/namespace").filter(|_| furniture) else { return };
        // A namespace that is going away or gone refuses, as it should; anything else is worth a line, but the removal stands.
        if let Err(error) = self.furnish(namespace).await
            && !error.is_not_found()
            && error.code() != 403
        {
            tracing::warn!(%error, namespace, "could not put back what belongs into the namespace");
        }
    }

    /// The default service account and the root certificates of one namespace.
    async fn furnish(&self, namespace: &str) -> Result<(), ApiError> {
        let account = json!({"metadata": {"name": DEFAULT_ACCOUNT}});
        self.ensure("serviceaccounts", namespace, account).await?;
        if let Some(certificates) = &self.options.root_certificates {
            let description = "Contains a CA bundle that can be used to verify the API server, such as when using internal endpoints.";
            let annotations = json!({"kubernetes.io/description": description});
            let config = json!({
                "metadata": {"name": ROOT_CERTIFICATES, "annotations": annotations},
                "data": {"ca.crt": certificates},
            });
            self.ensure("configmaps", namespace, config).await?;
        }
        Ok(())
    }

    /// Boxed, since creating a namespace furnishes it, which creates again.
    fn ensure<'a>(
        &'a self,
        plural: &'a str,
        namespace: &'a str,
        object: Value,
    ) -> futures::future::BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let resource = ResourceType::find("", "v1", plural).ok_or_else(|| ApiError::internal(plural))?;
            match self.create(resource, namespace, object, &WriteOptions::default()).await {
                Err(error) if !error.is_already_exists() => Err(error),
                _ => Ok(()),
            }
        })
    }

    pub(super) fn namespaces(&self) -> Result<&'static ResourceType, ApiError> {
        ResourceType::find("", "v1", "namespaces").ok_or_else(|| ApiError::internal("namespaces are not served"))
    }
}
