//! The store on disk: index, layers, blobs, and who holds what.
//!
//! ```text
//! images/
//!   index.json     the images, rewritten as a whole
//!   blobs/sha256/  manifests and configurations, and layers on their way from a registry
//!   layers/        unpacked layers, one directory for each chain id
//!   holds/         one file for each container or volume that uses an image
//!   staging/       what is not finished
//!   locks/         see `lock`
//! ```
//! Every file and directory gets its name only when it is complete and on disk, so a crash leaves nothing half-done under a name that is used.
//! What it leaves in `staging`, and layers that no image has, is removed by [`ImageStore::open`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::image::Image;
use super::lock::Lock;
use super::pull::Downloads;
use super::reference::{Reference, ReferenceError};
use super::tree::remove_tree;

/// A store of images below one directory. Cheap to clone; every call reads the disk.
///
/// All methods but [`ImageStore::pull`] block: call them from a blocking task.
#[derive(Clone, Debug)]
pub struct ImageStore {
    root: Arc<Path>,
    pub(super) downloads: Arc<Downloads>,
}

/// Why the store cannot be used. Its text says which file; the cause is its source.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{}`", path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The index cannot be read: somebody else wrote to it, or the disk is broken.
    #[error("the image index `{}` is broken", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// An image is not there, or not any more.
    #[error("image `{image}` is not in the store")]
    Missing {
        /// Its id.
        image: String,
    },
}

/// Why an image cannot be looked up.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The name is none (L-734, `InvalidImageName`).
    #[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {source}")]
    InvalidName {
        /// As it was given.
        image: String,
        /// What is wrong with it.
        source: ReferenceError,
    },
    /// The store cannot be used (L-734, `ImageInspectError`).
    #[error("Failed to inspect image {image:?}: {}", chain(.source))]
    Store {
        /// As it was given.
        image: String,
        /// Why.
        source: StoreError,
    },
}

impl StoreError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            StoreError::System { path, source, .. } => system_hint(source, path),
            StoreError::Index { path, .. } => {
                format!("remove `{}` and load the images again, or run `monopod reset`", path.display())
            }
            StoreError::Missing { .. } => "load or pull the image again".to_owned(),
        }
    }
}

/// What to do when the system refuses something in the store.
pub(super) fn system_hint(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("free some space on the file system of `{}`, or choose another one with --data-dir", path.display())
        }
        io::ErrorKind::PermissionDenied => "run as root, or choose a directory that you own with --data-dir".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written with --data-dir".to_owned(),
        _ => format!("check the file system of `{}`", path.display()),
    }
}

/// A text with all its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Errors that only pass another one on say the same.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Gives a failed system call its name and its path.
pub(super) fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> StoreError + use<'a> {
    move |source| StoreError::System { action, path: path.to_owned(), source }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    pub(super) images: Vec<Image>,
}

/// A container or a volume that uses an image. The layers are named so that they stay even if the image is removed by force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) holder: String,
    pub(super) image: Digest,
    pub(super) layers: Vec<Digest>,
}

impl ImageStore {
    /// Opens a store, makes it if it is not there, and removes what a crash left behind.
    pub fn open(root: &Path) -> Result<ImageStore, StoreError> {
        let store = ImageStore { root: Arc::from(root), downloads: Arc::default() };
        let places = [store.blobs(), store.layers(), store.holds(), store.staging(), store.locks(), store.no_layers()];
        for place in places {
            make_directory(&place).map_err(failed("make the directory", &place))?;
        }
        store.collect()?;
        Ok(store)
    }

