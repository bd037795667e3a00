//! Events on their way to the API: one task writes them in their order, so that recording one never waits.
//!
//! Counting and gathering of equal events is the adapter's, which sees those of others too.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use lifecycle::{PodEvent, PodRef};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::world::answered;
use crate::cluster::{Cluster, ClusterError};

/// So many events wait at most; what comes on top is lost, as in the kubelet.
const QUEUE_MAX: usize = 1000;
/// How long the last events of an agent that stops may take.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(5);

/// Takes events.
#[derive(Clone, Debug)]
pub(super) struct EventRecorder {
    queue: mpsc::Sender<Event>,
    node_name: String,
}

/// The task that writes them.
#[derive(Debug)]
pub(super) struct EventWriter {
    task: JoinHandle<()>,
    last: CancellationToken,
}

impl EventRecorder {
    pub(super) fn start(cluster: std::sync::Arc<dyn Cluster>, node_name: &str) -> (EventRecorder, EventWriter) {
        let (queue, mut events) = mpsc::channel::<Event>(QUEUE_MAX);
        let last = CancellationToken::new();
        let ended = last.clone();
        let task = tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    biased;
                    event = events.recv() => event,
                    // What was recorded by then is still written.
                    () = ended.cancelled(), if !events.is_closed() => {
                        events.close();
                        continue;
                    }
                };
                let Some(event) = event else { break };
                match answered(cluster.record_event(event)).await {
                    Ok(()) | Err(ClusterError::Gone { .. }) => {}
                    Err(error) => tracing::warn!(%error, "an event was not recorded"),
                }
            }
        });
        (EventRecorder { queue, node_name: node_name.to_owned() }, EventWriter { task, last })
    }

    /// Has an event written.
    pub(super) fn record(&self, pod: &PodRef, event: PodEvent) {
        let event = to_api(&self.node_name, Timestamp::now(), pod, event);
        if self.queue.try_send(event).is_err() {
            tracing::warn!(pod = pod.name, "too many events wait to be recorded; one is lost");
        }
    }

    /// A Warning about the pod itself.
    pub(super) fn warn(&self, pod: &PodRef, reason: &str, message: String) {
        let reason = reason.to_owned();
        self.record(pod, PodEvent { field_path: String::new(), warning: true, reason, message });
    }
}

impl EventWriter {
    /// Takes no more events, and waits until everything is written, within limits.
    pub(super) async fn finish(mut self) {
        self.last.cancel();
        if tokio::time::timeout(LAST_WORDS_PATIENCE, &mut self.task).await.is_err() {
            tracing::warn!("the last events were not recorded in time");
            self.task.abort();
        }
    }
}

/// The event as the API has it (L-1001).
fn to_api(node_name: &str, now: Timestamp, pod: &PodRef, event: PodEvent) -> Event {
    let now = Some(Time(now));
    Event {
        metadata: ObjectMeta { namespace: Some(pod.namespace.clone()), ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.0.clone()),
            field_path: Some(event.field_path).filter(|path| !path.is_empty()),
            ..ObjectReference::default()
        },
        type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(event.reason),
        message: Some(event.message),
        source: Some(EventSource { component: Some("kubelet".to_owned()), host: Some(node_name.to_owned()) }),
        reporting_component: Some("kubelet".to_owned()),
        reporting_instance: Some(node_name.to_owned()),
        first_timestamp: now.clone(),
        last_timestamp: now,
        count: Some(1),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use lifecycle::PodUid;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_names_pod_container_and_node() -> Result<(), Box<dyn std::error::Error>> {
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid("1-2".into()) };
        let event = PodEvent {
            field_path: "spec.containers{app}".into(),
            warning: true,
            reason: "Unhealthy".into(),
            message: "Liveness probe failed: ".into(),
        };
        let time = "2026-01-01T00:00:00Z";
        let expected = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "shop"},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web", "uid": "1-2",
                               "fieldPath": "spec.containers{app}"},
            "type": "Warning", "reason": "Unhealthy", "message": "Liveness probe failed: ",
            "source": {"component": "kubelet", "host": "node-1"},
            "reportingComponent": "kubelet", "reportingInstance": "node-1",
            "firstTimestamp": time, "lastTimestamp": time, "count": 1,
        });
        assert_eq!(serde_json::to_value(to_api("node-1", time.parse()?, &pod, event))?, expected);
        Ok(())
    }
}
