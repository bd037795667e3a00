//! Absent and empty read as one.
//!
//! In Kubernetes' own types most fields that nobody set hold the empty text, list, map or zero, so its rules can't tell
//! `hostname: ""` from no hostname at all.
//! In the typed view here both exist; these functions read them alike.
//! Fields that Kubernetes keeps as pointers (`securityContext`, `suspend`, ...) are not read through here: there absence counts.

use std::collections::BTreeMap;

/// The text, empty if absent.
pub(crate) fn text(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or("")
}

/// The list, empty if absent.
pub(crate) fn items<T>(value: &Option<Vec<T>>) -> &[T] {
    value.as_deref().unwrap_or(&[])
}

/// The list to change in place, empty if absent.
pub(crate) fn items_mut<T>(value: &mut Option<Vec<T>>) -> &mut [T] {
    value.as_deref_mut().unwrap_or(&mut [])
}

/// The entries of the map in the order of their keys, none if absent.
pub(crate) fn entries<V>(value: &Option<BTreeMap<String, V>>) -> impl Iterator<Item = (&str, &V)> {
    value.iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// The value under a key, if both map and key are there.
pub(crate) fn entry<'a, V>(value: &'a Option<BTreeMap<String, V>>, key: &str) -> Option<&'a V> {
    value.as_ref().and_then(|map| map.get(key))
}

/// The boolean, false if absent.
pub(crate) fn flag(value: Option<bool>) -> bool {
    value.unwrap_or(false)
}

/// Sets a text that is absent or empty.
pub(crate) fn default_text(value: &mut Option<String>, default: &str) {
    if text(value).is_empty() {
        *value = Some(default.to_owned());
    }
}

/// Sets a number that is absent or zero.
pub(crate) fn default_number<N: Default + PartialEq>(value: &mut Option<N>, default: N) {
    if value.as_ref().is_none_or(|number| *number == N::default()) {
        *value = Some(default);
    }
}
