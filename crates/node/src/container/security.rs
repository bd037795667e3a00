//! What a container's processes may do: security contexts, capabilities, masks, system calls (L-941, L-944, L-945).
//!
//! Pure. The one thing that differs from a kubelet's defaults: a pod that says nothing of seccomp has RuntimeDefault,
//! as on nodes with `seccompDefault: true`.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Capabilities, Pod, PodSecurityContext, SeccompProfile, SecurityContext};

use crate::runtime::config;
use crate::runtime::config::SecurityConfig;

/// A container's security context with the pod's behind it (L-941).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effective {
    /// `runAsUser`.
    pub run_as_user: Option<i64>,
    /// `runAsGroup`.
    pub run_as_group: Option<i64>,
    /// `runAsNonRoot`.
    pub run_as_non_root: bool,
    /// False for `supplementalGroupsPolicy: Strict` (L-943).
    pub merges_image_groups: bool,
    /// `privileged`.
    pub privileged: bool,
    /// `readOnlyRootFilesystem`.
    pub read_only_root_filesystem: bool,
    /// False for `allowPrivilegeEscalation: false`.
    pub allow_privilege_escalation: bool,
    /// True for `procMount: Unmasked`.
    pub proc_unmasked: bool,
    /// `capabilities`.
    pub capabilities: Capabilities,
    /// `seccompProfile`.
    pub seccomp_profile: Option<SeccompProfile>,
}

impl Effective {
    /// What holds for a container of the pod with the given context.
    pub fn of(pod: &Pod, container: Option<&SecurityContext>) -> Effective {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
        let of_container = container.cloned().unwrap_or_default();
        let PodSecurityContext { run_as_user, run_as_group, run_as_non_root, supplemental_groups_policy, .. } = of_pod;
        Effective {
            run_as_user: of_container.run_as_user.or(run_as_user),
            run_as_group: of_container.run_as_group.or(run_as_group),
            run_as_non_root: of_container.run_as_non_root.or(run_as_non_root).unwrap_or(false),
            merges_image_groups: supplemental_groups_policy.as_deref() != Some("Strict"),
            privileged: of_container.privileged.unwrap_or(false),
            read_only_root_filesystem: of_container.read_only_root_filesystem.unwrap_or(false),
            allow_privilege_escalation: of_container.allow_privilege_escalation.unwrap_or(true),
            proc_unmasked: of_container.proc_mount.as_deref() == Some("Unmasked"),
            capabilities: of_container.capabilities.unwrap_or_default(),
            seccomp_profile: of_container.seccomp_profile.or(of_pod.seccomp_profile),
        }
    }

    /// What the runtime is asked for. `read_profile` gives the text of a `Localhost` profile.
    pub fn security_config(
        &self,
        read_profile: &dyn Fn(&str) -> Result<String, SecurityError>,
    ) -> Result<SecurityConfig, SecurityError> {
        let unmasked = self.privileged || self.proc_unmasked;
        let paths = |default: fn() -> Vec<String>| if unmasked { Vec::new() } else { default() };
        Ok(SecurityConfig {
            privileged: self.privileged,
            capabilities: self.capability_names()?,
            no_new_privileges: !self.allow_privilege_escalation,
            masked_paths: paths(SecurityConfig::default_masked_paths),
            read_only_paths: paths(SecurityConfig::default_read_only_paths),
            seccomp: self.seccomp(read_profile)?,
        })
    }

    /// The runtime's default set with `add` and `drop`; `ALL` in either stands for every capability, and what is named goes before it.
    fn capability_names(&self) -> Result<Vec<String>, SecurityError> {
        if self.privileged {
            return Ok(ALL_CAPABILITIES.iter().map(|name| format!("CAP_{name}")).collect());
        }
        let add = named(&self.capabilities.add)?;
        let drop = named(&self.capabilities.drop)?;
        let mut set: BTreeSet<String> = SecurityConfig::default_capabilities().into_iter().collect();
        if add.contains(ALL) {
            set = ALL_CAPABILITIES.iter().map(|name| format!("CAP_{name}")).collect();
        }
        if drop.contains(ALL) {
            set.clear();
        }
        set.extend(add.into_iter().filter(|name| name != ALL));
        set.retain(|name| !drop.contains(name));
        Ok(set.into_iter().collect())
    }

    /// Container, then pod, then RuntimeDefault; privileged containers have no filter (L-944).
    fn seccomp(
        &self,
        read_profile: &dyn Fn(&str) -> Result<String, SecurityError>,
    ) -> Result<config::SeccompProfile, SecurityError> {
        if self.privileged {
            return Ok(config::SeccompProfile::Unconfined);
        }
        let Some(profile) = &self.seccomp_profile else { return Ok(config::SeccompProfile::RuntimeDefault) };
        match profile.type_.as_str() {
            "Unconfined" => Ok(config::SeccompProfile::Unconfined),
            "RuntimeDefault" => Ok(config::SeccompProfile::RuntimeDefault),
            "Localhost" => match profile.localhost_profile.as_deref() {
                Some(path) if !path.is_empty() => Ok(config::SeccompProfile::Localhost(read_profile(path)?)),
                _ => Err(SecurityError::NoLocalhostProfile),
            },
            other => Err(SecurityError::ProfileType { kind: other.to_owned() }),
        }
    }
}

