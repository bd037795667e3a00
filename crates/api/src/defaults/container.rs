//! Defaults of a container, whatever its role (L-110, A-156).

use k8s_openapi::api::core::v1::{Container, EnvVar, ObjectFieldSelector, ResourceFieldSelector};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::image::{ImageTag, image_tag};
use super::{probe, resources};
use crate::absent::{default_text, items_mut};

pub(super) fn container(container: &mut Container) {
    pull_policy(&mut container.image_pull_policy, container.image.as_deref().unwrap_or(""));
    default_text(&mut container.termination_message_path, "/dev/termination-log");
    default_text(&mut container.termination_message_policy, "File");
    for port in items_mut(&mut container.ports) {
        default_text(&mut port.protocol, "TCP");
    }
    for variable in items_mut(&mut container.env) {
        env(variable);
    }
    // Kubernetes always writes a container's `resources`, be they empty.
    resources::round(container.resources.get_or_insert_default());
    let probes = [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe::probe);
    if let Some(lifecycle) = &mut container.lifecycle {
        probe::lifecycle(lifecycle);
    }
}

/// `Always` for the tag `latest`, written or implied, else `IfNotPresent`.
pub(super) fn pull_policy(policy: &mut Option<String>, image: &str) {
    let default = match image_tag(image) {
        ImageTag::Tag("latest") => "Always",
        ImageTag::Tag(_) | ImageTag::DigestOnly | ImageTag::Malformed => "IfNotPresent",
    };
    default_text(policy, default);
}

pub(super) fn field_ref(selector: &mut ObjectFieldSelector) {
    default_text(&mut selector.api_version, "v1");
}

/// Kubernetes always writes the divisor, `"0"` where none is given.
pub(super) fn resource_field_ref(selector: &mut ResourceFieldSelector) {
    resources::canonical(selector.divisor.get_or_insert_with(|| Quantity("0".to_owned())));
}

fn env(variable: &mut EnvVar) {
    let Some(source) = &mut variable.value_from else { return };
    if let Some(selector) = &mut source.field_ref {
        field_ref(selector);
    }
    if let Some(selector) = &mut source.resource_field_ref {
        resource_field_ref(selector);
    }
    if let Some(selector) = &mut source.file_key_ref {
        selector.optional.get_or_insert(false);
    }
}
