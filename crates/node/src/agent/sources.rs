//! What containers and volumes are filled from, fetched from the API.

use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Secret, Service};
use lifecycle::PodRef;
use tokio::runtime::Handle;

use super::world::answered;
use crate::cluster::{self, Cluster, ClusterError};
use crate::container::env::{EnvFile, References, Sources};
use crate::volumes::{PodVolumes, SourceError, Token, TokenRequest, VolumeSources};

/// The namespace and name of the API server's own Service.
const API_SERVICE: (&str, &str) = ("default", "kubernetes");
/// An env file that is longer is none.
const ENV_FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads everything that a container's environment refers to.
pub(super) async fn environment_sources(
    cluster: &dyn Cluster,
    namespace: &str,
    container: &Container,
    volumes: &PodVolumes,
) -> Sources {
    let references = References::of(container);
    let mut sources = Sources { services: services(cluster, namespace).await, ..Sources::default() };
    for name in references.config_maps {
        let found = answered(cluster.config_map(namespace, &name)).await.map_err(|error| error.to_string());
        sources.config_maps.insert(name, found);
    }
    for name in references.secrets {
        let found = answered(cluster.secret(namespace, &name)).await.map_err(|error| error.to_string());
        sources.secrets.insert(name, found);
    }
    for (volume, path) in references.env_files {
        // A volume that the pod does not have is told by the environment.
        if let Some(file) = env_file(volumes, &volume, &path).await {
            sources.env_files.insert((volume, path), file);
        }
    }
    sources
}

async fn services(cluster: &dyn Cluster, namespace: &str) -> Option<Vec<Arc<Service>>> {
    let mut services = answered(cluster.services(namespace)).await.ok()?;
    let (api_namespace, api_name) = API_SERVICE;
    if namespace != api_namespace {
        let of_default = answered(cluster.services(api_namespace)).await.ok()?;
        services.extend(of_default.into_iter().filter(|service| service.metadata.name.as_deref() == Some(api_name)));
    }
    Some(services)
}

async fn env_file(volumes: &PodVolumes, volume: &str, path: &str) -> Option<EnvFile> {
    let directory = volumes.empty_dir(volume);
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        if !directory.is_dir() {
            return None;
        }
        Some(EnvFile { path: directory.join(&path), text: read_inside(&directory, Path::new(&path)) })
    });
    read.await.ok().flatten()
}

/// Reads a file that a container has written: its symbolic links lead nowhere but inside the volume.
fn read_inside(directory: &Path, path: &Path) -> Result<String, String> {
    let layers = [directory.to_owned()];
    let root = crate::container::image_root::ImageRoot::new(&layers);
    let content = root.read(path, ENV_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let content = content.ok_or_else(|| "no such file".to_owned())?;
    String::from_utf8(content).map_err(|_| "it is not text".to_owned())
}

/// The API's objects for code that blocks; to be used outside the runtime's own threads.
pub(super) struct BlockingSources {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) handle: Handle,
}

impl VolumeSources for BlockingSources {
    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Arc<ConfigMap>>, SourceError> {
        self.handle.block_on(answered(self.cluster.config_map(namespace, name))).map_err(source_error)
    }

    fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, SourceError> {
        self.handle.block_on(answered(self.cluster.secret(namespace, name))).map_err(source_error)
    }

    fn service_account_token(&self, request: &TokenRequest<'_>) -> Result<Token, SourceError> {
        let request = cluster::TokenRequest {
            pod: request.pod.clone(),
            service_account: request.service_account.to_owned(),
            audience: request.audience.to_owned(),
            expiration_seconds: request.expiration_seconds,
        };
        self.handle.block_on(answered(self.cluster.service_account_token(request))).map_err(source_error)
    }
}

fn source_error(error: ClusterError) -> SourceError {
    SourceError(error.to_string())
}

/// The Secrets that a pod may pull images with, and the names of those that could not be had (L-1025).
pub(super) async fn pull_secrets(cluster: &dyn Cluster, pod: &PodRef, names: &[String]) -> (Vec<Secret>, Vec<String>) {
    let (mut secrets, mut missing) = (Vec::new(), Vec::new());
    for name in names.iter().filter(|name| !name.is_empty()) {
        match answered(cluster.secret(&pod.namespace, name)).await {
            Ok(Some(secret)) => secrets.push(Secret::clone(&secret)),
            Ok(None) | Err(_) => missing.push(name.clone()),
        }
    }
    (secrets, missing)
}
