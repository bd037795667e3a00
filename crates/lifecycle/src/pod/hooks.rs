//! The words of a hook that failed (L-504).
//!
//! Hooks are run by the node; when they run is decided in `start` (postStart) and `kills` (preStop).

use k8s_openapi::api::core::v1::LifecycleHandler;

use crate::events::pod_name;
use crate::identity::PodRef;
use crate::pod::shape::ContainerShape;

/// The message of a failed postStart, made of the node's account of it.
///
/// An exec hook's account is `<error>, message: "<output>"`, or the error alone.
pub(crate) fn failure_message(container: &ContainerShape, pod: &PodRef, error: &str) -> String {
    let place = format!("for Container {:?} in Pod {:?}", container.name, pod_name(pod));
    match container.post_start.as_ref() {
        Some(LifecycleHandler { exec: Some(exec), .. }) => {
            let argv = exec.command.as_deref().unwrap_or_default().join(" ");
            format!("Exec lifecycle hook ([{argv}]) {place} failed - error: {error}")
        }
        Some(LifecycleHandler { http_get: Some(get), .. }) => {
            let path = get.path.as_deref().unwrap_or_default();
            format!("HTTP lifecycle hook ({path}) {place} failed - error: {error}")
        }
        Some(LifecycleHandler { sleep: Some(sleep), .. }) => {
            format!("Sleep lifecycle hook ({}) {place} failed - error: {error}", sleep.seconds)
        }
        _ => format!("Cannot run handler: invalid handler: {error}"),
    }
}