    /// All images, sorted by their names.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        let mut images = self.read_index()?.images;
        images.sort_by(|a, b| (a.name(), &a.id).cmp(&(b.name(), &b.id)));
        Ok(images)
    }

    /// Looks an image up by a name as pods write it, or by its id. One whose layers are damaged counts as absent.
    pub fn find(&self, image: &str) -> Result<Option<Image>, FindError> {
        let index = || self.read_index().map_err(|source| FindError::Store { image: image.to_owned(), source });
        let is_wanted: Box<dyn Fn(&Image) -> bool> = match Digest::parse(image) {
            Ok(id) => Box::new(move |known| known.id == id),
            Err(_) => {
                let name = Reference::parse(image)
                    .map_err(|source| FindError::InvalidName { image: image.to_owned(), source })?
                    .to_string();
                Box::new(move |known| known.is_named(&name))
            }
        };
        let found = index()?.images.into_iter().find(|known| is_wanted(known));
        Ok(found.filter(|found| self.is_whole(found)))
    }

    /// The directories of an image's layers, the topmost first, as overlayfs wants them; at least one, also for an image without layers.
    pub fn layer_directories(&self, image: &Image) -> Vec<PathBuf> {
        if image.layers.is_empty() {
            return vec![self.no_layers()];
        }
        image.layers.iter().rev().map(|layer| self.layer(layer)).collect()
    }

    /// Notes that a container or a volume uses an image, so that its layers stay. Holding twice is holding once.
    pub fn hold(&self, image: &Digest, holder: &str) -> Result<(), StoreError> {
        let _lock = self.lock_index()?;
        let index = self.read_index()?;
        let Some(image) = index.images.into_iter().find(|known| known.id == *image) else {
            return Err(StoreError::Missing { image: image.to_string() });
        };
        let hold = Hold { holder: holder.to_owned(), image: image.id, layers: image.layers };
        let path = self.hold_file(holder);
        // Not forced to disk: a container does not outlive a power failure either.
        write_whole(&self.staging(), &path, &to_json(&hold), false).map_err(failed("write", &path))
    }

    /// Ends a hold; one that there is not is success.
    pub fn release(&self, holder: &str) -> Result<(), StoreError> {
        let path = self.hold_file(holder);
        let held = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice::<Hold>(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed("read", &path)(error)),
        };
        fs::remove_file(&path).or_else(missing_is_fine).map_err(failed("remove", &path))?;
        let is_kept = |hold: Hold| {
            let index = self.read_index()?;
            Ok(index.images.iter().any(|image| image.id == hold.image && image.has_names()))
        };
        match held.map(is_kept).transpose()? {
            Some(true) => Ok(()),
            // The image was removed or lost its name while it was used: that was its last use, perhaps.
            Some(false) | None => self.collect(),
        }
    }

    /// Who holds which image. After a restart of the agent, those whose container is gone are to be released.
    pub fn holders(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        Ok(self.read_holds()?.into_iter().map(|hold| (hold.holder, hold.image)).collect())
    }

    pub(super) fn read_index(&self) -> Result<Index, StoreError> {
        let path = self.index_file();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|source| StoreError::Index { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Index::default()),
            Err(error) => Err(failed("read", &path)(error)),
        }
    }

    /// Changes the index; nobody else does so meanwhile.
    pub(super) fn update_index<T>(&self, change: impl FnOnce(&mut Index) -> T) -> Result<T, StoreError> {
        let _lock = self.lock_index()?;
        let mut index = self.read_index()?;
        let before = to_json(&index);
        let outcome = change(&mut index);
        let after = to_json(&index);
        if before != after {
            let path = self.index_file();
            write_whole(&self.staging(), &path, &after, true).map_err(failed("write", &path))?;
        }
        Ok(outcome)
    }

    pub(super) fn read_holds(&self) -> Result<Vec<Hold>, StoreError> {
        let directory = self.holds();
        let mut holds = Vec::new();
        for name in names_in(&directory)? {
            let path = directory.join(name);
            match fs::read(&path) {
                Ok(bytes) => {
                    holds.push(serde_json::from_slice(&bytes).map_err(|source| StoreError::Index { path, source })?)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("read", &path)(error)),
            }
        }
        Ok(holds)
    }

    fn is_whole(&self, image: &Image) -> bool {
        let missing = image.layers.iter().find(|layer| !self.layer(layer).is_dir());
        if let Some(layer) = missing {
            tracing::warn!(image = image.name(), %layer, "a layer is missing from the store; the image counts as absent");
        }
        missing.is_none()
    }

    pub(super) fn lock_index(&self) -> Result<Lock, StoreError> {
        let path = self.locks().join("index");
        Lock::alone(&path).map_err(failed("lock", &path))
    }

    pub(super) fn store_lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn index_file(&self) -> PathBuf {
        self.root.join("index.json")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.root.join("blobs/sha256")
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub(super) fn layers(&self) -> PathBuf {
        self.root.join("layers")
    }

    pub(super) fn layer(&self, chain_id: &Digest) -> PathBuf {
        self.layers().join(layer_name(chain_id))
    }

    /// The one lower directory of an image without layers.
    fn no_layers(&self) -> PathBuf {
        self.layers().join(NO_LAYERS)
    }

    fn holds(&self) -> PathBuf {
        self.root.join("holds")
    }

    fn hold_file(&self, holder: &str) -> PathBuf {
        // A digest is a file name whatever the holder's name is made of.
        self.holds().join(Digest::of(holder.as_bytes()).hex())
    }

    pub(super) fn staging(&self) -> PathBuf {
        self.root.join("staging")
    }

    pub(super) fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }
}

pub(super) const NO_LAYERS: &str = "none";

/// Half of the digits: mount options must hold the paths of all layers within one page.
pub(super) fn layer_name(chain_id: &Digest) -> &str {
    chain_id.hex().get(..32).unwrap_or_default()
}

fn make_directory(path: &Path) -> io::Result<()> {
    // Nobody else may look in: layers hold setuid programs.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn names_in(directory: &Path) -> Result<BTreeSet<String>, StoreError> {
    let entries = fs::read_dir(directory).map_err(failed("list", directory))?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().map_err(failed("list", directory))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("strings, numbers and lists always make JSON")
}

/// Writes a file so that its name always means a complete one.
pub(super) fn write_whole(staging: &Path, path: &Path, content: &[u8], is_durable: bool) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix("file-").tempfile_in(staging)?;
    file.write_all(content)?;
    if is_durable {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(|error| error.error)?;
    if is_durable && let Some(parent) = path.parent() {
        sync_directory(parent)?;
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY).open(directory)?.sync_all()
}

fn missing_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Removes a tree that is in the way of nobody.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    remove_tree(path).map_err(failed("remove", path))
}
