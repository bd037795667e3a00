//! The pod's operating system and the fields that belong to the other one.

use k8s_openapi::api::core::v1::{PodSpec, SecurityContext};

use crate::absent::{flag, items};
use crate::containers;
use crate::field::FieldPath;
use crate::validation::errors::Errors;

const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";

pub(super) fn validate_os(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let Some(os) = &spec.os else { return };
    match os.name.as_str() {
        "" => errors.required(&at.child("os").child("name"), ""),
        "linux" => validate_linux(spec, at, errors),
        "windows" => validate_windows(spec, at, errors),
        name => errors.not_supported(&at.child("os"), name, &["linux", "windows"]),
    }
}

fn validate_linux(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    if spec.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
        errors.forbidden(&at.child("securityContext").child("windowsOptions"), NOT_FOR_LINUX);
    }
    for (list, index, container) in containers::all(spec) {
        if container.security_context.as_ref().is_some_and(|context| context.windows_options.is_some()) {
            let at = at.child(list.field()).index(index).child("securityContext");
            errors.forbidden(&at.child("windowsOptions"), NOT_FOR_LINUX);
        }
    }
}

/// Fields in the order in which Kubernetes looks at them.
fn validate_windows(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let context_at = at.child("securityContext");
    let context = spec.security_context.clone().unwrap_or_default();
    let of_context = |field: &str| context_at.child(field);
    let fields = [
        (of_context("appArmorProfile"), context.app_armor_profile.is_some()),
        (of_context("seLinuxOptions"), context.se_linux_options.is_some()),
        (at.child("hostUsers"), spec.host_users.is_some()),
        (at.child("hostPID"), flag(spec.host_pid)),
        (at.child("hostIPC"), flag(spec.host_ipc)),
        (of_context("seccompProfile"), context.seccomp_profile.is_some()),
        (of_context("fsGroup"), context.fs_group.is_some()),
        (of_context("fsGroupChangePolicy"), context.fs_group_change_policy.is_some()),
        (of_context("sysctls"), !items(&context.sysctls).is_empty()),
        (at.child("shareProcessNamespace"), spec.share_process_namespace.is_some()),
        (of_context("runAsUser"), context.run_as_user.is_some()),
        (of_context("runAsGroup"), context.run_as_group.is_some()),
        (of_context("supplementalGroups"), context.supplemental_groups.is_some()),
        (of_context("supplementalGroupsPolicy"), context.supplemental_groups_policy.is_some()),
        (of_context("seLinuxChangePolicy"), context.se_linux_change_policy.is_some()),
    ];
    for (at, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.forbidden(&at, NOT_FOR_WINDOWS);
    }
    for (list, index, container) in containers::all(spec) {
        if let Some(context) = &container.security_context {
            let at = at.child(list.field()).index(index).child("securityContext");
            validate_windows_container(context, &at, errors);
        }
    }
}

fn validate_windows_container(context: &SecurityContext, at: &FieldPath, errors: &mut Errors) {
    let fields = [
        ("appArmorProfile", context.app_armor_profile.is_some()),
        ("seLinuxOptions", context.se_linux_options.is_some()),
        ("seccompProfile", context.seccomp_profile.is_some()),
        ("capabilities", context.capabilities.is_some()),
        ("readOnlyRootFilesystem", context.read_only_root_filesystem.is_some()),
        ("privileged", context.privileged.is_some()),
        ("allowPrivilegeEscalation", context.allow_privilege_escalation.is_some()),
        ("procMount", context.proc_mount.is_some()),
        ("runAsUser", context.run_as_user.is_some()),
        ("runAsGroup", context.run_as_group.is_some()),
    ];
    for (field, _) in fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.forbidden(&at.child(field), NOT_FOR_WINDOWS);
    }
}
