//! From a pod's spec and an image to what the runtime is asked for.
//!
//! Nearly all of it is pure functions over the pod, the image and what was read of the API; each file keeps a few numbered rules.

pub mod build;
pub mod command;
pub mod env;
pub mod env_file;
pub mod expansion;
pub mod fields;
pub mod find;
pub mod hostname;
pub mod hosts;
pub mod image_root;
pub mod resolv_conf;
pub mod resources;
pub mod sandbox;
pub mod security;
pub mod services;
pub mod user;

use k8s_openapi::api::core::v1::Pod;

/// A pod as Kubernetes' messages name it: `<pod>_<namespace>(<uid>)`.
pub fn pod_description(pod: &Pod) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}_{}({})", text(&pod.metadata.name), text(&pod.metadata.namespace), text(&pod.metadata.uid))
}
