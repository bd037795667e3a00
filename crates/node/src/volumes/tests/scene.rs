//! A pod's volumes in a scratch directory, with the API's objects as maps.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, VolumeMount};
use lifecycle::NodeConfig;
use serde_json::json;

use crate::images::ImageStore;
use crate::runtime::config::{MountAccess, MountConfig, MountPropagation, MountSource};
use crate::volumes::{ContainerMounts, PodVolumes, SourceError, Token, TokenRequest, VolumeContext, VolumeSources};

/// The API's objects as maps.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) config_maps: BTreeMap<String, ConfigMap>,
    pub(super) secrets: BTreeMap<String, Secret>,
    pub(super) tokens: Mutex<Vec<String>>,
    pub(super) token: Option<(i64, i64)>,
}

impl VolumeSources for Objects {
    fn config_map(&self, _: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        Ok(self.config_maps.get(name).cloned().map(Arc::new))
    }

    fn secret(&self, _: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError> {
        Ok(self.secrets.get(name).cloned().map(Arc::new))
    }

    fn service_account_token(&self, request: &TokenRequest<'_>) -> Result<Token, SourceError> {
        let asked = format!("{} {} {}", request.service_account, request.audience, request.expiration_seconds);
        self.tokens.lock().unwrap().push(asked);
        let Some((issued_at, expires_at)) = self.token else { return Err(SourceError("no tokens today".to_owned())) };
        let claims = URL_SAFE_NO_PAD.encode(json!({"iat": issued_at, "exp": expires_at}).to_string());
        let expires_at = Timestamp::from_second(expires_at).unwrap();
        Ok(Token { token: format!("head.{claims}.signature{issued_at}"), expires_at })
    }
}

/// A pod's volumes in a scratch directory; whatever is mounted there is unmounted at the end.
pub(super) struct Scene {
    pub(super) scratch: tempfile::TempDir,
    pub(super) images: ImageStore,
    pub(super) objects: Objects,
    pub(super) node: NodeConfig,
    pub(super) pod: Pod,
    pub(super) now: Timestamp,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.volumes().tear_down(&self.images).unwrap();
        assert!(!self.volumes().volumes().exists());
    }
}

impl Scene {
    /// A pod with one container `app` that mounts every one of the volumes.
    pub(super) fn new(volumes: serde_json::Value) -> Self {
        let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
        let mounts: Vec<_> = names.map(|name| json!({"name": name, "mountPath": format!("/{name}")})).collect();
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "1-2", "labels": {"app": "web"}},
            "spec": {"serviceAccountName": "robot", "volumes": volumes,
                     "containers": [{"name": "app", "volumeMounts": mounts}]},
        });
        let scratch = tempfile::tempdir().unwrap();
        Scene {
            images: ImageStore::open(&scratch.path().join("images")).unwrap(),
            scratch,
            objects: Objects::default(),
            node: NodeConfig::new("node"),
            pod: serde_json::from_value(pod).unwrap(),
            now: "2026-02-01T15:04:05.123456789Z".parse().unwrap(),
        }
    }

    pub(super) fn volumes(&self) -> PodVolumes {
        PodVolumes::new(&self.scratch.path().join("pods/1-2"))
    }

    pub(super) fn volume(&self, plugin: &str, name: &str) -> PathBuf {
        self.scratch.path().join(format!("pods/1-2/volumes/kubernetes.io~{plugin}/{name}"))
    }

    pub(super) fn context(&self) -> VolumeContext<'_> {
        VolumeContext { pod: &self.pod, node: &self.node, sources: &self.objects, images: &self.images, now: self.now }
    }

    pub(super) fn set_up(&self) -> Result<Option<Timestamp>, Vec<String>> {
        self.volumes().set_up(&self.context()).map_err(|error| error.messages)
    }

    pub(super) fn refresh(&self) -> Result<Option<Timestamp>, Vec<String>> {
        self.volumes().refresh(&self.context()).map_err(|error| error.messages)
    }

    pub(super) fn mounts(
        &self,
        mounts: serde_json::Value,
        environment: &[(&str, &str)],
    ) -> Result<Vec<MountConfig>, String> {
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let volume_mounts: Vec<VolumeMount> = serde_json::from_value(mounts).unwrap();
        let wanted = ContainerMounts { container: "app", volume_mounts: &volume_mounts, environment: &environment };
        self.volumes().mounts(&self.context(), &wanted).map_err(|error| error.0)
    }

    pub(super) fn change_pod(&mut self, path: &str, value: serde_json::Value) {
        let mut pod = serde_json::to_value(&self.pod).unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value;
        self.pod = serde_json::from_value(pod).unwrap();
    }

    pub(super) fn set_security(&mut self, security: serde_json::Value) {
        self.pod.spec.as_mut().unwrap().security_context = serde_json::from_value(security).unwrap();
    }

    pub(super) fn put_config_map(&mut self, name: &str, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let object = ConfigMap { data: Some(data), ..ConfigMap::default() };
        self.objects.config_maps.insert(name.to_owned(), object);
    }

    pub(super) fn put_secret(&mut self, name: &str, data: &[(&str, &[u8])]) {
        let data = data.iter().map(|(key, value)| (key.to_string(), ByteString(value.to_vec()))).collect();
        let object = Secret { data: Some(data), ..Secret::default() };
        self.objects.secrets.insert(name.to_owned(), object);
    }
}

pub(super) fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        println!("skipped: only root can mount");
    }
    can
}

pub(super) fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

pub(super) fn owner(path: &Path) -> (u32, u32) {
    let metadata = path.symlink_metadata().unwrap();
    (metadata.uid(), metadata.gid())
}

pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(super) fn file_system(path: &Path) -> &'static str {
    const TMPFS: i64 = 0x0102_1994;
    if rustix::fs::statfs(path).unwrap().f_type as i64 == TMPFS { "memory" } else { "disk" }
}

pub(super) fn bind(destination: &str, path: PathBuf, access: MountAccess) -> MountConfig {
    let source = MountSource::Bind { path, sub_path: None, access, propagation: MountPropagation::Private };
    MountConfig { destination: PathBuf::from(destination), source }
}
