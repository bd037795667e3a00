//! ServiceAccount: every pod has an account, and its containers that account's token.

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath, LocalObjectReference,
    ObjectFieldSelector, Pod, PodSpec, ProjectedVolumeSource, ServiceAccount, ServiceAccountTokenProjection, Volume,
    VolumeMount, VolumeProjection,
};
use thiserror::Error;

use crate::absent::{entry, items, items_mut, text};

/// Where a container finds its account's token, unless something else is mounted there.
pub const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and a margin by which old clients that ask for an hour are told apart.
const TOKEN_EXPIRATION_SECONDS: i64 = 3607;
const FILE_MODE: i32 = 0o644;
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a pod is refused for its account.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServiceAccountRefusal {
    /// The account does not exist.
    #[error("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found")]
    NotFound {
        /// The pod's namespace.
        namespace: String,
        /// The account.
        name: String,
    },
    /// A mirror pod names an account.
    #[error("a mirror pod may not reference service accounts")]
    MirrorWithAccount,
    /// A mirror pod has a token.
    #[error("a mirror pod may not use ServiceAccountToken volume projections")]
    MirrorWithToken,
}

/// Names the account that the pod will have: its own or `default`. The caller looks it up.
pub fn name_service_account(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    let names = spec.map(|spec| [&spec.service_account_name, &spec.service_account]);
    names.into_iter().flatten().map(text).find(|name| !name.is_empty()).unwrap_or("default")
}

/// Gives the pod its account, that account's pull secrets if it has none, and the token's volume and mounts.
///
/// `account` is what [`name_service_account`] named, if it exists; `suffix` are the five random characters of the volume's
/// name.
pub fn set_service_account(
    pod: &mut Pod,
    account: Option<&ServiceAccount>,
    suffix: &str,
) -> Result<(), ServiceAccountRefusal> {
    if entry(&pod.metadata.annotations, MIRROR).is_some() {
        return admit_mirror_pod(pod);
    }
    let name = name_service_account(pod).to_owned();
    let Some(account) = account else {
        let namespace = text(&pod.metadata.namespace).to_owned();
        return Err(ServiceAccountRefusal::NotFound { namespace, name });
    };
    let spec = pod.spec.get_or_insert_default();
    spec.service_account = Some(name.clone());
    spec.service_account_name = Some(name);
    let mounts_token = spec.automount_service_account_token.or(account.automount_service_account_token).unwrap_or(true);
    if mounts_token {
        mount_token(spec, suffix);
    }
    if items(&spec.image_pull_secrets).is_empty() {
        let secrets = items(&account.image_pull_secrets).iter();
        let secrets: Vec<_> = secrets.map(|secret| LocalObjectReference { name: secret.name.clone() }).collect();
        spec.image_pull_secrets = (!secrets.is_empty()).then_some(secrets);
    }
    Ok(())
}

/// Mirror pods show what a node runs by itself: nothing is added to them.
fn admit_mirror_pod(pod: &Pod) -> Result<(), ServiceAccountRefusal> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    if !text(&spec.service_account_name).is_empty() {
        return Err(ServiceAccountRefusal::MirrorWithAccount);
    }
    let projected = items(&spec.volumes).iter().filter_map(|volume| volume.projected.as_ref());
    let mut sources = projected.flat_map(|projected| items(&projected.sources));
    if sources.any(|source| source.service_account_token.is_some()) {
        return Err(ServiceAccountRefusal::MirrorWithToken);
    }
    Ok(())
}

fn mount_token(spec: &mut PodSpec, suffix: &str) {
    let known = items(&spec.volumes).iter().find(|volume| volume.name.starts_with(VOLUME_PREFIX));
    let known = known.map(|volume| volume.name.clone());
    let name = known.clone().unwrap_or_else(|| format!("{VOLUME_PREFIX}{suffix}"));
    let mut is_mounted = false;
    let init_containers = items_mut(&mut spec.init_containers).iter_mut();
    for container in init_containers.chain(&mut spec.containers) {
        is_mounted |= mount_into(container, &name);
    }
    if known.is_none() && is_mounted {
        let volume = Volume { name, projected: Some(token_source()), ..Default::default() };
        spec.volumes.get_or_insert_default().push(volume);
    }
}

fn mount_into(container: &mut Container, volume: &str) -> bool {
    let is_taken = items(&container.volume_mounts).iter().any(|mount| mount.mount_path == TOKEN_MOUNT_PATH);
    if !is_taken {
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: volume.to_owned(),
            mount_path: TOKEN_MOUNT_PATH.to_owned(),
            read_only: Some(true),
            ..Default::default()
        });
    }
    !is_taken
}

fn token_source() -> ProjectedVolumeSource {
    let token = ServiceAccountTokenProjection {
        path: "token".to_owned(),
        expiration_seconds: Some(TOKEN_EXPIRATION_SECONDS),
        ..Default::default()
    };
    let authority = ConfigMapProjection {
        name: "kube-root-ca.crt".to_owned(),
        items: Some(vec![KeyToPath { key: "ca.crt".to_owned(), path: "ca.crt".to_owned(), ..Default::default() }]),
        ..Default::default()
    };
    let namespace = DownwardAPIVolumeFile {
        path: "namespace".to_owned(),
        field_ref: Some(ObjectFieldSelector {
            api_version: Some("v1".to_owned()),
            field_path: "metadata.namespace".to_owned(),
        }),
        ..Default::default()
    };
    let namespace = DownwardAPIProjection { items: Some(vec![namespace]) };
    ProjectedVolumeSource {
        default_mode: Some(FILE_MODE),
        sources: Some(vec![
            VolumeProjection { service_account_token: Some(token), ..Default::default() },
            VolumeProjection { config_map: Some(authority), ..Default::default() },
            VolumeProjection { downward_api: Some(namespace), ..Default::default() },
        ]),
        ..Default::default()
    }
}
