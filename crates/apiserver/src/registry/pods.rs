//! What can be done to pods besides reading and writing them: binding and eviction.

use serde_json::{Value, json};

use super::{Answer, DeleteOptions, Deleted, Part, Registry, WriteOptions, metadata};
use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

impl Registry {
    /// Binds a pod to a node: sets `spec.nodeName` and the condition PodScheduled.
    ///
    /// Fails with 409 if it is bound or being deleted, or has another uid than the one given.
    pub async fn bind(&self, namespace: &str, name: &str, uid: Option<&str>, node: &str) -> Result<Answer, ApiError> {
        let pods = self.pods()?;
        let now = metadata::time_text(self.now());
        self.patch_with(pods, namespace, name, Part::Binding, &WriteOptions::default(), |pod| {
            check_bindable(pods, pod, name, uid)?;
            let mut pod = pod.clone();
            value::set(&mut pod, &["spec", "nodeName"], Value::String(node.to_owned()));
            set_condition(&mut pod, json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
            Ok(pod)
        })
        .await
    }

    /// Evicts a pod: marks the disruption and deletes it with the options given.
    pub async fn evict(&self, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let pods = self.pods()?;
        let now = metadata::time_text(self.now());
        if !options.dry_run {
            self.patch_with(pods, namespace, name, Part::Status, &WriteOptions::default(), |pod| {
                let mut pod = pod.clone();
                if !matches!(value::text(&pod, "/status/phase"), Some("Succeeded" | "Failed")) {
                    let condition = json!({"type": "DisruptionTarget", "status": "True", "lastTransitionTime": now,
                        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"});
                    set_condition(&mut pod, condition);
                }
                Ok(pod)
            })
            .await?;
        }
        self.delete(pods, namespace, name, options).await
    }

    pub(super) fn pods(&self) -> Result<&'static ResourceType, ApiError> {
        ResourceType::find("", "v1", "pods").ok_or_else(|| ApiError::internal("pods are not served"))
    }
}

fn check_bindable(pods: &ResourceType, pod: &Value, name: &str, uid: Option<&str>) -> Result<(), ApiError> {
    let found = value::text(pod, "/metadata/uid").unwrap_or_default();
    if let Some(uid) = uid.filter(|uid| *uid != found) {
        let detail = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
        return Err(ApiError::conflict(pods, name, &detail));
    }
    if value::is_set(pod, "/metadata/deletionTimestamp") {
        return Err(ApiError::conflict(
            pods,
            name,
            &format!("pod {name} is being deleted, cannot be assigned to a host"),
        ));
    }
    match value::text(pod, "/spec/nodeName") {
        Some(node) => {
            let detail = format!("pod {name} is already assigned to node \"{node}\"");
            Err(ApiError::conflict(pods, name, &detail))
        }
        None => Ok(()),
    }
}

/// Puts a condition into `status.conditions`; one of the same type and status keeps its time of transition.
fn set_condition(pod: &mut Value, mut condition: Value) {
    let mut conditions = pod.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    match conditions.iter_mut().find(|old| old.get("type") == condition.get("type")) {
        Some(old) => {
            if old.get("status") == condition.get("status") {
                value::copy(old, &mut condition, &["lastTransitionTime"]);
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    value::set(pod, &["status", "conditions"], Value::Array(conditions));
}
