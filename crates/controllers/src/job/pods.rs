//! What a pod is to its Job.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::object::{has_finalizer, is_being_deleted};
use crate::time::after_seconds;

/// The finalizer that keeps a pod until it is counted (J-62).
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The annotation and label that carry a pod's index (J-63).
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation that counts the failures of a pod's index (J-64).
pub const INDEX_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation that counts the ignored failures of a pod's index (J-64).
pub const INDEX_IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// `status.phase`.
pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// True if the pod ended well, whatever became of it afterwards (J-80).
pub(crate) fn has_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// True if the pod has ended.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// True if the pod runs or is to run (J-67).
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_being_deleted(&pod.metadata)
}

/// True if the pod was deleted and has not ended yet (J-100).
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && is_being_deleted(&pod.metadata)
}

/// True if the pod's condition Ready is True.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// True while the pod is yet to be counted.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    has_finalizer(&pod.metadata, TRACKING_FINALIZER)
}

/// True if a pod that is being deleted is replaced only when it has ended (J-99).
pub(crate) fn only_replaces_failed(job: &Job) -> bool {
    let Some(spec) = &job.spec else { return false };
    spec.pod_failure_policy.is_some() || spec.pod_replacement_policy.as_deref() == Some("Failed")
}

/// True if the pod counts as failed (J-78).
pub(crate) fn has_failed(pod: &Pod, job: &Job) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => is_being_deleted(&pod.metadata) && !only_replaces_failed(job),
    }
}

/// The owner reference of the pod's controller.
pub(crate) fn controller_of(pod: &Pod) -> Option<&OwnerReference> {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().find(|owner| owner.controller == Some(true))
}

/// The pod's completion index.
pub(crate) fn completion_index(pod: &Pod) -> Option<u32> {
    annotation(pod, COMPLETION_INDEX)?.parse().ok()
}

/// The counted failures of the pod's index before this pod (J-64).
pub(crate) fn index_failures(pod: &Pod) -> i32 {
    count(pod, INDEX_FAILURE_COUNT)
}

/// The ignored failures of the pod's index before this pod (J-64).
pub(crate) fn index_ignored_failures(pod: &Pod) -> i32 {
    count(pod, INDEX_IGNORED_FAILURE_COUNT)
}

fn count(pod: &Pod, key: &str) -> i32 {
    let number = annotation(pod, key).and_then(|text| text.parse().ok());
    number.filter(|number| *number >= 0).unwrap_or(0)
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready")
}

