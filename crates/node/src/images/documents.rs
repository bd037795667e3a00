//! The JSON documents of images: manifests, indexes and configurations of OCI and of Docker, and the list in a docker-archive.
//!
//! Only what is needed is read; whatever else they hold is left alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::digest::{Digest, chain_ids};
use super::image::{Image, ImageConfig, Platform};
use super::platform::{fitness, host};

/// Documents larger than this are refused; registries have the same bound.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// More layers than this can't be mounted together.
const LAYERS_MAX: usize = 500;

/// Names a blob (image-spec: descriptor.md).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<PlatformDocument>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlatformDocument {
    architecture: String,
    os: String,
    variant: String,
}

/// An image manifest (image-spec: manifest.md), OCI's or Docker's.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) layers: Vec<Descriptor>,
}

/// An image index (image-spec: image-index.md), or Docker's manifest list.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct IndexDocument {
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) manifests: Vec<Descriptor>,
}

/// What a descriptor of an image may lead to.
#[derive(Clone, Debug)]
pub(crate) enum Document {
    Manifest(Manifest),
    Index(IndexDocument),
}

/// An image's configuration (image-spec: config.md).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConfigDocument {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    created: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    config: RunDocument,
    rootfs: RootfsDocument,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RunDocument {
    #[serde(deserialize_with = "null_is_default")]
    entrypoint: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    cmd: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    env: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    working_dir: String,
    #[serde(deserialize_with = "null_is_default")]
    user: String,
    #[serde(deserialize_with = "null_is_default")]
    stop_signal: String,
    #[serde(deserialize_with = "null_is_default")]
    labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    exposed_ports: BTreeMap<String, serde_json::Value>,
    #[serde(deserialize_with = "null_is_default")]
    volumes: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct RootfsDocument {
    #[serde(default, deserialize_with = "null_is_default")]
    diff_ids: Vec<Digest>,
}

/// One image of a docker-archive's `manifest.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ArchiveItem {
    pub(crate) config: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub(crate) layers: Vec<String>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON, or lacks what it must have.
    #[error("it is malformed")]
    Json(#[from] serde_json::Error),
    /// It is of a kind that cannot be run.
    #[error("it is {0}, not a container image")]
    Kind(&'static str),
    /// Its parts contradict each other, or it has too many.
    #[error("{0}")]
    Inconsistent(String),
    /// It is for other machines.
    #[error("the image is for {}, but this machine is {host}", .images.join(", "))]
    Platform {
        /// What it is for.
        images: Vec<String>,
        /// What the machine is.
        host: String,
    },
}

/// Go writes `null` for what is empty.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Document {
    /// Reads a manifest or an index; which of them it is, its members tell.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Document, DocumentError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Shape {
            manifests: Option<serde::de::IgnoredAny>,
            config: Option<serde::de::IgnoredAny>,
            fs_layers: Option<serde::de::IgnoredAny>,
        }
        let shape: Shape = serde_json::from_slice(bytes)?;
        if shape.fs_layers.is_some() {
            return Err(DocumentError::Kind("a Docker manifest of the old schema 1"));
        }
        if shape.config.is_some() {
            let manifest: Manifest = serde_json::from_slice(bytes)?;
            manifest.check()?;
            return Ok(Document::Manifest(manifest));
        }
        if shape.manifests.is_some() {
            return Ok(Document::Index(serde_json::from_slice(bytes)?));
        }
        Err(DocumentError::Kind("neither a manifest nor an index"))
    }
}

impl Manifest {
    fn check(&self) -> Result<(), DocumentError> {
        let is_encrypted = self.layers.iter().any(|layer| layer.media_type.ends_with("+encrypted"));
        if is_encrypted {
            return Err(DocumentError::Kind("encrypted"));
        }
        // Charts, signatures and the like live in registries too; their configuration is of another type.
        let known = ["", "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
        let is_image = known.contains(&self.config.media_type.as_str());
        if is_image { Ok(()) } else { Err(DocumentError::Kind("another artifact")) }
    }
}

impl Descriptor {
    /// What the descriptor says that its image is for; `None` if it says nothing.
    pub(crate) fn platform(&self) -> Option<Platform> {
        let platform = self.platform.clone()?;
        Some(Platform { os: platform.os, architecture: platform.architecture, variant: platform.variant })
    }
}

impl ConfigDocument {
    pub(crate) fn parse(bytes: &[u8]) -> Result<ConfigDocument, DocumentError> {
        let config: ConfigDocument = serde_json::from_slice(bytes)?;
        if config.rootfs.diff_ids.len() > LAYERS_MAX {
            let text = format!("it has {} layers, more than {LAYERS_MAX}", config.rootfs.diff_ids.len());
            return Err(DocumentError::Inconsistent(text));
        }
        Ok(config)
    }

