//! Volume mounts and block devices of a container (L-1213).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, Volume, VolumeDevice, VolumeMount};

use crate::absent::{flag, items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::paths::{has_backsteps, validate_descending};

pub(super) fn validate_volume_mounts(
    container: &Container,
    volumes: &BTreeMap<&str, &Volume>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let devices = items(&container.volume_devices);
    let mut mount_paths = BTreeSet::new();
    for (index, mount) in items(&container.volume_mounts).iter().enumerate() {
        let mount_at = at.index(index);
        let (name, path) = (mount.name.as_str(), mount.mount_path.as_str());
        if name.is_empty() {
            errors.required(&mount_at.child("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(&mount_at.child("name"), name, "");
        }
        if path.is_empty() {
            errors.required(&mount_at.child("mountPath"), "");
        }
        if !mount_paths.insert(path) {
            errors.invalid(&mount_at.child("mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| device.name == name) {
            errors.invalid(&mount_at.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| device.device_path == path) {
            errors.invalid(&mount_at.child("mountPath"), path, "must not already exist as a path in volumeDevices");
        }
        validate_sub_paths(mount, at, &mount_at, errors);
        validate_propagation(mount, container, &at.child("mountPropagation"), errors);
        validate_recursive_read_only(mount, &at.child("recursiveReadOnly"), errors);
    }
}

/// Kubernetes names the list without the mount's index for most of these.
fn validate_sub_paths(mount: &VolumeMount, list_at: &FieldPath, at: &FieldPath, errors: &mut Errors) {
    let (sub_path, expression) = (text(&mount.sub_path), text(&mount.sub_path_expr));
    if !sub_path.is_empty() {
        validate_descending(sub_path, &list_at.child("subPath"), errors);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&at.child("subPathExpr"), expression, detail);
        }
        validate_descending(expression, &list_at.child("subPathExpr"), errors);
    }
}

fn validate_propagation(mount: &VolumeMount, container: &Container, at: &FieldPath, errors: &mut Errors) {
    let Some(propagation) = mount.mount_propagation.as_deref() else { return };
    errors.one_of(at, propagation, &["Bidirectional", "HostToContainer", "None"]);
    let is_privileged = container.security_context.as_ref().is_some_and(|it| flag(it.privileged));
    if propagation == "Bidirectional" && !is_privileged {
        errors.forbidden(at, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(mount: &VolumeMount, at: &FieldPath, errors: &mut Errors) {
    let Some(mode) = mount.recursive_read_only.as_deref() else { return };
    match mode {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount.read_only) {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if mount.mount_propagation.as_deref().is_some_and(|propagation| propagation != "None") {
                errors.forbidden(at, "may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => errors.not_supported(at, mode, &["Disabled", "Enabled", "IfPossible"]),
    }
}

pub(super) fn validate_volume_devices(
    container: &Container,
    volumes: &BTreeMap<&str, &Volume>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mounts = items(&container.volume_mounts);
    let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(&container.volume_devices).iter().enumerate() {
        let at = at.index(index);
        let (name, path) = (device.name.as_str(), device.device_path.as_str());
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(&at.child("name"), name, "must be unique");
        }
        validate_device_volume(device, volumes, &at.child("name"), errors);
        if path.is_empty() {
            errors.required(&at.child("devicePath"), "");
        }
        if paths.contains(path) {
            errors.invalid(&at.child("devicePath"), path, "must be unique");
        }
        if has_backsteps(path) {
            errors.invalid(&at.child("devicePath"), path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path);
        }
        if mounts.iter().any(|mount| mount.name == name) {
            errors.invalid(&at.child("name"), name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| mount.mount_path == path) {
            errors.invalid(&at.child("devicePath"), path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

/// Only claims can be given to a container as a block device.
fn validate_device_volume(
    device: &VolumeDevice,
    volumes: &BTreeMap<&str, &Volume>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    match volumes.get(device.name.as_str()) {
        None => errors.not_found(at, &device.name, ""),
        Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
            let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.invalid(at, device.name.as_str(), detail);
        }
        Some(_) => {}
    }
}