/// When the pod ended, as well as can be told (J-86).
pub(crate) fn finish_time(pod: &Pod) -> Timestamp {
    if let Some(moment) = last_container_end(pod) {
        return moment;
    }
    let not_ready = ready_condition(pod).filter(|condition| condition.status == "False");
    if let Some(since) = not_ready.and_then(|condition| condition.last_transition_time.as_ref()) {
        return since.0;
    }
    if let Some(deletion) = &pod.metadata.deletion_timestamp {
        let grace_seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        return after_seconds(deletion.0, grace_seconds.saturating_neg());
    }
    let creation = pod.metadata.creation_timestamp.as_ref();
    creation.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The end of the last container, sidecars included, if all have ended.
fn last_container_end(pod: &Pod) -> Option<Timestamp> {
    let sidecars = sidecar_names(pod);
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let init = status.init_container_statuses.iter().flatten();
    let mut latest = None;
    for container in containers.chain(init.filter(|one| sidecars.contains(one.name.as_str()))) {
        let terminated = container.state.as_ref()?.terminated.as_ref()?;
        let end = terminated.finished_at.as_ref()?.0;
        latest = latest.max(Some(end));
    }
    latest
}

fn sidecar_names(pod: &Pod) -> BTreeSet<&str> {
    let init = pod.spec.iter().flat_map(|spec| &spec.init_containers);
    init.flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect()
}

/// Restarts of all containers while the pod is Running or Pending (J-83).
pub(crate) fn restarts_in_place(pod: &Pod) -> i32 {
    if !matches!(phase(pod), "Running" | "Pending") {
        return 0;
    }
    let restarts = statuses(pod).map(|container| container.restart_count);
    restarts.fold(0, i32::saturating_add)
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

/// Orders surplus pods: who is deleted first comes first (J-68).
pub(crate) fn deletion_order(one: &Pod, other: &Pod) -> Ordering {
    let is_scheduled =
        |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().unwrap_or_default() != "");
    let progress = |pod: &Pod| match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    is_scheduled(one)
        .cmp(&is_scheduled(other))
        .then_with(|| progress(one).cmp(&progress(other)))
        .then_with(|| is_ready(one).cmp(&is_ready(other)))
        // Ready for a shorter time, restarted more often, created later: these go first.
        .then_with(|| ready_since(other).cmp(&ready_since(one)))
        .then_with(|| most_restarts(other).cmp(&most_restarts(one)))
        .then_with(|| created(other).cmp(&created(one)))
        .then_with(|| one.metadata.name.cmp(&other.metadata.name))
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    let creation = pod.metadata.creation_timestamp.as_ref();
    creation.map(|time| time.0)
}

/// The most restarts of an app container, then of a sidecar.
fn most_restarts(pod: &Pod) -> (i32, i32) {
    let sidecars = sidecar_names(pod);
    let Some(status) = &pod.status else {
        return (0, 0);
    };
    let most = |list: &Option<Vec<ContainerStatus>>, counts: &dyn Fn(&str) -> bool| {
        let statuses = list.iter().flatten().filter(|one| counts(&one.name));
        statuses.map(|one| one.restart_count).max().unwrap_or(0)
    };
    (
        most(&status.container_statuses, &|_| true),
        most(&status.init_container_statuses, &|name| sidecars.contains(name)),
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn terminated(name: &str, at: &str) -> serde_json::Value {
        serde_json::json!({"name": name, "state": {"terminated": {"exitCode": 0, "finishedAt": at}},
            "image": "", "imageID": "", "ready": false, "restartCount": 0})
    }

    #[test]
    fn j86_a_pods_end_is_told_by_its_containers_its_readiness_its_deletion_or_its_creation() {
        let (early, late) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z");
        let init = serde_json::json!([{"name": "init"}, {"name": "side", "restartPolicy": "Always"}]);
        let running = serde_json::json!({"name": "main", "state": {"running": {}}, "image": "", "imageID": "", "ready": true, "restartCount": 0});
        let cases = [
            (
                serde_json::json!({"spec": {"containers": [], "initContainers": init}, "status": {
                    "containerStatuses": [terminated("main", early)],
                    "initContainerStatuses": [terminated("init", "2026-01-01T00:00:30Z"), terminated("side", late)]}}),
                late,
            ),
            (
                serde_json::json!({"status": {"containerStatuses": [running], "conditions": [
                    {"type": "Ready", "status": "False", "lastTransitionTime": late}]}}),
                late,
            ),
            (
                serde_json::json!({"metadata": {"creationTimestamp": early, "deletionTimestamp": "2026-01-01T00:00:39Z",
                    "deletionGracePeriodSeconds": 30}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                late,
            ),
            (serde_json::json!({"metadata": {"creationTimestamp": late}}), late),
        ];
        for (value, wanted) in cases {
            assert_eq!(finish_time(&pod(value.clone())), wanted.parse().unwrap(), "{value}");
        }
    }

    #[test]
    fn j68_the_least_useful_pods_go_first() {
        let made = |name: &str, created: u8, spec: serde_json::Value, status: serde_json::Value| {
            let mut spec = spec;
            spec.as_object_mut().unwrap().insert("containers".into(), serde_json::json!([]));
            pod(
                serde_json::json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:0{created}Z")}, "spec": spec, "status": status}),
            )
        };
        let bound = || serde_json::json!({"nodeName": "n"});
        let ready = |since: &str, restarts: i32| {
            serde_json::json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                "containerStatuses": [{"name": "c", "restartCount": restarts, "image": "", "imageID": "", "ready": true}]})
        };
        let in_order = [
            made("unbound", 1, serde_json::json!({}), serde_json::json!({"phase": "Pending"})),
            made("pending", 1, bound(), serde_json::json!({"phase": "Pending"})),
            made("unknown", 1, bound(), serde_json::json!({"phase": "Unknown"})),
            made("unready", 1, bound(), serde_json::json!({"phase": "Running"})),
            made("ready-lately", 1, bound(), ready("2026-01-01T00:01:00Z", 0)),
            made("restarted", 1, bound(), ready("2026-01-01T00:00:30Z", 3)),
            made("young", 2, bound(), ready("2026-01-01T00:00:30Z", 0)),
            made("old", 1, bound(), ready("2026-01-01T00:00:30Z", 0)),
        ];
        let mut pods: Vec<&Pod> = in_order.iter().rev().collect();
        pods.sort_by(|one, other| deletion_order(one, other));
        let names = |pods: Vec<&Pod>| -> Vec<Option<String>> {
            pods.into_iter().map(|pod| pod.metadata.name.clone()).collect()
        };
        assert_eq!(names(pods), names(in_order.iter().collect()));
    }
}