    pub(crate) fn platform(&self) -> Platform {
        Platform { os: self.os.clone(), architecture: self.architecture.clone(), variant: self.variant.clone() }
    }

    /// Refuses an image that this machine can't run.
    pub(crate) fn check_platform(&self) -> Result<(), DocumentError> {
        match fitness(&self.platform(), &host()) {
            Some(_) => Ok(()),
            None => Err(foreign(&[self.platform()])),
        }
    }

    /// The diff ids, one for each layer that the image's manifest lists.
    pub(crate) fn diff_ids(&self, layers: usize) -> Result<&[Digest], DocumentError> {
        let diff_ids = &self.rootfs.diff_ids;
        if diff_ids.len() == layers {
            return Ok(diff_ids);
        }
        let text = format!("it lists {} layers, the image's manifest {layers}", diff_ids.len());
        Err(DocumentError::Inconsistent(text))
    }

    /// The image, still without names.
    pub(crate) fn into_image(self, id: Digest, manifest: Option<Digest>, size_bytes: u64) -> Image {
        let platform = self.platform();
        let RunDocument { entrypoint, cmd, env, working_dir, user, stop_signal, labels, exposed_ports, volumes } =
            self.config;
        Image {
            id,
            tags: Vec::new(),
            digests: Vec::new(),
            manifest,
            size_bytes,
            created: self.created,
            platform,
            config: ImageConfig {
                entrypoint,
                command: cmd,
                environment: env,
                working_directory: working_dir,
                user,
                stop_signal,
                labels,
                exposed_ports: exposed_ports.into_keys().collect(),
                volumes: volumes.into_keys().collect(),
            },
            layers: chain_ids(&self.rootfs.diff_ids),
        }
    }
}

/// The best of several images for this machine.
pub(crate) fn choose<T>(candidates: Vec<(Platform, T)>) -> Result<T, DocumentError> {
    let host = host();
    let platforms: Vec<Platform> = candidates.iter().map(|(platform, _)| platform.clone()).collect();
    let mut best: Option<(u32, T)> = None;
    for (platform, candidate) in candidates {
        let Some(fitness) = fitness(&platform, &host) else { continue };
        // Of two that fit equally well, the first counts.
        if best.as_ref().is_none_or(|(known, _)| fitness > *known) {
            best = Some((fitness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate).ok_or_else(|| foreign(&platforms))
}

/// The error of images that are all for other machines.
pub(crate) fn foreign(images: &[Platform]) -> DocumentError {
    // Attestations stand beside images under the platform `unknown`.
    let is_real = |platform: &&Platform| platform.architecture != "unknown";
    let mut images: Vec<String> = images.iter().filter(is_real).map(ToString::to_string).collect();
    images.sort();
    images.dedup();
    if images.is_empty() {
        images.push("no platform".to_owned());
    }
    DocumentError::Platform { images, host: host().to_string() }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn null_and_absent_members_of_a_configuration_are_empty() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Env":null,"Cmd":["sh"],"ExposedPorts":{"80/tcp":{}}},"rootfs":{"type":"layers"}}"#;
        let config = ConfigDocument::parse(text.as_bytes()).unwrap();
        let image = config.into_image(Digest::of(b""), None, 0);
        let expected = ImageConfig {
            command: vec!["sh".to_owned()],
            exposed_ports: vec!["80/tcp".to_owned()],
            ..ImageConfig::default()
        };
        assert_eq!((image.config, image.layers), (expected, vec![]));
    }

    #[test]
    fn what_is_no_image_is_refused_by_name() {
        let check = |text: &str, expected: &str| {
            let error = Document::parse(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            r#"{"schemaVersion":1,"fsLayers":[]}"#,
            "it is a Docker manifest of the old schema 1, not a container image",
        );
        check("{}", "it is neither a manifest nor an index, not a container image");
        check("[", "it is malformed");
        let digest = Digest::of(b"");
        let chart = format!(
            r#"{{"config":{{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"{digest}","size":1}},"layers":[]}}"#
        );
        check(&chart, "it is another artifact, not a container image");
        let negative = format!(r#"{{"config":{{"digest":"{digest}","size":-1}},"layers":[]}}"#);
        check(&negative, "it is malformed");
    }
}
