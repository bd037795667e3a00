//! A container's environment and the selectors in it (L-1220); the downward API's selectors, which volumes have too.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, ObjectFieldSelector, PodSpec, ResourceFieldSelector,
};

use super::resources::amount;
use crate::absent::{items, text};
use crate::containers;
use crate::field::FieldPath;
use crate::quantity;
use crate::validation::errors::Errors;
use crate::validation::names;
use crate::validation::paths::validate_no_backsteps;

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that a downward API volume can show.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The fields that can be named at all; the others are an error of another kind.
const DOWNWARD_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZE_DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn validate_env(variables: &[EnvVar], at: &FieldPath, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let at = at.index(index);
        if variable.name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.invalid_text(&at.child("name"), &variable.name, names::env_name(&variable.name));
        }
        if let Some(source) = &variable.value_from {
            validate_env_source(source, text(&variable.value), &at.child("valueFrom"), errors);
        }
    }
}

pub(super) fn validate_env_from(sources: &[EnvFromSource], at: &FieldPath, errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let list_at = at;
        let at = at.index(index);
        let prefix = text(&source.prefix);
        if !prefix.is_empty() {
            errors.invalid_text(&at.child("prefix"), prefix, names::env_name(prefix));
        }
        if let Some(reference) = &source.config_map_ref {
            validate_reference_name(&reference.name, &at.child("configMapRef").child("name"), errors);
        }
        if let Some(reference) = &source.secret_ref {
            validate_reference_name(&reference.name, &at.child("secretRef").child("name"), errors);
        }
        match (&source.config_map_ref, &source.secret_ref) {
            (None, None) => errors.invalid(list_at, "", "must specify one of: `configMapRef` or `secretRef`"),
            (Some(_), Some(_)) => errors.invalid(list_at, "", "may not have more than one field specified at a time"),
            _ => {}
        }
    }
}

/// Variables from files come from `emptyDir` volumes only.
pub(super) fn validate_file_key_volumes(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let volumes: BTreeMap<&str, bool> =
        items(&spec.volumes).iter().map(|volume| (volume.name.as_str(), volume.empty_dir.is_some())).collect();
    for (list, index, container) in containers::all(spec) {
        let at = at.child(list.field()).index(index).child("env");
        for (env_index, variable) in items(&container.env).iter().enumerate() {
            let Some(selector) = variable.value_from.as_ref().and_then(|it| it.file_key_ref.as_ref()) else { continue };
            let at = at.index(env_index).child("valueFrom").child("fileKeyRef").child("volumeName");
            match volumes.get(selector.volume_name.as_str()) {
                None => errors.not_found(&at, &selector.volume_name, ""),
                Some(false) => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.invalid(&at, selector.volume_name.as_str(), detail);
                }
                Some(true) => {}
            }
        }
    }
}

fn validate_env_source(source: &EnvVarSource, value: &str, at: &FieldPath, errors: &mut Errors) {
    if let Some(selector) = &source.field_ref {
        validate_field_ref(selector, &ENV_FIELDS, &at.child("fieldRef"), errors);
    }
    if let Some(selector) = &source.resource_field_ref {
        validate_resource_field_ref(selector, false, &at.child("resourceFieldRef"), errors);
    }
    if let Some(selector) = &source.config_map_key_ref {
        validate_key_ref(&selector.name, &selector.key, &at.child("configMapKeyRef"), errors);
    }
    if let Some(selector) = &source.secret_key_ref {
        validate_key_ref(&selector.name, &selector.key, &at.child("secretKeyRef"), errors);
    }
    if let Some(selector) = &source.file_key_ref {
        validate_file_key_ref(selector, &at.child("fileKeyRef"), errors);
    }
    let sources = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    let count = sources.into_iter().filter(|is_set| *is_set).count();
    if count == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(at, "", detail);
    } else if !value.is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

