//! ConfigMaps.

use k8s_openapi::api::core::v1::ConfigMap;

use super::errors::Errors;
use super::meta::{Scope, validate_object_meta, validate_object_meta_update};
use super::names::{self, NameRule};
use super::secret::{DATA_BYTES_MAX, validate_immutable_data};
use crate::absent::{entries, entry};
use crate::field::{FieldError, FieldPath};

/// Checks a ConfigMap that is to be created.
pub fn validate_config_map(config_map: &ConfigMap) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole(config_map, &mut errors);
    errors.into_list()
}

/// Checks a ConfigMap that is to replace another.
pub fn validate_config_map_update(new: &ConfigMap, old: &ConfigMap) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    if old.immutable == Some(true) {
        validate_immutable_data(
            new.immutable,
            &[("data", new.data == old.data), ("binaryData", new.binary_data == old.binary_data)],
            &mut errors,
        );
    }
    validate_whole(new, &mut errors);
    errors.into_list()
}

fn validate_whole(config_map: &ConfigMap, errors: &mut Errors) {
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&config_map.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, errors);
    let mut size = 0;
    for (key, value) in entries(&config_map.data) {
        let at = FieldPath::root("data").key(key);
        errors.invalid_text(&at, key, names::config_key(key));
        if entry(&config_map.binary_data, key).is_some() {
            errors.invalid(&at, key, "duplicate of key present in binaryData");
        }
        size += value.len();
    }
    for (key, value) in entries(&config_map.binary_data) {
        errors.invalid_text(&FieldPath::root("binaryData").key(key), key, names::config_key(key));
        size += value.0.len();
    }
    if size > DATA_BYTES_MAX {
        errors.too_long(&FieldPath::root(""), DATA_BYTES_MAX);
    }
}
