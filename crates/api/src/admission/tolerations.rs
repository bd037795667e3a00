//! DefaultTolerationSeconds: a pod stays five minutes on a node that is lost.

use k8s_openapi::api::core::v1::{Pod, Toleration};

use crate::absent::{items, text};

const TOLERATION_SECONDS: i64 = 300;

/// Adds the tolerations for nodes that are not ready or unreachable, unless the pod tolerates them already.
pub fn add_default_tolerations(pod: &mut Pod) {
    let spec = pod.spec.get_or_insert_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let is_tolerated = items(&spec.tolerations).iter().any(|toleration| {
            let (own, effect) = (text(&toleration.key), text(&toleration.effect));
            (own.is_empty() || own == key) && matches!(effect, "" | "NoExecute")
        });
        if !is_tolerated {
            spec.tolerations.get_or_insert_default().push(Toleration {
                key: Some(key.to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoExecute".to_owned()),
                toleration_seconds: Some(TOLERATION_SECONDS),
                value: None,
            });
        }
    }
}
