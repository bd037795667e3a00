//! Secrets, `stringData` merged into `data` already.

use k8s_openapi::api::core::v1::Secret;

use super::errors::Errors;
use super::meta::{Scope, validate_immutable, validate_object_meta, validate_object_meta_update};
use super::names::{self, NameRule};
use crate::absent::{entries, entry, text};
use crate::field::{FieldError, FieldPath};

/// What a ConfigMap or Secret may hold in all.
pub(super) const DATA_BYTES_MAX: usize = 1024 * 1024;
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Checks a Secret that is to be created.
pub fn validate_secret(secret: &Secret) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole(secret, &mut errors);
    errors.into_list()
}

/// Checks a Secret that is to replace another.
pub fn validate_secret_update(new: &Secret, old: &Secret) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_immutable(text(&new.type_), text(&old.type_), &FieldPath::root("type"), &mut errors);
    if old.immutable == Some(true) {
        validate_immutable_data(new.immutable, &[("data", new.data == old.data)], &mut errors);
    }
    validate_whole(new, &mut errors);
    errors.into_list()
}

/// What was made immutable stays as it is; each field comes with whether it is the same.
pub(super) fn validate_immutable_data(new_immutable: Option<bool>, fields: &[(&str, bool)], errors: &mut Errors) {
    let detail = "field is immutable when `immutable` is set";
    if new_immutable != Some(true) {
        errors.forbidden(&FieldPath::root("immutable"), detail);
    }
    for (field, _) in fields.iter().filter(|(_, is_same)| !is_same) {
        errors.forbidden(&FieldPath::root(field), detail);
    }
}

fn validate_whole(secret: &Secret, errors: &mut Errors) {
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&secret.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, errors);
    let at = FieldPath::root("data");
    let mut size = 0;
    for (key, value) in entries(&secret.data) {
        errors.invalid_text(&at.key(key), key, names::config_key(key));
        size += value.0.len();
    }
    if size > DATA_BYTES_MAX {
        errors.too_long(&at, DATA_BYTES_MAX);
    }
    validate_type(secret, &metadata_at, &at, errors);
}

/// Known types have keys that must be there.
fn validate_type(secret: &Secret, metadata_at: &FieldPath, at: &FieldPath, errors: &mut Errors) {
    let has = |key: &str| entry(&secret.data, key).is_some();
    let require = |keys: &[&str], errors: &mut Errors| {
        for key in keys.iter().filter(|key| !has(key)) {
            errors.required(&at.key(key), "");
        }
    };
    match text(&secret.type_) {
        "kubernetes.io/service-account-token" => {
            let account = entry(&secret.metadata.annotations, ACCOUNT_NAME);
            if account.is_none_or(|account| account.is_empty()) {
                errors.required(&metadata_at.child("annotations").key(ACCOUNT_NAME), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(secret, ".dockercfg", at, errors),
        "kubernetes.io/dockerconfigjson" => validate_json(secret, ".dockerconfigjson", at, errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require(&["username", "password"], errors);
        }
        "kubernetes.io/ssh-auth" if entry(&secret.data, "ssh-privatekey").is_none_or(|key| key.0.is_empty()) => {
            errors.required(&at.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => require(&["tls.crt", "tls.key"], errors),
        _ => {}
    }
}

fn validate_json(secret: &Secret, key: &str, at: &FieldPath, errors: &mut Errors) {
    let at = at.key(key);
    let Some(value) = entry(&secret.data, key) else {
        errors.required(&at, "");
        return;
    };
    if let Err(error) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&value.0) {
        errors.invalid(&at, "<secret contents redacted>", error.to_string());
    }
}
