//! Images: a content-addressed store that `load`, `pull` and containers share.
//!
//! [`ImageStore`] keeps everything on disk and nothing in memory, so two processes on one data directory see the same images.
//! A layer is unpacked once, below `layers/`, and given to overlayfs as a lower directory.
//! It does not mount anything for containers: [`Image::layers`] names the directories, the runtime mounts them.
//! It does not decide when to pull or how long to wait before the next try: that is the core's.

mod digest;
mod reference;
mod tar;
mod tree;
mod unpack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use digest::{Digest, DigestError};
pub use reference::{Reference, ReferenceError};
pub use tar::TarError;
pub use tree::remove_tree;
pub use unpack::{LowerLayers, UnpackError, UnpackLimits, Unpacked, unpack};

/// A store of images below one directory. Cheap to clone; every call reads the disk.
///
/// All methods but [`ImageStore::pull`] block: call them from a blocking task.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: PathBuf,
}

/// An image of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `sha256:...` of the image's configuration.
    pub id: String,
    /// Names with tags, normalized: `docker.io/library/busybox:1.36`.
    pub tags: Vec<String>,
    /// Names with digests, normalized: `docker.io/library/busybox@sha256:...`; none for an image that was loaded from a file.
    pub digests: Vec<String>,
    /// Bytes of manifest, configuration and layers as they were received, which is what containerd reports.
    pub size_bytes: u64,
    /// What it was built for.
    pub platform: Platform,
    /// What its containers run unless told otherwise.
    pub config: ImageConfig,
    /// Names of its layers in the store, the lowest first; see [`ImageStore::layer_directories`].
    pub layers: Vec<String>,
}

/// The machine that an image was built for, in Go's words (`linux`, `amd64`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`, ...
    pub architecture: String,
    /// `v8` and the like; empty if it has none.
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
}

/// Hears how far a load or a pull has come.
pub trait Progress: Send + Sync {
    /// Work on an item (a layer, a file) begins; `total_bytes` is known in most cases.
    fn begin(&self, item: &str, total_bytes: Option<u64>);
    /// So many more bytes of the item are done.
    fn advance(&self, item: &str, bytes: u64);
    /// The item is done.
    fn end(&self, item: &str);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: &str, _: u64) {}
    fn end(&self, _: &str) {}
}

impl Image {
    /// What `imageID` of a container status shows (L-736): the first name with digest, else the id.
    pub fn image_id(&self) -> &str {
        self.digests.first().unwrap_or(&self.id)
    }

    /// What `image` of a container status shows (L-736): the first tag, else the first name with digest, else the id.
    pub fn name(&self) -> &str {
        self.tags.first().unwrap_or_else(|| self.digests.first().unwrap_or(&self.id))
    }
}

// Surface to come in this file's children:
//
// ImageStore::open(root: &Path) -> Result<ImageStore, StoreError>             makes it, removes what a crash left behind
// ImageStore::list(&self) -> Result<Vec<Image>, StoreError>
// ImageStore::find(&self, image: &str) -> Result<Option<Image>, FindError>    a pod's `image`, `sha256:` id or `Image::image_id()`;
//     FindError::{InvalidName (Display is the text of L-734), Store}
// ImageStore::layer_directories(&self, image: &Image) -> Vec<PathBuf>         the topmost first, as overlayfs wants them
// ImageStore::hold(&self, image_id: &str, holder: &str) -> Result<(), StoreError>   a container (its id) or a pod's volume uses the image
// ImageStore::release(&self, holder: &str) -> Result<(), StoreError>          idempotent
// ImageStore::holders(&self) -> Result<BTreeMap<holder, image id>, StoreError>      after a restart: release those whose container is gone
// ImageStore::load(&self, file: &Path, tag: Option<&str>, progress: &dyn Progress) -> Result<Vec<Image>, LoadError>
// ImageStore::remove(&self, name_or_id: &str, force: bool) -> Result<Removed, RemoveError>
// async ImageStore::pull(&self, image: &str, options: &PullOptions, progress: Arc<dyn Progress>) -> Result<Image, PullError>
//     dropping the future cancels it; PullError::reason() -> "ErrImagePull" | "InvalidImageName" | "RegistryUnavailable"; Display is the message
// PullOptions { credentials: Credentials, insecure_registries: Vec<String> }; Credentials::from_secrets(&[Secret]) -> Credentials
// mount_overlay(&Overlay { lower: &[PathBuf], upper: Option<(&Path, &Path)>, read_only }, target: &Path) -> Result<(), ..>   works for any number of layers
#[doc(hidden)]
pub fn surface(_: &Path) {}
