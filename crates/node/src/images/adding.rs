//! Adds to the store: blobs, layers, and at last the image that is made of them.
//!
//! [`Adding`] holds the store's lock, so that nothing it has found or made is taken away before the image names it.
//! If the image never comes, what was added belongs to nobody and is collected.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::compression::decompress;
use super::digest::{Digest, HashingReader};
use super::image::Image;
use super::lock::Lock;
use super::store::{
    ImageStore, Index, StoreError, failed, layer_name, remove, sync_directory, system_hint, write_whole,
};
use super::unpack::{LowerLayers, UnpackError, UnpackLimits, unpack};

/// What a layer's plain archive may take: its files, and their headers.
const LAYER_ARCHIVE_BYTES_MAX: u64 = 512 << 30;

/// The right to add to a store.
#[derive(Debug)]
pub(crate) struct Adding {
    store: ImageStore,
    /// Set when whoever waits for the image has gone: reading then ends at the next chance.
    cancelled: Arc<AtomicBool>,
    lock: Lock,
}

/// A layer that is to be unpacked.
pub(crate) struct NewLayer<'a> {
    /// How errors name it: a digest, or a member of an archive.
    pub(crate) name: String,
    /// The chain ids of the layers below, the lowest first.
    pub(crate) below: &'a [Digest],
    /// Its own chain id.
    pub(crate) chain_id: &'a Digest,
    /// The digest that its plain archive must have.
    pub(crate) diff_id: &'a Digest,
    /// The digest that its archive must have as it comes, if that is known.
    pub(crate) digest: Option<&'a Digest>,
    /// Its archive, compressed or not.
    pub(crate) archive: Box<dyn Read + 'a>,
}

