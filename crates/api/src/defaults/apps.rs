//! Defaults of the workloads that keep pods running.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{core, pod};
use crate::absent::{default_text, items_mut, text};

const REVISION_HISTORY_LIMIT: i32 = 10;
const PROGRESS_DEADLINE_SECONDS: i32 = 600;

/// Fills in a Deployment.
pub fn deployment(deployment: &mut Deployment) {
    let spec = &mut deployment.spec;
    spec.replicas.get_or_insert(1);
    let strategy = spec.strategy.get_or_insert_default();
    default_text(&mut strategy.type_, "RollingUpdate");
    if text(&strategy.type_) == "RollingUpdate" {
        let quarter = || IntOrString::String("25%".to_owned());
        let rolling_update = strategy.rolling_update.get_or_insert_default();
        rolling_update.max_unavailable.get_or_insert_with(quarter);
        rolling_update.max_surge.get_or_insert_with(quarter);
    }
    spec.revision_history_limit.get_or_insert(REVISION_HISTORY_LIMIT);
    spec.progress_deadline_seconds.get_or_insert(PROGRESS_DEADLINE_SECONDS);
    pod::template(&mut spec.template);
    deployment.status.get_or_insert_default();
}

/// Fills in a ReplicaSet.
pub fn replica_set(replica_set: &mut ReplicaSet) {
    let spec = &mut replica_set.spec;
    spec.replicas.get_or_insert(1);
    pod::template(spec.template.get_or_insert_default());
    replica_set.status.get_or_insert_default();
}

/// Fills in a DaemonSet.
pub fn daemon_set(daemon_set: &mut DaemonSet) {
    let spec = &mut daemon_set.spec;
    let strategy = spec.update_strategy.get_or_insert_default();
    default_text(&mut strategy.type_, "RollingUpdate");
    if text(&strategy.type_) == "RollingUpdate" {
        let rolling_update = strategy.rolling_update.get_or_insert_default();
        rolling_update.max_unavailable.get_or_insert(IntOrString::Int(1));
        rolling_update.max_surge.get_or_insert(IntOrString::Int(0));
    }
    spec.revision_history_limit.get_or_insert(REVISION_HISTORY_LIMIT);
    pod::template(&mut spec.template);
    daemon_set.status.get_or_insert_default();
}

/// Fills in a StatefulSet.
pub fn stateful_set(stateful_set: &mut StatefulSet) {
    let spec = &mut stateful_set.spec;
    default_text(&mut spec.pod_management_policy, "OrderedReady");
    let strategy = spec.update_strategy.get_or_insert_default();
    if text(&strategy.type_).is_empty() {
        strategy.type_ = Some("RollingUpdate".to_owned());
        strategy.rolling_update.get_or_insert_default();
    }
    if let Some(rolling_update) = strategy.rolling_update.as_mut().filter(|_| text(&strategy.type_) == "RollingUpdate")
    {
        rolling_update.partition.get_or_insert(0);
    }
    let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
    default_text(&mut retention.when_deleted, "Retain");
    default_text(&mut retention.when_scaled, "Retain");
    spec.replicas.get_or_insert(1);
    spec.revision_history_limit.get_or_insert(REVISION_HISTORY_LIMIT);
    items_mut(&mut spec.volume_claim_templates).iter_mut().for_each(core::persistent_volume_claim);
    pod::template(&mut spec.template);
    stateful_set.status.get_or_insert_default();
}

/// Fills in a ReplicationController, whose selector and labels default to the template's labels.
pub fn replication_controller(controller: &mut ReplicationController) {
    let spec = controller.spec.get_or_insert_default();
    let labels = spec.template.as_ref().and_then(|template| template.metadata.as_ref()?.labels.clone());
    if let Some(labels) = labels.filter(|labels| !labels.is_empty()) {
        if spec.selector.as_ref().is_none_or(|selector| selector.is_empty()) {
            spec.selector = Some(labels.clone());
        }
        if controller.metadata.labels.as_ref().is_none_or(|own| own.is_empty()) {
            controller.metadata.labels = Some(labels);
        }
    }
    spec.replicas.get_or_insert(1);
    spec.template.as_mut().map(pod::template);
    controller.status.get_or_insert_default();
}
