//! The words of cells that several kinds share.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

/// `one,two`.
pub(super) fn container_names(containers: &[Container]) -> String {
    let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    names.join(",")
}

/// `image1,image2`.
pub(super) fn container_images(containers: &[Container]) -> String {
    let images: Vec<&str> = containers.iter().map(|container| container.image.as_deref().unwrap_or_default()).collect();
    images.join(",")
}

/// `a=1,b=2`, or `<none>`.
pub(super) fn format_labels(labels: Option<&BTreeMap<String, String>>) -> String {
    let pairs: Vec<String> = labels.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    or_none(&pairs.join(","))
}

/// The text, or `<none>` for an empty one.
pub(super) fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}
