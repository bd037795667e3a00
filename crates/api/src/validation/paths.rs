//! Paths in volumes and mounts.

use super::errors::Errors;
use crate::field::FieldPath;

/// No element of the path is `..`.
pub(crate) fn validate_no_backsteps(path: &str, at: &FieldPath, errors: &mut Errors) {
    if has_backsteps(path) {
        errors.invalid(at, path, "must not contain '..'");
    }
}

/// The path is relative and stays below where it begins.
pub(crate) fn validate_descending(path: &str, at: &FieldPath, errors: &mut Errors) {
    if path.starts_with('/') {
        errors.invalid(at, path, "must be a relative path");
    }
    validate_no_backsteps(path, at, errors);
}

/// As [`validate_descending`], and the name is none of those that volumes keep for themselves.
pub(crate) fn validate_descending_and_free(path: &str, at: &FieldPath, errors: &mut Errors) {
    validate_descending(path, at, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.invalid(at, path, "must not start with '..'");
    }
}

pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|element| element == "..")
}
