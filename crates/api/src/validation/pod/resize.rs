//! Updates through the subresource `resize`: cpu and memory of a running pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::annotations::is_mirror;
use super::validate_metadata_and_spec;
use crate::absent::{items, items_mut, text};
use crate::containers::is_sidecar;
use crate::equality::is_semantically_equal;
use crate::field::{FieldError, FieldPath};
use crate::qos::{compute_qos_class, qos_class};
use crate::validation::errors::Errors;
use crate::validation::meta::validate_object_meta_update;

type ResourceList = Option<BTreeMap<String, Quantity>>;

const ONLY_CPU_AND_MEMORY: &str = "only cpu and memory resources are mutable";

/// Checks a pod whose resources are to change while it runs.
pub fn validate_pod_resize(new: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let empty = PodSpec::default();
    let spec = new.spec.as_ref().unwrap_or(&empty);
    let old_spec = old.spec.as_ref().unwrap_or(&empty);
    let at = FieldPath::root("spec");
    let is_windows = old_spec.os.as_ref().is_some_and(|os| os.name == "windows");
    if is_mirror(&old.metadata) || is_windows {
        let kind = if is_mirror(&old.metadata) { "static" } else { "windows" };
        errors.forbidden(&FieldPath::root(""), format!("{kind} pods cannot be resized"));
        return errors.into_list();
    }
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_metadata_and_spec(new, spec, &mut errors);
    validate_pod_state(new, old, &at, &mut errors);
    let mut masked = spec.clone();
    validate_pod_level(&mut masked, old_spec, &at, &mut errors);
    if !validate_same_containers(spec, old_spec, &at, &mut errors) {
        return errors.into_list();
    }
    validate_nothing_removed(spec, old_spec, &at, &mut errors);
    validate_containers(&mut masked, old_spec, &at, &mut errors);
    if errors.is_empty() && !is_semantically_equal(&masked, old_spec) {
        errors.forbidden(&at, ONLY_CPU_AND_MEMORY);
    }
    errors.into_list()
}

fn validate_pod_state(new: &Pod, old: &Pod, at: &FieldPath, errors: &mut Errors) {
    if qos_class(old) != compute_qos_class(new) {
        let class = new.status.as_ref().map_or("", |status| text(&status.qos_class));
        errors.invalid(at, class, "Pod QOS Class may not change as a result of resizing");
    }
    // A node that can resize reports the resources of running containers.
    let statuses = old.status.iter().flat_map(|status| items(&status.container_statuses));
    let running = statuses.into_iter().find(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()));
    if running.is_some_and(|status| status.resources.is_none()) {
        errors.forbidden(at, "Pod running on node without support for resize");
    }
}

fn validate_pod_level(masked: &mut PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let resources_at = at.child("resources");
    if let Some(old_resources) = &old.resources {
        let Some(new) = &masked.resources else {
            errors.forbidden(&resources_at, "pod-level resources cannot be removed");
            return;
        };
        if is_removed(&new.requests, &old_resources.requests) {
            errors.forbidden(&resources_at.child("requests"), "pod-level resource requests cannot be removed");
        }
        if is_removed(&new.limits, &old_resources.limits) {
            errors.forbidden(&resources_at.child("limits"), "pod-level resource limits cannot be removed");
        }
    }
    let Some(new) = &mut masked.resources else { return };
    mask(new, old.resources.as_ref());
    let is_bare = items(&new.claims).is_empty() && is_bare(&new.limits) && is_bare(&new.requests);
    if old.resources.is_none() && is_bare {
        masked.resources = None;
    }
    if !is_semantically_equal(&masked.resources, &old.resources) {
        errors.forbidden(at, "only cpu and memory resources are mutable at pod-level");
    }
}

/// False if the containers are not the same ones in the same order.
fn validate_same_containers(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) -> bool {
    let lists = [
        ("containers", spec.containers.as_slice(), old.containers.as_slice()),
        ("initContainers", items(&spec.init_containers), items(&old.init_containers)),
    ];
    let mut is_same = true;
    for (list, new, old) in lists {
        let at = at.child(list);
        if new.len() != old.len() {
            errors.forbidden(&at, format!("{list} may not be added or removed on resize"));
            is_same = false;
        } else {
            for (index, _) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| new.name != old.name) {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&at.index(index).child("name"), detail);
                is_same = false;
            }
        }
    }
    is_same
}

fn validate_nothing_removed(spec: &PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let lists = [
        ("initContainers", items(&spec.init_containers), items(&old.init_containers)),
        ("containers", spec.containers.as_slice(), old.containers.as_slice()),
    ];
    let empty = ResourceRequirements::default();
    for (list, new, old) in lists {
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            let at = at.child(list).index(index).child("resources");
            let new = new.resources.as_ref().unwrap_or(&empty);
            let old = old.resources.as_ref().unwrap_or(&empty);
            if is_removed(&new.requests, &old.requests) {
                errors.forbidden(&at.child("requests"), "resource requests cannot be removed");
            }
            if is_removed(&new.limits, &old.limits) {
                errors.forbidden(&at.child("limits"), "resource limits cannot be removed");
            }
        }
    }
}

/// Puts the old cpu and memory into the new containers: nothing else may differ.
fn validate_containers(masked: &mut PodSpec, old: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    for (new, old) in masked.containers.iter_mut().zip(&old.containers) {
        mask(new.resources.get_or_insert_default(), old.resources.as_ref());
        if !is_semantically_equal(new, old) {
            errors.forbidden(at, ONLY_CPU_AND_MEMORY);
        }
    }
    let init = items_mut(&mut masked.init_containers).iter_mut().zip(items(&old.init_containers));
    for (index, (new, old)) in init.enumerate() {
        validate_init_container(new, old, &at.child("initContainers").index(index), errors);
    }
}

fn validate_init_container(new: &mut Container, old: &Container, at: &FieldPath, errors: &mut Errors) {
    let is_changed = !is_semantically_equal(new, old);
    mask(new.resources.get_or_insert_default(), old.resources.as_ref());
    if !is_semantically_equal(new, old) {
        errors.forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable");
    }
    if is_changed && !is_sidecar(new) {
        let restarts = items(&new.resize_policy).iter().filter(|policy| policy.restart_policy == "RestartContainer");
        for _ in restarts {
            let detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            errors.forbidden(at, detail);
        }
    }
}

fn mask(new: &mut ResourceRequirements, old: Option<&ResourceRequirements>) {
    mask_list(&mut new.limits, old.and_then(|old| old.limits.as_ref()));
    mask_list(&mut new.requests, old.and_then(|old| old.requests.as_ref()));
}

fn mask_list(new: &mut ResourceList, old: Option<&BTreeMap<String, Quantity>>) {
    for name in ["cpu", "memory"] {
        match old.and_then(|old| old.get(name)) {
            Some(quantity) => {
                new.get_or_insert_default().insert(name.to_owned(), quantity.clone());
            }
            None => {
                new.as_mut().map(|new| new.remove(name));
            }
        }
    }
}

fn is_bare(list: &ResourceList) -> bool {
    list.as_ref().is_none_or(|list| list.is_empty())
}

fn is_removed(new: &ResourceList, old: &ResourceList) -> bool {
    old.iter().flatten().any(|(name, _)| new.as_ref().is_none_or(|new| !new.contains_key(name)))
}
