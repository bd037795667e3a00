//! Who a container's processes are: the pod's security context over the image's user (L-941 to L-943).
//!
//! Pure: the texts of `/etc/passwd` and `/etc/group` in, ids out.
//! As on a cluster, a group in the image's user (`1000:2000`) has no effect: the kubelet hands on the user alone.

use k8s_openapi::api::core::v1::Pod;

use super::security::Effective;
use crate::runtime::config::UserConfig;

/// The image's `/etc/passwd` and `/etc/group`; empty if it has none.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// `/etc/passwd`.
    pub passwd: String,
    /// `/etc/group`.
    pub group: String,
}

/// The identity that was found, and the home that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedUser {
    /// The ids.
    pub user: UserConfig,
    /// The home directory; `/` if the image has no such user.
    pub home: String,
}

/// Why a container may not be started as any user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// `runAsNonRoot` with `runAsUser: 0`.
    #[error("container's runAsUser breaks non-root policy (pod: \"{pod}\", container: {container})")]
    RunAsUserIsRoot {
        /// `<pod>_<namespace>(<uid>)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// `runAsNonRoot` with an image that names its user.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: \"{pod}\", container: {container})"
    )]
    NotNumeric {
        /// The image's user.
        user: String,
        /// `<pod>_<namespace>(<uid>)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// `runAsNonRoot` with an image whose user is root.
    #[error("container has runAsNonRoot and image will run as root (pod: \"{pod}\", container: {container})")]
    ImageIsRoot {
        /// `<pod>_<namespace>(<uid>)`.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// The image's user stands in no `/etc/passwd` of it.
    #[error("unable to find user {user}: no matching entries in passwd file")]
    Unknown {
        /// The image's user.
        user: String,
    },
    /// A number that is no id.
    #[error("{field} {value} is not a valid id")]
    OutOfRange {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: i64,
    },
}

/// Resolves a container's user.
pub fn resolve_user(
    effective: &Effective,
    pod: &Pod,
    container: &str,
    image_user: &str,
    accounts: &Accounts,
) -> Result<ResolvedUser, UserError> {
    let image_user = ImageUser::parse(image_user);
    verify_non_root(effective, pod, container, &image_user)?;
    let entry = match (effective.run_as_user, &image_user) {
        (Some(uid), _) => Entry::of_uid(id("runAsUser", uid)?, accounts),
        (None, ImageUser::Uid(uid)) => Entry::of_uid(id("the image's user", *uid)?, accounts),
        (None, ImageUser::Name(name)) => Entry::of_name(name, accounts)?,
    };
    let gid = effective.run_as_group.map(|gid| id("runAsGroup", gid)).transpose()?.unwrap_or(entry.gid);
    // containerd lists the primary group too, then the image's, then the pod's; a status shows them so.
    let mut groups = vec![gid];
    if effective.merges_image_groups {
        groups.extend(entry.groups(accounts));
    }
    groups.extend(supplementary_groups(pod)?);
    let mut seen = std::collections::BTreeSet::new();
    groups.retain(|group| seen.insert(*group));
    Ok(ResolvedUser { user: UserConfig { uid: entry.uid, gid, supplementary_groups: groups }, home: entry.home })
}

/// `fsGroup` and `supplementalGroups` (L-943).
fn supplementary_groups(pod: &Pod) -> Result<Vec<u32>, UserError> {
    let context = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let Some(context) = context else { return Ok(Vec::new()) };
    let fs_group = context.fs_group.map(|group| id("fsGroup", group));
    let listed = context.supplemental_groups.iter().flatten().map(|group| id("supplementalGroups", *group));
    fs_group.into_iter().chain(listed).collect()
}

fn verify_non_root(effective: &Effective, pod: &Pod, container: &str, image: &ImageUser) -> Result<(), UserError> {
    if !effective.run_as_non_root {
        return Ok(());
    }
    let (pod, container) = (super::pod_description(pod), container.to_owned());
    match (effective.run_as_user, image) {
        (Some(0), _) => Err(UserError::RunAsUserIsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Uid(0)) => Err(UserError::ImageIsRoot { pod, container }),
        (None, ImageUser::Uid(_)) => Ok(()),
        (None, ImageUser::Name(user)) => Err(UserError::NotNumeric { user: user.clone(), pod, container }),
    }
}

fn id(field: &'static str, value: i64) -> Result<u32, UserError> {
    u32::try_from(value).map_err(|_| UserError::OutOfRange { field, value })
}

enum ImageUser {
    Uid(i64),
    Name(String),
}

impl ImageUser {
    fn parse(user: &str) -> ImageUser {
        let user = user.split(':').next().unwrap_or_default();
        match user.parse() {
            Ok(uid) => ImageUser::Uid(uid),
            // An image that says nothing runs as root.
            Err(_) if user.is_empty() => ImageUser::Uid(0),
            Err(_) => ImageUser::Name(user.to_owned()),
        }
    }
}

/// A user as passwd(5) has it.
struct Entry {
    name: Option<String>,
    uid: u32,
    gid: u32,
    home: String,
}

impl Entry {
    fn of_uid(uid: u32, accounts: &Accounts) -> Entry {
        let found = entries(&accounts.passwd).find(|entry| entry.uid == uid);
        found.unwrap_or(Entry { name: None, uid, gid: 0, home: "/".to_owned() })
    }

    fn of_name(name: &str, accounts: &Accounts) -> Result<Entry, UserError> {
        entries(&accounts.passwd)
            .find(|entry| entry.name.as_deref() == Some(name))
            .ok_or_else(|| UserError::Unknown { user: name.to_owned() })
    }

    /// The groups that group(5) lists the user in.
    fn groups(&self, accounts: &Accounts) -> Vec<u32> {
        let Some(name) = &self.name else { return Vec::new() };
        let listed = accounts.group.lines().filter_map(|line| {
            let mut fields = line.trim().split(':');
            let (gid, members) = (fields.nth(2)?, fields.next()?);
            members.split(',').any(|member| member == name).then(|| gid.parse().ok())?
        });
        listed.collect()
    }
}

/// The lines of a passwd(5) that hold a user; others are passed over.
fn entries(passwd: &str) -> impl Iterator<Item = Entry> {
    passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let [name, _, uid, gid, rest @ ..] = fields.as_slice() else { return None };
        let home = rest.get(1).copied().filter(|home| !home.is_empty()).unwrap_or("/");
        Some(Entry {
            name: Some((*name).to_owned()),
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            home: home.to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nbroken line\nweb:x:101:102::/srv:/bin/false\n# comment\nshort:x:7:8";
    const GROUP: &str = "root:x:0:\nadm:x:4:web,root\nweb:x:102:\nbroken\nlog:x:9:other,web";

    fn resolve(pod: Value, container: Value, image_user: &str) -> std::result::Result<ResolvedUser, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"securityContext": pod, "containers": [{"name": "c", "securityContext": container}]},
        }))
        .map_err(|error| error.to_string())?;
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first()).ok_or("no container")?;
        let effective = Effective::of(&pod, container.security_context.as_ref());
        let accounts = Accounts { passwd: PASSWD.into(), group: GROUP.into() };
        resolve_user(&effective, &pod, "c", image_user, &accounts).map_err(|error| error.to_string())
    }

    fn check(pod: Value, container: Value, image_user: &str, uid: u32, gid: u32, groups: &[u32], home: &str) {
        let user = UserConfig { uid, gid, supplementary_groups: groups.to_vec() };
        assert_eq!(resolve(pod, container, image_user), Ok(ResolvedUser { user, home: home.to_owned() }));
    }

    #[test]
    fn the_images_user_is_looked_up_in_the_image() {
        check(json!({}), json!({}), "", 0, 0, &[0, 4], "/root");
        check(json!({}), json!({}), "0", 0, 0, &[0, 4], "/root");
        check(json!({}), json!({}), "101", 101, 102, &[102, 4, 9], "/srv");
        check(json!({}), json!({}), "web", 101, 102, &[102, 4, 9], "/srv");
        check(json!({}), json!({}), "short", 7, 8, &[8], "/");
        check(json!({}), json!({}), "5000", 5000, 0, &[0], "/");
    }

    #[test]
    fn a_group_in_the_images_user_has_no_effect_as_on_a_cluster() {
        check(json!({}), json!({}), "101:4", 101, 102, &[102, 4, 9], "/srv");
        check(json!({}), json!({}), "5000:2000", 5000, 0, &[0], "/");
    }

    #[test]
    fn the_containers_context_goes_before_the_pods_and_the_images() {
        check(json!({"runAsUser": 7}), json!({}), "web", 7, 8, &[8], "/");
        check(json!({"runAsUser": 7, "runAsGroup": 1}), json!({"runAsUser": 101}), "0", 101, 1, &[1, 4, 9], "/srv");
        check(json!({}), json!({"runAsGroup": 50}), "web", 101, 50, &[50, 4, 9], "/srv");
    }

    #[test]
    fn fs_group_and_supplemental_groups_come_after_the_images_and_once() {
        let pod = json!({"fsGroup": 2000, "supplementalGroups": [4, 3000, 2000]});
        check(pod, json!({}), "web", 101, 102, &[102, 4, 9, 2000, 3000], "/srv");
    }

    #[test]
    fn the_strict_policy_leaves_the_images_groups_out() {
        let pod = json!({"supplementalGroups": [3000], "supplementalGroupsPolicy": "Strict"});
        check(pod, json!({}), "web", 101, 102, &[102, 3000], "/srv");
    }

    #[test]
    fn run_as_non_root_refuses_root_in_every_guise() {
        let refused =
            |container: Value, image_user: &str| resolve(json!({"runAsNonRoot": true}), container, image_user);
        let expected = [
            (
                refused(json!({"runAsUser": 0}), "101"),
                "container's runAsUser breaks non-root policy (pod: \"p_ns(u)\", container: c)",
            ),
            (
                refused(json!({}), "web"),
                "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root (pod: \"p_ns(u)\", container: c)",
            ),
            (
                refused(json!({}), "0:101"),
                "container has runAsNonRoot and image will run as root (pod: \"p_ns(u)\", container: c)",
            ),
            (
                refused(json!({}), ""),
                "container has runAsNonRoot and image will run as root (pod: \"p_ns(u)\", container: c)",
            ),
        ];
        for (result, text) in expected {
            assert_eq!(result, Err(text.to_owned()));
        }
        assert!(refused(json!({}), "101").is_ok());
        assert!(refused(json!({"runAsUser": 5}), "web").is_ok());
        assert!(refused(json!({"runAsNonRoot": false}), "").is_ok());
    }

    #[test]
    fn an_unknown_name_and_an_impossible_id_are_refused() -> Result {
        let unknown = "unable to find user ghost: no matching entries in passwd file";
        assert_eq!(resolve(json!({}), json!({}), "ghost"), Err(unknown.into()));
        assert_eq!(resolve(json!({}), json!({"runAsUser": -1}), ""), Err("runAsUser -1 is not a valid id".into()));
        assert_eq!(
            resolve(json!({"fsGroup": 1i64 << 40}), json!({}), ""),
            Err("fsGroup 1099511627776 is not a valid id".into())
        );
        Ok(())
    }
}
