//! What the node refuses before it makes anything (L-617).

use std::collections::BTreeMap;

use crate::config::NodeConfig;
use crate::outbox::WorkerKey;
use crate::pod::PodWorker;

/// Why a pod is refused: the reason of its status and of the event, and the event's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// New pods on a node that shuts down.
pub(crate) fn shutting_down() -> Refusal {
    Refusal { reason: "NodeShutdown".to_owned(), message: "Pod was rejected as the node is shutting down.".to_owned() }
}

/// Why the pod cannot run on this node, if it cannot.
pub(crate) fn refusal(
    _config: &NodeConfig,
    workers: &BTreeMap<WorkerKey, PodWorker>,
    key: WorkerKey,
) -> Option<Refusal> {
    let pod = workers.get(&key)?.pod.as_ref()?;
    let os = pod.spec.as_ref().and_then(|spec| spec.os.as_ref()).map(|os| os.name.as_str());
    if os.is_some_and(|os| os != "linux") {
        return Some(Refusal {
            reason: "PodOSNotSupported".to_owned(),
            message: "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        });
    }
    None
}