/// Why a security context cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecurityError {
    /// A capability that Linux does not have.
    #[error("unknown capability \"{name}\"")]
    Capability {
        /// As the pod names it.
        name: String,
    },
    /// `Localhost` without a file.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    NoLocalhostProfile,
    /// A type that Kubernetes does not have.
    #[error("unknown seccomp profile type \"{kind}\"")]
    ProfileType {
        /// As the pod names it.
        kind: String,
    },
    /// A profile that cannot be read.
    #[error("failed to load the seccomp profile \"{path}\": {problem}\nhint: put it below `{directory}`")]
    Profile {
        /// `localhostProfile`.
        path: String,
        /// What is wrong.
        problem: String,
        /// Where profiles are looked for.
        directory: String,
    },
}

const ALL: &str = "CAP_ALL";

/// The capabilities of Linux 5.9 and later, in their order (capabilities(7)).
const ALL_CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The names with their prefix, in whatever way the pod spells them.
fn named(list: &Option<Vec<String>>) -> Result<BTreeSet<String>, SecurityError> {
    list.iter()
        .flatten()
        .map(|name| {
            let upper = name.to_uppercase();
            let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
            if bare == "ALL" || ALL_CAPABILITIES.contains(&bare) {
                Ok(format!("CAP_{bare}"))
            } else {
                Err(SecurityError::Capability { name: name.clone() })
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    fn config(pod: Value, container: Value) -> Result<SecurityConfig> {
        let pod: Pod = serde_json::from_value(json!({"spec": {"securityContext": pod, "containers": []}}))?;
        let container: SecurityContext = serde_json::from_value(container)?;
        let read = |path: &str| Ok(format!("profile {path}"));
        Ok(Effective::of(&pod, Some(&container)).security_config(&read)?)
    }

    fn capabilities(add: &[&str], drop: &[&str]) -> Result<Vec<String>> {
        Ok(config(json!({}), json!({"capabilities": {"add": add, "drop": drop}}))?.capabilities)
    }

    #[test]
    fn a_pod_that_says_nothing_has_the_runtimes_defaults() -> Result {
        let expected = SecurityConfig {
            privileged: false,
            capabilities: SecurityConfig::default_capabilities(),
            no_new_privileges: false,
            masked_paths: SecurityConfig::default_masked_paths(),
            read_only_paths: SecurityConfig::default_read_only_paths(),
            seccomp: config::SeccompProfile::RuntimeDefault,
        };
        assert_eq!(config(json!({}), json!({}))?, expected);
        Ok(())
    }

    #[test]
    fn capabilities_are_added_and_dropped() -> Result {
        let default = SecurityConfig::default_capabilities();
        let without = |name: &str| default.iter().filter(|it| *it != name).cloned().collect::<Vec<_>>();
        assert_eq!(capabilities(&[], &["MKNOD"])?, without("CAP_MKNOD"));
        assert_eq!(capabilities(&[], &["cap_mknod"])?, without("CAP_MKNOD"));
        assert_eq!(capabilities(&["NET_ADMIN"], &["ALL"])?, ["CAP_NET_ADMIN"]);
        assert_eq!(capabilities(&[], &["ALL"])?, Vec::<String>::new());
        assert_eq!(capabilities(&["ALL"], &["SYS_ADMIN"])?.len(), 40);
        assert_eq!(capabilities(&["ALL"], &["ALL"])?, Vec::<String>::new());
        let added = capabilities(&["CAP_SYS_PTRACE"], &[])?;
        assert_eq!((added.len(), added.contains(&"CAP_SYS_PTRACE".to_owned())), (15, true));
        Ok(())
    }

    #[test]
    fn an_unknown_capability_is_refused() {
        let refused = capabilities(&["FLY"], &[]).err().map(|error| error.to_string());
        assert_eq!(refused, Some("unknown capability \"FLY\"".into()));
    }

    #[test]
    fn a_privileged_container_has_every_capability_and_no_mask_or_filter() -> Result {
        let privileged = config(
            json!({"seccompProfile": {"type": "RuntimeDefault"}}),
            json!({"privileged": true, "capabilities": {"drop": ["ALL"]}}),
        )?;
        assert_eq!(privileged.capabilities.len(), 41);
        assert_eq!((privileged.masked_paths, privileged.read_only_paths), (Vec::new(), Vec::new()));
        assert_eq!(privileged.seccomp, config::SeccompProfile::Unconfined);
        Ok(())
    }

    #[test]
    fn the_containers_seccomp_profile_goes_before_the_pods() -> Result {
        let cases = [
            (json!({"type": "Unconfined"}), Value::Null, config::SeccompProfile::Unconfined),
            (json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"}), config::SeccompProfile::RuntimeDefault),
            (
                Value::Null,
                json!({"type": "Localhost", "localhostProfile": "a/b.json"}),
                config::SeccompProfile::Localhost("profile a/b.json".into()),
            ),
        ];
        for (pod, container, expected) in cases {
            let config = config(json!({"seccompProfile": pod}), json!({"seccompProfile": container}))?;
            assert_eq!(config.seccomp, expected);
        }
        Ok(())
    }

    #[test]
    fn no_new_privileges_follows_allow_privilege_escalation() -> Result {
        assert!(config(json!({}), json!({"allowPrivilegeEscalation": false}))?.no_new_privileges);
        assert!(!config(json!({}), json!({"allowPrivilegeEscalation": true}))?.no_new_privileges);
        Ok(())
    }

    #[test]
    fn an_unmasked_proc_has_no_masks() -> Result {
        let unmasked = config(json!({}), json!({"procMount": "Unmasked"}))?;
        assert_eq!((unmasked.masked_paths, unmasked.read_only_paths), (Vec::new(), Vec::new()));
        Ok(())
    }
}