/// Why a layer cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It cannot be unpacked.
    #[error("failed to unpack layer `{layer}`")]
    Unpack {
        /// Which layer.
        layer: String,
        /// Why.
        #[source]
        source: UnpackError,
    },
    /// It cannot be read or decompressed.
    #[error("failed to read layer `{layer}`")]
    Read {
        /// Which layer.
        layer: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its content is not what the image says.
    #[error("layer `{layer}` has {what} {found}, but the image says {expected}")]
    WrongDigest {
        /// Which layer.
        layer: String,
        /// `digest` or `diff id`.
        what: &'static str,
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LayerError {
    /// What to do about it.
    pub(crate) fn hint(&self, store: &ImageStore) -> String {
        match self {
            LayerError::Store(error) => error.hint(),
            LayerError::Unpack { source: UnpackError::System { source, .. }, .. } => system_hint(source, store.root()),
            LayerError::Read { source, .. } if source.kind() == io::ErrorKind::Unsupported => {
                "write the image again with gzip or zstd layers".to_owned()
            }
            _ => "the image is damaged or hostile: get it again from where you have it".to_owned(),
        }
    }
}

impl ImageStore {
    /// Begins to add to the store.
    pub(crate) fn begin_adding(&self, cancelled: &Arc<AtomicBool>) -> Result<Adding, StoreError> {
        let path = self.store_lock();
        let lock = Lock::shared(&path).map_err(failed("lock", &path))?;
        Ok(Adding { store: self.clone(), cancelled: Arc::clone(cancelled), lock })
    }
}

impl Adding {
    pub(crate) fn store(&self) -> &ImageStore {
        &self.store
    }

    /// Whether a layer is there already.
    pub(crate) fn has_layer(&self, chain_id: &Digest) -> bool {
        self.store.layer(chain_id).is_dir()
    }

    /// Stores a small blob.
    pub(crate) fn put_blob(&self, content: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(content);
        let path = self.store.blob(&digest);
        if !path.exists() {
            write_whole(&self.store.staging(), &path, content, true).map_err(failed("write", &path))?;
        }
        Ok(digest)
    }

    /// Unpacks a layer unless it is there. Two that want the same layer at the same time unpack it once.
    pub(crate) fn put_layer(&self, layer: NewLayer<'_>) -> Result<(), LayerError> {
        let path = self.store.layer(layer.chain_id);
        let lock = self.store.locks().join(layer_name(layer.chain_id));
        let _lock = Lock::alone(&lock).map_err(failed("lock", &lock))?;
        if path.is_dir() {
            return Ok(());
        }
        let staged = Staged::new(&self.store, layer.chain_id)?;
        self.unpack_into(&staged, layer)?;
        staged.persist(path)?;
        Ok(())
    }

    fn unpack_into(&self, staged: &Staged<'_>, layer: NewLayer<'_>) -> Result<(), LayerError> {
        let below: Vec<PathBuf> = layer.below.iter().rev().map(|layer| self.store.layer(layer)).collect();
        let lower = LowerLayers::open(&below).map_err(failed("open the layers below", &self.store.layers()))?;
        let name = layer.name;
        let unreadable = |source| LayerError::Read { layer: name.clone(), source };
        let archive = CancellableReader { inner: layer.archive, cancelled: &self.cancelled };
        let mut compressed = HashingReader::new(archive, u64::MAX);
        let plain = decompress(BufReader::with_capacity(256 << 10, &mut compressed)).map_err(unreadable)?;
        let mut plain = HashingReader::new(plain, LAYER_ARCHIVE_BYTES_MAX);
        let directory = File::open(&staged.path).map_err(failed("open", &staged.path))?;
        let unpacked = unpack(&mut plain, directory.as_fd(), &lower, &UnpackLimits::default());
        if let Err(source) = unpacked {
            return Err(LayerError::Unpack { layer: name, source });
        }
        // What follows the archive's end belongs to the digests too.
        let (diff_id, _) = plain.finish().map_err(unreadable)?;
        let (digest, _) = compressed.finish().map_err(unreadable)?;
        let expected = [("digest", layer.digest, digest), ("diff id", Some(layer.diff_id), diff_id)];
        for (what, expected, found) in expected {
            if let Some(expected) = expected.filter(|expected| **expected != found) {
                return Err(LayerError::WrongDigest { layer: name, what, expected: expected.clone(), found });
            }
        }
        Ok(())
    }

    /// Names an image: from here on it is in the store. Names that other images had are taken from them.
    pub(crate) fn enter(&self, image: Image) -> Result<Image, StoreError> {
        self.store.update_index(|index| enter(index, image))
    }

    /// [`Adding::enter`] for several images at once.
    pub(crate) fn enter_all(&self, images: Vec<Image>) -> Result<Vec<Image>, StoreError> {
        self.store.update_index(|index| images.into_iter().map(|image| enter(index, image)).collect())
    }

    /// Gives the right back, and removes what was added for nothing, unless somebody else is adding too.
    pub(crate) fn end(self) -> Result<(), StoreError> {
        let Adding { store, lock, .. } = self;
        drop(lock);
        store.collect()
    }
}

/// Puts an image into the index; one that is there already keeps its other names.
fn enter(index: &mut Index, mut image: Image) -> Image {
    for other in &mut index.images {
        other.tags.retain(|name| !image.tags.contains(name));
        other.digests.retain(|name| !image.digests.contains(name));
    }
    if let Some(known) = index.images.iter().position(|known| known.id == image.id) {
        let known = index.images.swap_remove(known);
        image.tags.extend(known.tags);
        image.digests.extend(known.digests);
    }
    image.tags.sort();
    image.digests.sort();
    index.images.push(image.clone());
    image
}

/// A directory that becomes a layer or goes away.
struct Staged<'a> {
    store: &'a ImageStore,
    path: PathBuf,
}

impl<'a> Staged<'a> {
    fn new(store: &'a ImageStore, chain_id: &Digest) -> Result<Self, StoreError> {
        // The layer's lock is held: if something is here, a process has died over it.
        let path = store.staging().join(layer_name(chain_id));
        remove(&path)?;
        std::fs::create_dir(&path).map_err(failed("make the directory", &path))?;
        let staged = Staged { store, path };
        // 0755 whatever the umask: an archive need not list its own root.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&staged.path, mode).map_err(failed("set the mode of", &staged.path))?;
        Ok(staged)
    }

    /// Gives the layer its name, once all of it is on disk.
    fn persist(self, path: PathBuf) -> Result<(), StoreError> {
        let directory = File::open(&self.path).map_err(failed("open", &self.path))?;
        rustix::fs::syncfs(&directory).map_err(|error| failed("write to disk", &self.path)(error.into()))?;
        std::fs::rename(&self.path, &path).map_err(failed("rename", &self.path))?;
        sync_directory(&self.store.layers()).map_err(failed("write to disk", &self.store.layers()))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        // After `persist` nothing is here.
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, "an unfinished layer is left until the store is opened again");
        }
    }
}

/// Ends reading when the wish for the data is gone.
struct CancellableReader<'a, R> {
    inner: R,
    cancelled: &'a AtomicBool,
}

impl<R: Read> Read for CancellableReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancelled.load(Ordering::Relaxed) {
            // Not `Interrupted`, which readers answer by trying again.
            return Err(io::Error::other("cancelled"));
        }
        self.inner.read(buffer)
    }
}