/// A field of the pod that the downward API shows, for a use that can show only the fields given.
pub(super) fn validate_field_ref(selector: &ObjectFieldSelector, shown: &[&str], at: &FieldPath, errors: &mut Errors) {
    let version = text(&selector.api_version);
    if version.is_empty() {
        errors.required(&at.child("apiVersion"), "");
        return;
    }
    let path = selector.field_path.as_str();
    let path_at = at.child("fieldPath");
    if path.is_empty() {
        errors.required(&path_at, "");
        return;
    }
    let mut refuse = |why: String| errors.invalid(&path_at, path, format!("error converting fieldPath: {why}"));
    if version != "v1" {
        refuse(format!("unsupported pod version: {version}"));
        return;
    }
    match split_subscript(path) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.invalid_text(at, &key, names::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => errors.invalid_text(at, key, names::qualified_name(key)),
        Some(_) => refuse(format!("field label does not support subscript: {path}")),
        None => {
            // An old name of the same field.
            let field = if path == "spec.host" { "spec.nodeName" } else { path };
            if DOWNWARD_FIELDS.contains(&field) {
                errors.one_of(&path_at, field, shown);
            } else {
                refuse(format!("field label not supported: {path}"));
            }
        }
    }
}

/// A container's resource that the downward API shows; volumes must name the container.
pub(super) fn validate_resource_field_ref(
    selector: &ResourceFieldSelector,
    needs_container: bool,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let resource = selector.resource.as_str();
    let is_huge_page = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if needs_container && text(&selector.container_name).is_empty() {
        errors.required(&at.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&at.child("resource"), "");
    } else if !is_huge_page {
        errors.one_of(&at.child("resource"), resource, &RESOURCE_FIELDS);
    }
    let Some(divisor) = &selector.divisor else { return };
    if amount(divisor).is_zero() {
        return;
    }
    let divisor = quantity::canonical(divisor);
    let sizes = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (is_supported, detail) = match resource {
        "limits.cpu" | "requests.cpu" => (
            matches!(divisor.as_str(), "1m" | "1"),
            "only divisor's values 1m and 1 are supported with the cpu resource".to_owned(),
        ),
        "limits.memory" | "requests.memory" => (
            SIZE_DIVISORS.contains(&divisor.as_str()),
            format!("only divisor's values {sizes} are supported with the memory resource"),
        ),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (
            SIZE_DIVISORS.contains(&divisor.as_str()),
            format!("only divisor's values {sizes} are supported with the local ephemeral storage resource"),
        ),
        _ if is_huge_page => (
            SIZE_DIVISORS.contains(&divisor.as_str()),
            format!("only divisor's values {sizes} are supported with the hugepages resource"),
        ),
        _ => return,
    };
    if !is_supported {
        errors.invalid(&at.child("divisor"), resource, detail);
    }
}

fn validate_key_ref(name: &str, key: &str, at: &FieldPath, errors: &mut Errors) {
    errors.invalid_text(&at.child("name"), name, names::dns_subdomain(name));
    if key.is_empty() {
        errors.required(&at.child("key"), "");
    } else {
        errors.invalid_text(&at.child("key"), key, names::config_key(key));
    }
}

fn validate_file_key_ref(selector: &FileKeySelector, at: &FieldPath, errors: &mut Errors) {
    if selector.key.is_empty() {
        errors.required(&at.child("key"), "");
    } else {
        errors.invalid_text(&at.child("key"), &selector.key, names::env_name(&selector.key));
    }
    errors.required_label(&at.child("volumeName"), &selector.volume_name);
    if selector.path.is_empty() {
        errors.required(&at.child("path"), "");
    } else {
        validate_no_backsteps(&selector.path, &at.child("path"), errors);
    }
}

fn validate_reference_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
    } else {
        errors.invalid_text(at, name, names::NameRule::Subdomain.check_prefix(name));
    }
}

/// `metadata.labels['key']` in its two parts.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let (field, key) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, key))
}
