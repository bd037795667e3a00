//! The files of a configMap, secret, downwardAPI or projected volume, before they are written (L-921).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, DownwardAPIVolumeFile, KeyToPath, Secret};

use super::VolumeContext;
use super::set_up::VolumeError;
use crate::container::fields::{pod_field, resource_field};

/// The mode of files that nothing else is said of; defaulting writes it into every object.
const DEFAULT_MODE: u32 = 0o644;
const FILE_NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4096;

/// Files by their path within the volume.
pub(super) type Payload = BTreeMap<String, ProjectedFile>;

/// One file of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProjectedFile {
    pub(super) data: Vec<u8>,
    pub(super) mode: u32,
    /// Its owner if that is not root.
    pub(super) user: Option<u32>,
}

/// Which keys of an object become which files.
pub(super) struct Selection<'a> {
    pub(super) items: &'a [KeyToPath],
    pub(super) default_mode: u32,
    pub(super) is_optional: bool,
}

impl Selection<'_> {
    /// Picks files out of an object's keys; `missing` makes the error of a key that is not there.
    fn pick(
        &self,
        mut keys: BTreeMap<String, Vec<u8>>,
        missing: impl Fn(String) -> VolumeError,
    ) -> Result<Payload, VolumeError> {
        if self.items.is_empty() {
            let file = |data| ProjectedFile { data, mode: self.default_mode, user: None };
            return Ok(keys.into_iter().map(|(key, data)| (key, file(data))).collect());
        }
        let mut payload = Payload::new();
        for item in self.items {
            // Two items may pick the same key.
            let Some(data) = keys.get_mut(&item.key) else {
                if self.is_optional {
                    continue;
                }
                return Err(missing(item.key.clone()));
            };
            let mode = mode(item.mode).unwrap_or(self.default_mode);
            payload.insert(item.path.clone(), ProjectedFile { data: data.clone(), mode, user: None });
        }
        Ok(payload)
    }
}

/// `defaultMode`.
pub(super) fn default_mode(mode_bits: Option<i32>) -> u32 {
    mode(mode_bits).unwrap_or(DEFAULT_MODE)
}

fn mode(bits: Option<i32>) -> Option<u32> {
    bits.map(|bits| bits.cast_unsigned() & 0o777)
}

/// The files of a ConfigMap.
pub(super) fn config_map_files(
    name: &str,
    selection: &Selection<'_>,
    context: &VolumeContext<'_>,
) -> Result<Payload, VolumeError> {
    let namespace = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let object = match context.sources.config_map(namespace, name)? {
        Some(object) => object,
        None if selection.is_optional => ConfigMap::default().into(),
        None => return Err(VolumeError::NotFound { kind: "configmap", name: name.to_owned() }),
    };
    let text = object.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    let binary = object.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    selection.pick(binary.chain(text).collect(), |key| VolumeError::ConfigMapKey { key })
}

/// The files of a Secret.
pub(super) fn secret_files(
    name: &str,
    selection: &Selection<'_>,
    context: &VolumeContext<'_>,
) -> Result<Payload, VolumeError> {
    let namespace = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let object = match context.sources.secret(namespace, name)? {
        Some(object) => object,
        None if selection.is_optional => Secret::default().into(),
        None => return Err(VolumeError::NotFound { kind: "secret", name: name.to_owned() }),
    };
    let data = object.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()));
    selection.pick(data.collect(), |key| VolumeError::SecretKey { key })
}

/// The files of a pod's own fields (L-906, L-907).
pub(super) fn downward_files(
    items: &[DownwardAPIVolumeFile],
    default_mode: u32,
    context: &VolumeContext<'_>,
) -> Result<Payload, VolumeError> {
    let mut errors = Vec::new();
    let mut payload = Payload::new();
    for item in items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => pod_field(context.pod, &field.field_path, context.node, &[]),
            // The name is required in volumes, so there is no container of its own.
            (None, Some(resource)) => resource_field(resource, context.pod, &Container::default(), context.node),
            (None, None) => Ok(String::new()),
        };
        match value {
            Ok(value) => {
                let mode = mode(item.mode).unwrap_or(default_mode);
                payload.insert(item.path.clone(), ProjectedFile { data: value.into_bytes(), mode, user: None });
            }
            Err(error) => errors.push(VolumeError::from(error)),
        }
    }
    match one(errors) {
        Some(error) => Err(error),
        None => Ok(payload),
    }
}

/// Several errors as one, each text once.
pub(super) fn one(errors: Vec<VolumeError>) -> Option<VolumeError> {
    let mut texts: Vec<String> = Vec::new();
    for text in errors.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => errors.into_iter().next(),
        _ => Some(VolumeError::Several(texts)),
    }
}

/// Checks the paths, and brings them into one form.
pub(super) fn checked(payload: Payload) -> Result<Payload, VolumeError> {
    payload.into_iter().map(|(path, file)| Ok((checked_path(&path)?, file))).collect()
}

fn checked_path(path: &str) -> Result<String, VolumeError> {
    let wrong = |text: String| Err(VolumeError::Path(text));
    if path.is_empty() {
        return wrong("must not be empty: \"\"".to_owned());
    }
    if path.starts_with('/') {
        return wrong(format!("must be relative path: {path}"));
    }
    if path.len() > PATH_BYTES_MAX {
        return wrong(format!("must be less than or equal to {PATH_BYTES_MAX} characters"));
    }
    if path.split('/').any(|component| component == "..") {
        return wrong(format!("must not contain '..': {path}"));
    }
    if path.split('/').any(|component| component.len() > FILE_NAME_BYTES_MAX) {
        return wrong(format!("filenames must be less than or equal to {FILE_NAME_BYTES_MAX} characters"));
    }
    if path.starts_with("..") {
        return wrong(format!("must not start with '..': {path}"));
    }
    let components: Vec<&str> = path.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
    if components.is_empty() {
        return wrong(format!("must not be empty: {path:?}"));
    }
    Ok(components.join("/"))
}

#[cfg(test)]
mod tests {
    use super::checked_path;

    #[test]
    fn l_921_paths_are_relative_and_do_not_begin_with_two_dots() {
        let check = |path: &str| checked_path(path).map_err(|error| error.to_string());
        assert_eq!(check("a//./b"), Ok("a/b".to_owned()));
        assert_eq!(check("a..b/..c"), Ok("a..b/..c".to_owned()));
        let wrong = |path: &str, text: &str| assert_eq!(check(path), Err(format!("invalid path: {text}")));
        wrong("", "must not be empty: \"\"");
        wrong(".", "must not be empty: \".\"");
        wrong("/a", "must be relative path: /a");
        wrong("a/../b", "must not contain '..': a/../b");
        wrong("..a", "must not start with '..': ..a");
        wrong(&"a".repeat(256), "filenames must be less than or equal to 255 characters");
        wrong(&"a/".repeat(2100), "must be less than or equal to 4096 characters");
    }
}
