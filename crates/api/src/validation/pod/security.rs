//! Security contexts of pods and containers (L-1221).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext, Sysctl,
};

use super::windows::validate_windows_options;
use crate::absent::{flag, items};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::paths::validate_descending;

const ID_MAX: i64 = i32::MAX as i64;
const PROFILE_BYTES_MAX: usize = 4095;
const SYSCTL_LENGTH_MAX: usize = 253;
const SYSCTL_DETAIL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// The pod's own context and the flags of its spec that belong to it.
pub(super) fn validate_pod_security_context(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let empty = PodSecurityContext::default();
    let context = spec.security_context.as_ref().unwrap_or(&empty);
    let ids = [("fsGroup", context.fs_group), ("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)];
    for (field, id) in ids {
        if let Some(id) = id {
            errors.in_range(&at.child(field), id, 0, ID_MAX);
        }
    }
    for (index, group) in items(&context.supplemental_groups).iter().enumerate() {
        errors.in_range(&at.child("supplementalGroups").index(index), *group, 0, ID_MAX);
    }
    if flag(spec.share_process_namespace) && flag(spec.host_pid) {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&at.child("shareProcessNamespace"), true, detail);
    }
    validate_sysctls(items(&context.sysctls), spec, &at.child("sysctls"), errors);
    if let Some(policy) = &context.fs_group_change_policy {
        errors.one_of(&at.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    validate_seccomp_profile(context.seccomp_profile.as_ref(), &at.child("seccompProfile"), errors);
    validate_windows_options(context.windows_options.as_ref(), &at.child("windowsOptions"), errors);
    validate_app_armor_profile(context.app_armor_profile.as_ref(), &at.child("appArmorProfile"), errors);
    if let Some(policy) = &context.supplemental_groups_policy {
        errors.one_of(&at.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(policy) = &context.se_linux_change_policy {
        // The gate SELinuxMount, which allows another, is off.
        errors.one_of(&at.child("seLinuxChangePolicy"), policy, &["Recursive"]);
    }
}

pub(super) fn validate_security_context(
    context: Option<&SecurityContext>,
    host_users: bool,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let Some(context) = context else { return };
    for (field, id) in [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)] {
        if let Some(id) = id {
            errors.in_range(&at.child(field), id, 0, ID_MAX);
        }
    }
    if let Some(mount) = &context.proc_mount {
        errors.one_of(&at.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&at.child("procMount"), mount.as_str(), detail);
        }
    }
    validate_seccomp_profile(context.seccomp_profile.as_ref(), &at.child("seccompProfile"), errors);
    validate_escalation(context, at, errors);
    validate_windows_options(context.windows_options.as_ref(), &at.child("windowsOptions"), errors);
    validate_app_armor_profile(context.app_armor_profile.as_ref(), &at.child("appArmorProfile"), errors);
}

pub(crate) fn validate_app_armor_profile(profile: Option<&AppArmorProfile>, at: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    let name_at = at.child("localhostProfile");
    let name = profile.localhost_profile.as_deref();
    match (profile.type_.as_str(), name) {
        ("Localhost", None) => errors.required(&name_at, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&name_at, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&name_at, "must be set when AppArmor type is Localhost");
            }
            if name.len() > PROFILE_BYTES_MAX {
                errors.too_long(&name_at, PROFILE_BYTES_MAX);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(&name_at, name, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&at.child("type"), "type is required when appArmorProfile is set"),
        (kind, _) => errors.not_supported(&at.child("type"), kind, &PROFILE_TYPES),
    }
}

fn validate_seccomp_profile(profile: Option<&SeccompProfile>, at: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    if profile.type_.is_empty() {
        errors.required(&at.child("type"), "type is required when seccompProfile is set");
    } else {
        errors.one_of(&at.child("type"), &profile.type_, &PROFILE_TYPES);
    }
    let at = at.child("localhostProfile");
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("Localhost", None) => errors.required(&at, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(name)) => validate_descending(name, &at, errors),
        (_, Some(_)) => errors.invalid_object(&at, profile, "can only be set when seccomp type is Localhost"),
        (_, None) => {}
    }
}

fn validate_escalation(context: &SecurityContext, at: &FieldPath, errors: &mut Errors) {
    if context.allow_privilege_escalation != Some(false) {
        return;
    }
    if flag(context.privileged) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid_object(at, context, detail);
    }
    let added = context.capabilities.iter().flat_map(|capabilities| items(&capabilities.add));
    for _ in added.filter(|capability| *capability == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.invalid_object(at, context, detail);
    }
}

fn validate_sysctls(sysctls: &[Sysctl], spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in sysctls.iter().enumerate() {
        let at = at.index(index).child("name");
        let name = sysctl.name.as_str();
        if name.is_empty() {
            errors.required(&at, "");
        } else if !is_sysctl_name(name) {
            errors.invalid(&at, name, SYSCTL_DETAIL);
        } else if seen.contains(name) {
            errors.duplicate(&at, name);
        }
        match sysctl_namespace(name) {
            Some("net") if flag(spec.host_network) => {
                errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
            }
            Some("ipc") if flag(spec.host_ipc) => {
                errors.invalid(&at, name, "may not be specified when 'hostIPC' is true");
            }
            _ => {}
        }
        seen.insert(name);
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= SYSCTL_LENGTH_MAX
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().is_some_and(|byte| is_end(*byte))
                && bytes.last().is_some_and(|byte| is_end(*byte))
                && bytes.iter().all(|byte| is_end(*byte) || matches!(byte, b'-' | b'_'))
        })
}

/// The kernel namespace that a setting belongs to, if it is one that pods can have of their own.
fn sysctl_namespace(name: &str) -> Option<&'static str> {
    let name = normalized_sysctl(name);
    let name = name.split('*').next().unwrap_or("");
    match name {
        "kernel.sem"
        | "kernel.shmall"
        | "kernel.shmmax"
        | "kernel.shmmni"
        | "kernel.shm_rmid_forced"
        | "kernel.shm"
        | "kernel.msgmax"
        | "kernel.msgmnb"
        | "kernel.msgmni"
        | "kernel.msg" => Some("ipc"),
        _ if name.starts_with("net.") => Some("net"),
        _ if name.starts_with("fs.mqueue.") => Some("ipc"),
        _ => None,
    }
}

/// `net/ipv4/conf` and `net.ipv4.conf` are the same: the separator that comes first separates.
fn normalized_sysctl(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'/') => name
            .chars()
            .map(|it| {
                if it == '/' {
                    '.'
                } else if it == '.' {
                    '/'
                } else {
                    it
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}
