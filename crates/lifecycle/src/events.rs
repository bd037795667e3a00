//! The events of a pod's life: Kubernetes 1.36's reasons and messages (section 10).
//!
//! Nothing is decided here.
//! Probe events are worded in `probe::worker`, admission's in `admission`.

use std::time::Duration;

use crate::effect::PodEvent;
use crate::go_duration;
use crate::identity::PodRef;

/// An event about the whole pod.
pub(crate) fn pod(warning: bool, reason: &str, message: impl Into<String>) -> PodEvent {
    PodEvent { field_path: String::new(), warning, reason: reason.to_owned(), message: message.into() }
}

/// An event about one container.
pub(crate) fn container(field_path: &str, warning: bool, reason: &str, message: impl Into<String>) -> PodEvent {
    PodEvent { field_path: field_path.to_owned(), warning, reason: reason.to_owned(), message: message.into() }
}

/// `<pod>_<namespace>(<uid>)`, as messages name a pod.
pub(crate) fn pod_name(pod: &PodRef) -> String {
    format!("{}_{}({})", pod.name, pod.namespace, pod.uid)
}

/// L-1007.
pub(crate) fn pulled(image: &str, took: Duration, size_bytes: u64) -> String {
    let took = go_duration::format(took);
    format!(
        "Successfully pulled image {} in {took} ({took} including waiting). Image size: {size_bytes} bytes.",
        quoted(image)
    )
}

/// L-1006.
pub(crate) fn present(image: &str) -> String {
    format!("Container image {} already present on machine and can be accessed by the pod", quoted(image))
}

/// L-1013.
pub(crate) fn never_pulled(image: &str) -> String {
    format!("Container image {} is not present with pull policy of Never", quoted(image))
}

/// L-1010.
pub(crate) fn pull_back_off(image: &str) -> String {
    format!("Back-off pulling image {}", quoted(image))
}

/// A text within quotation marks, as Go's `%q` writes it.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
