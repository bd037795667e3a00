//! Updates through the subresource `ephemeralcontainers` (L-1219).

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::annotations::{is_mirror, validate_pod_annotation_updates};
use super::validate_metadata_and_spec;
use crate::absent::items;
use crate::equality::{difference, is_semantically_equal};
use crate::field::{FieldError, FieldPath};
use crate::validation::errors::Errors;
use crate::validation::meta::validate_object_meta_update;

/// Checks a pod whose ephemeral containers are to change: they can be added, and then stay as they are.
pub fn validate_ephemeral_containers_update(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    if is_mirror(&old.metadata) {
        errors.forbidden(&FieldPath::root(""), "static pods do not support ephemeral containers");
        return errors.into_list();
    }
    let empty = PodSpec::default();
    let spec = new.spec.as_ref().unwrap_or(&empty);
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta_update(&new.metadata, &old.metadata, &metadata_at, &mut errors);
    validate_metadata_and_spec(new, spec, &mut errors);
    validate_pod_annotation_updates(new, spec, old, &metadata_at.child("annotations"), &mut errors);
    let at = FieldPath::root("spec").child("ephemeralContainers");
    for old in items(&old_spec.ephemeral_containers) {
        // Where a name stands twice, Kubernetes looks at the last.
        let new = items(&spec.ephemeral_containers).iter().rfind(|container| container.name == old.name);
        let name = &old.name;
        match new {
            None => errors.forbidden(&at, format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(new) if !is_semantically_equal(new, old) => {
                let difference = difference(old, new);
                errors
                    .forbidden(&at, format!("existing ephemeral containers {name:?} may not be changed\n{difference}"));
            }
            Some(_) => {}
        }
    }
    errors.into_list()
}
