//! Annotations that once stood for fields, and those that Kubernetes itself reads from pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, Pod, PodSpec, SeccompProfile, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::scheduling::validate_tolerations;
use crate::absent::{entries, entry, text};
use crate::containers;
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::paths::validate_descending;

type Annotations = Option<BTreeMap<String, String>>;

const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn is_mirror(metadata: &ObjectMeta) -> bool {
    entry(&metadata.annotations, MIRROR).is_some()
}

pub(super) fn validate_pod_annotations(annotations: &Annotations, spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    if let Some(value) = entry(annotations, MIRROR).filter(|_| text(&spec.node_name).is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&at.key(MIRROR), value.as_str(), detail);
    }
    validate_toleration_annotation(annotations, at, errors);
    if let Some(cost) = entry(annotations, DELETION_COST).filter(|cost| !is_deletion_cost(cost)) {
        errors.invalid(&at.key(DELETION_COST), cost.as_str(), "must be a 32bit integer");
    }
    if let Some(profile) = entry(annotations, SECCOMP_POD) {
        validate_seccomp_annotation(profile, &at.child(SECCOMP_POD), errors);
    }
    for (key, profile) in entries(annotations).filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        validate_seccomp_annotation(profile, &at.child(key), errors);
    }
    let names: Vec<String> = containers::all(spec).into_iter().map(|(_, _, it)| it.name.clone()).collect();
    for (key, profile) in entries(annotations) {
        let Some(container) = key.strip_prefix(APP_ARMOR_CONTAINER) else { continue };
        if !names.iter().any(|name| name == container) {
            errors.invalid(&at.key(key), container, "container not found");
        }
        let is_known = matches!(profile.as_str(), "" | "runtime/default" | "unconfined");
        if !is_known && !profile.starts_with("localhost/") {
            errors.invalid(&at.key(key), profile.as_str(), format!("invalid AppArmor profile name: {profile:?}"));
        }
    }
}

/// Annotations of AppArmor and of mirror pods stay as they are for the pod's life.
pub(super) fn validate_pod_annotation_updates(
    new: &Pod,
    spec: &PodSpec,
    old: &Pod,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mut refuse = |key: &str, what: &str| {
        if key.starts_with(APP_ARMOR_CONTAINER) {
            errors.forbidden(&at.key(key), format!("may not {what} AppArmor annotations"));
        }
        if key == MIRROR {
            errors.forbidden(&at.key(key), format!("may not {what} mirror pod annotation"));
        }
    };
    for (key, value) in entries(&old.metadata.annotations) {
        if entry(&new.metadata.annotations, key) != Some(value) {
            refuse(key, "remove or update");
        }
    }
    for (key, _) in entries(&new.metadata.annotations) {
        if entry(&old.metadata.annotations, key).is_none() {
            refuse(key, "add");
        }
    }
    validate_pod_annotations(&new.metadata.annotations, spec, at, errors);
}

/// Where both annotation and field say something of seccomp, they say the same.
pub(super) fn validate_seccomp_matches_fields(
    metadata: &ObjectMeta,
    spec: &PodSpec,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let annotations = &metadata.annotations;
    let profile = spec.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
    if let (Some(profile), Some(annotation)) = (profile, entry(annotations, SECCOMP_POD)) {
        let at = at.child("securityContext").child("seccompProfile");
        validate_seccomp_match(annotation, profile, &at, errors);
    }
    for (list, index, container) in containers::all(spec) {
        let profile = container.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
        let annotation = entry(annotations, &format!("{SECCOMP_CONTAINER}{}", container.name));
        if let (Some(profile), Some(annotation)) = (profile, annotation) {
            let at = at.child(list.field()).index(index).child("securityContext").child("seccompProfile");
            validate_seccomp_match(annotation, profile, &at, errors);
        }
    }
}

/// Where both annotation and field say something of AppArmor, they say the same.
pub(super) fn validate_app_armor_matches_fields(
    metadata: &ObjectMeta,
    spec: &PodSpec,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        return;
    }
    let of_pod = spec.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
    for (list, index, container) in containers::all(spec) {
        let own = container.security_context.as_ref().and_then(|context| context.app_armor_profile.as_ref());
        let annotation = entry(&metadata.annotations, &format!("{APP_ARMOR_CONTAINER}{}", container.name));
        if let (Some(profile), Some(annotation)) = (own.or(of_pod), annotation) {
            let at = at.child(list.field()).index(index).child("securityContext").child("appArmorProfile");
            validate_app_armor_match(annotation, profile, &at, errors);
        }
    }
}

fn validate_toleration_annotation(annotations: &Annotations, at: &FieldPath, errors: &mut Errors) {
    let Some(value) = entry(annotations, TOLERATIONS).filter(|value| !value.is_empty()) else { return };
    match serde_json::from_str::<Vec<Toleration>>(value) {
        Ok(tolerations) => validate_tolerations(&tolerations, &at.child(TOLERATIONS), errors),
        Err(error) => errors.invalid(at, TOLERATIONS, error.to_string()),
    }
}

/// A number of 32 bits without plus or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    let is_plain = cost == "0" || cost.starts_with('-') || cost.starts_with(|first| matches!(first, '1'..='9'));
    is_plain && cost.parse::<i32>().is_ok()
}

fn validate_seccomp_annotation(profile: &str, at: &FieldPath, errors: &mut Errors) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(path) => validate_descending(path, at, errors),
            None => errors.invalid(at, profile, "must be a valid seccomp profile"),
        },
    }
}

fn validate_seccomp_match(annotation: &str, profile: &SeccompProfile, at: &FieldPath, errors: &mut Errors) {
    let is_same_type = match profile.type_.as_str() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => matches!(annotation, "runtime/default" | "docker/default"),
        "Localhost" => annotation.starts_with("localhost/"),
        _ => true,
    };
    if !is_same_type {
        errors.forbidden(&at.child("type"), "seccomp type in annotation and field must match");
    } else if profile.type_ == "Localhost"
        && annotation.strip_prefix("localhost/") != profile.localhost_profile.as_deref()
    {
        errors.forbidden(&at.child("localhostProfile"), "seccomp profile in annotation and field must match");
    }
}

fn validate_app_armor_match(annotation: &str, profile: &AppArmorProfile, at: &FieldPath, errors: &mut Errors) {
    let is_same_type = match profile.type_.as_str() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default",
        "Localhost" => annotation.starts_with("localhost/"),
        _ => true,
    };
    if !is_same_type {
        errors.forbidden(&at.child("type"), "apparmor type in annotation and field must match");
    } else if profile.type_ == "Localhost"
        && annotation.strip_prefix("localhost/") != profile.localhost_profile.as_deref()
    {
        errors.forbidden(&at.child("localhostProfile"), "apparmor profile in annotation and field must match");
    }
}
