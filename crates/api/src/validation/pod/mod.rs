//! Pods and pod templates (L-1201 to L-1232).
//!
//! The order of checks is Kubernetes', since clients see all errors in it: volumes, claims, regular, init and ephemeral
//! containers, pod-level resources, then the other fields.
//! Objects that an older Kubernetes admitted under laxer rules do not exist here, so its exceptions for them don't either.

mod affinity;
mod annotations;
mod claims;
mod container;
mod container_lists;
mod env;
mod ephemeral;
mod host;
mod legacy_volumes;
mod mounts;
mod network;
mod os;
mod probes;
mod projected;
mod resize;
mod resources;
mod restart;
mod scheduling;
mod security;
mod spec;
mod status;
mod update;
mod volume;
mod windows;

use k8s_openapi::api::core::v1::{Binding, Pod, PodSpec, PodTemplateSpec};

use super::errors::Errors;
use super::labels::validate_labels;
use super::meta::{Scope, validate_annotations, validate_object_meta};
use super::names::NameRule;
use crate::absent::{items, text};
use crate::field::{FieldError, FieldPath};

pub(crate) use self::annotations::APP_ARMOR_CONTAINER;
pub(crate) use self::container::PROTOCOLS;
pub use self::ephemeral::validate_ephemeral_containers_update;
pub(crate) use self::probes::validate_port;
pub use self::resize::validate_pod_resize;
pub(crate) use self::resources::{is_huge_page, is_overcommit_allowed, validate_quantity};
pub(crate) use self::scheduling::validate_preemption_policy;
pub(crate) use self::security::validate_app_armor_profile;
pub use self::status::validate_pod_status_update;
pub use self::update::validate_pod_update;

/// Whether a pod spec stands in a pod or in the template of another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// A pod of this name, which may be unknown.
    Pod { name: &'a str, is_mirror: bool },
    /// A template.
    Template,
}

impl Owner<'_> {
    pub(crate) fn is_pod(self) -> bool {
        matches!(self, Owner::Pod { .. })
    }
}

/// Checks a pod that is to be created.
pub fn validate_pod(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let at = FieldPath::root("spec");
    validate_metadata_and_spec(pod, spec, &mut errors);
    if !items(&spec.ephemeral_containers).is_empty() {
        errors.forbidden(&at.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(&spec.node_name).is_empty() && !items(&spec.scheduling_gates).is_empty() {
        errors.forbidden(&at.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::validate_seccomp_matches_fields(&pod.metadata, spec, &at, &mut errors);
    annotations::validate_app_armor_matches_fields(&pod.metadata, spec, &at, &mut errors);
    errors.into_list()
}

/// Checks the binding of a pod to a node.
pub fn validate_binding(binding: &Binding) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let at = FieldPath::root("target");
    let kind = text(&binding.target.kind);
    if !kind.is_empty() && kind != "Node" {
        errors.not_supported(&at.child("kind"), kind, &["Node", "<empty>"]);
    }
    if text(&binding.target.name).is_empty() {
        errors.required(&at.child("name"), "");
    }
    errors.into_list()
}

pub(crate) fn validate_template(template: &PodTemplateSpec, at: &FieldPath, errors: &mut Errors) {
    let empty = Default::default();
    let metadata = template.metadata.as_ref().unwrap_or(&empty);
    let empty = PodSpec::default();
    let spec = template.spec.as_ref().unwrap_or(&empty);
    let spec_at = at.child("spec");
    validate_labels(&metadata.labels, &at.child("labels"), errors);
    let annotations_at = at.child("annotations");
    validate_annotations(&metadata.annotations, &annotations_at, errors);
    annotations::validate_pod_annotations(&metadata.annotations, spec, &annotations_at, errors);
    spec::validate_pod_spec(spec, Owner::Template, &spec_at, errors);
    annotations::validate_seccomp_matches_fields(metadata, spec, &spec_at, errors);
    annotations::validate_app_armor_matches_fields(metadata, spec, &spec_at, errors);
    if !items(&spec.ephemeral_containers).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&spec_at.child("ephemeralContainers"), detail);
    }
}

/// What holds for a pod on create and on every update.
fn validate_metadata_and_spec(pod: &Pod, spec: &PodSpec, errors: &mut Errors) {
    let (metadata_at, at) = (FieldPath::root("metadata"), FieldPath::root("spec"));
    validate_object_meta(&pod.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, errors);
    let annotations_at = metadata_at.child("annotations");
    annotations::validate_pod_annotations(&pod.metadata.annotations, spec, &annotations_at, errors);
    let owner = Owner::Pod { name: text(&pod.metadata.name), is_mirror: annotations::is_mirror(&pod.metadata) };
    spec::validate_pod_spec(spec, owner, &at, errors);
    validate_tokens_have_account(spec, &at, errors);
    let lists = [("containers", spec.containers.as_slice()), ("initContainers", items(&spec.init_containers))];
    for (list, containers) in lists {
        for (index, it) in containers.iter().enumerate() {
            container::validate_image_has_no_spaces(it, &at.child(list).index(index), errors);
        }
    }
}

fn validate_tokens_have_account(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    if !text(&spec.service_account_name).is_empty() {
        return;
    }
    for (index, volume) in items(&spec.volumes).iter().enumerate() {
        let sources = volume.projected.iter().flat_map(|projected| items(&projected.sources));
        for (source_index, source) in sources.enumerate() {
            if source.service_account_token.is_some() {
                let projected_at = at.child("volumes").index(index).child("projected");
                let source_at = projected_at.child("sources").index(source_index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&source_at.child("serviceAccountToken"), detail);
            }
        }
    }
}
