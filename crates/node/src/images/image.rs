//! What is known of an image, as the store keeps it and as the node uses it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;

/// An image of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The digest of the image's configuration.
    pub id: Digest,
    /// Names with tags, complete: `docker.io/library/busybox:1.36`.
    pub tags: Vec<String>,
    /// Names with digests, complete: `docker.io/library/busybox@sha256:...`; none for an image that was loaded from a file.
    pub digests: Vec<String>,
    /// The digest of the manifest; a docker-archive has none.
    pub manifest: Option<Digest>,
    /// Bytes of index, manifest, configuration and layers as they were received, which is what containerd reports.
    pub size_bytes: u64,
    /// When it was built, in RFC 3339, if it says so.
    pub created: Option<String>,
    /// What it was built for.
    pub platform: Platform,
    /// What its containers run unless told otherwise.
    pub config: ImageConfig,
    /// The chain ids of its layers, the lowest first; see [`super::ImageStore::layer_directories`].
    pub layers: Vec<Digest>,
}

/// The machine that an image was built for, in Go's words (`linux`, `amd64`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`, ...
    pub architecture: String,
    /// `v8` and the like; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

/// The run parameters of an image (image-spec: config.md, `config`). Absent members are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// `Entrypoint`.
    pub entrypoint: Vec<String>,
    /// `Cmd`.
    pub command: Vec<String>,
    /// `Env`, each `NAME=value`.
    pub environment: Vec<String>,
    /// `WorkingDir`; empty means `/`.
    pub working_directory: String,
    /// `User`: `uid`, `name`, `uid:gid`, ...; empty means root.
    pub user: String,
    /// `StopSignal`, a name or a number; empty means SIGTERM.
    pub stop_signal: String,
    /// `Labels`.
    pub labels: BTreeMap<String, String>,
    /// `ExposedPorts`, each `port/protocol`.
    pub exposed_ports: Vec<String>,
    /// `Volumes`, the paths that the image wants to be volumes; Kubernetes ignores them.
    pub volumes: Vec<String>,
}

impl Image {
    /// What `imageID` of a container status shows (L-736): the first name with digest, else the id.
    pub fn image_id(&self) -> &str {
        self.digests.first().map_or(self.id.as_str(), String::as_str)
    }

    /// What `image` of a container status shows (L-736): the first tag, else the first name with digest, else the id.
    pub fn name(&self) -> &str {
        self.tags.first().map_or(self.image_id(), String::as_str)
    }

    /// Whether the image has this complete name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.tags.iter().chain(&self.digests).any(|known| known == name)
    }

    pub(crate) fn has_names(&self) -> bool {
        !(self.tags.is_empty() && self.digests.is_empty())
    }
}
