//! The list that checks write what they find into.

use serde_json::Value;

use crate::field::{FieldError, FieldPath};

/// What was found wrong so far, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<FieldError>);

impl Errors {
    pub(crate) fn required(&mut self, at: &FieldPath, detail: &str) {
        self.0.push(FieldError::required(at, detail));
    }

    pub(crate) fn invalid(&mut self, at: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) {
        self.0.push(FieldError::invalid(at, value.into(), detail.into()));
    }

    /// An object or list is wrong as a whole; it is shown as JSON.
    pub(crate) fn invalid_object<T: serde::Serialize>(
        &mut self,
        at: &FieldPath,
        object: &T,
        detail: impl Into<String>,
    ) {
        self.invalid(at, serde_json::to_value(object).unwrap_or(Value::Null), detail);
    }

    /// A field is wrong in a way that its value does not show.
    pub(crate) fn invalid_without_value(&mut self, at: &FieldPath, detail: &str) {
        self.0.push(FieldError::invalid_without_value(at, detail));
    }

    /// One error for each thing that is wrong with a text.
    pub(crate) fn invalid_text<S: Into<String>>(
        &mut self,
        at: &FieldPath,
        value: &str,
        wrong: impl IntoIterator<Item = S>,
    ) {
        for detail in wrong {
            self.invalid(at, value, detail);
        }
    }

    pub(crate) fn forbidden(&mut self, at: &FieldPath, detail: impl Into<String>) {
        self.0.push(FieldError::forbidden(at, detail.into()));
    }

    pub(crate) fn duplicate(&mut self, at: &FieldPath, value: impl Into<Value>) {
        self.0.push(FieldError::duplicate(at, value.into()));
    }

    pub(crate) fn not_found(&mut self, at: &FieldPath, value: &str, detail: &str) {
        self.0.push(FieldError::not_found(at, value, detail));
    }

    pub(crate) fn not_supported(&mut self, at: &FieldPath, value: &str, supported: &[&str]) {
        self.0.push(FieldError::not_supported(at, value, supported));
    }

    /// As [`Errors::not_supported`], for a value that is no text.
    pub(crate) fn not_supported_value(&mut self, at: &FieldPath, value: impl Into<Value>, supported: &[&str]) {
        let value = Some(value.into());
        self.0.push(FieldError { value, ..FieldError::not_supported(at, "", supported) });
    }

    pub(crate) fn too_long(&mut self, at: &FieldPath, bytes_max: usize) {
        self.0.push(FieldError::too_long(at, bytes_max));
    }

    pub(crate) fn too_many(&mut self, at: &FieldPath, count: usize, count_max: usize) {
        self.0.push(FieldError::too_many(at, count, count_max));
    }

    /// The value must be one of those supported, which are listed in the order given.
    pub(crate) fn one_of(&mut self, at: &FieldPath, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.not_supported(at, value, supported);
        }
    }

    /// As [`Errors::one_of`], where the empty text means that the value is missing.
    pub(crate) fn required_one_of(&mut self, at: &FieldPath, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.one_of(at, value, supported);
        }
    }

    pub(crate) fn nonnegative(&mut self, at: &FieldPath, value: impl Into<i64>) {
        let value = value.into();
        if value < 0 {
            self.invalid(at, value, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn positive(&mut self, at: &FieldPath, value: impl Into<i64>) {
        let value = value.into();
        if value <= 0 {
            self.invalid(at, value, "must be greater than zero");
        }
    }

    pub(crate) fn in_range(&mut self, at: &FieldPath, value: impl Into<i64>, low: i64, high: i64) {
        let value = value.into();
        if !(low..=high).contains(&value) {
            self.invalid(at, value, super::names::range_text(low, high));
        }
    }

    pub(crate) fn port_number(&mut self, at: &FieldPath, value: impl Into<i64>) {
        self.in_range(at, value, 1, 65535);
    }

    /// The text must not be empty and must be a DNS label.
    pub(crate) fn required_label(&mut self, at: &FieldPath, value: &str) {
        if value.is_empty() {
            self.required(at, "");
        } else {
            self.invalid_text(at, value, super::names::dns_label(value));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn append(&mut self, mut other: Errors) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn into_list(self) -> Vec<FieldError> {
        self.0
    }
}
