//! Pulls images from registries.
//!
//! Layers are downloaded side by side, unpacked one after another as they come, and verified on both ways.
//! Dropping the future ends everything: what is complete stays for the next try, what is not goes away.
//! When to try again is not decided here.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::adding::{Adding, LayerError, NewLayer};
use super::credentials::{Credentials, Login};
use super::digest::{Digest, chain_ids};
use super::documents::{ConfigDocument, Descriptor, Document, DocumentError, Manifest, choose};
use super::image::{Image, Platform};
use super::progress::Progress;
use super::reference::{Reference, ReferenceError};
use super::registry::{Registry, RegistryError};
use super::store::{ImageStore, StoreError, chain};

/// As many as containerd downloads side by side.
const DOWNLOADS_MAX: usize = 3;

/// How to pull.
#[derive(Clone, Debug, Default)]
pub struct PullOptions {
    /// Who to be.
    pub credentials: Credentials,
    /// Registries (`host` or `host:port`) that are asked by plain HTTP. Those on this machine's loopback always are.
    pub insecure_registries: Vec<String>,
}

/// Why an image was not pulled. Its text is the message of the container's waiting state.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The name is none.
    #[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {source}")]
    InvalidName {
        /// As it was given.
        image: String,
        /// What is wrong with it.
        source: ReferenceError,
    },
    /// It could not be pulled.
    #[error("failed to pull and unpack image \"{reference}\": {}", chain(.problem))]
    Failed {
        /// Its complete name.
        reference: String,
        /// Why.
        problem: PullProblem,
    },
}

/// What went wrong on the way from a registry into the store.
#[derive(Debug, thiserror::Error)]
pub enum PullProblem {
    /// The registry does not give the image.
    #[error("failed to resolve reference \"{reference}\"")]
    Resolve {
        /// The image's complete name.
        reference: String,
        /// What the registry says.
        #[source]
        source: RegistryError,
    },
    /// The registry does not give a part of the image.
    #[error("failed to copy {digest}")]
    Copy {
        /// The part.
        digest: Digest,
        /// What the registry says.
        #[source]
        source: RegistryError,
    },
    /// No image of an index is for this machine.
    #[error("no match for platform in manifest")]
    Platform(#[source] DocumentError),
    /// A document of the image cannot be used.
    #[error("{what} {digest} cannot be used")]
    Document {
        /// `manifest` or `configuration`.
        what: &'static str,
        /// Its digest.
        digest: Digest,
        /// Why.
        #[source]
        source: DocumentError,
    },
    /// A layer cannot be unpacked.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A part of the work was cut off: the process ends.
    #[error("the pull was cut off")]
    CutOff,
}

impl PullError {
    /// The container's waiting reason (L-734).
    pub fn reason(&self) -> &'static str {
        match self {
            PullError::InvalidName { .. } => "InvalidImageName",
            PullError::Failed { .. } => "ErrImagePull",
        }
    }
}

/// Downloads that are under way in this process, so that two pulls fetch a blob once.
#[derive(Debug, Default)]
pub(super) struct Downloads(Mutex<BTreeMap<Digest, Weak<tokio::sync::Mutex<()>>>>);

impl Downloads {
    fn turn(&self, digest: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(digest).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(digest.clone(), Arc::downgrade(&turn));
            turn
        })
    }
}

impl ImageStore {
    /// Pulls an image and gives it its name. What the store has already is not fetched again.
    ///
    /// Dropping the future cancels the pull.
    pub async fn pull(
        &self,
        image: &str,
        options: &PullOptions,
        progress: Arc<dyn Progress>,
    ) -> Result<Image, PullError> {
        let reference =
            Reference::parse(image).map_err(|source| PullError::InvalidName { image: image.to_owned(), source })?;
        let failed = |problem| PullError::Failed { reference: reference.to_string(), problem };
        let cancelled = Cancelled::default();
        let adding = begin(self.clone(), Arc::clone(&cancelled.0)).await.map_err(failed)?;
        let mut logins: Vec<Option<Login>> = options.credentials.of(&reference).into_iter().map(Some).collect();
        if logins.is_empty() {
            logins.push(None);
        }
        let mut outcome = Err(PullProblem::CutOff);
        for login in logins {
            let pull = Pull {
                registry: Arc::new(Registry::new(&reference, login, &options.insecure_registries)),
                reference: reference.clone(),
                adding: Arc::clone(&adding),
                progress: Arc::clone(&progress),
            };
            outcome = pull.run().await;
            // Another login may be let in where this one was not.
            if !matches!(&outcome, Err(PullProblem::Resolve { source: RegistryError::Denied(_), .. })) {
                break;
            }
        }
        let image = outcome.map_err(failed)?;
        finish(adding, image).await.map_err(failed)
    }
}

/// Tells the blocking parts of a pull that nobody waits for them any more.
#[derive(Default)]
struct Cancelled(Arc<AtomicBool>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn begin(store: ImageStore, cancelled: Arc<AtomicBool>) -> Result<Arc<Adding>, PullProblem> {
    Ok(Arc::new(blocking(move || store.begin_adding(&cancelled)).await??))
}

async fn finish(adding: Arc<Adding>, image: Image) -> Result<Image, PullProblem> {
    blocking(move || {
        let image = adding.enter(image)?;
        // Nobody else has it any more, for all tasks were awaited.
        if let Some(adding) = Arc::into_inner(adding) {
            adding.end()?;
        }
        Ok(image)
    })
    .await?
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PullProblem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PullProblem::CutOff)
}

/// One pull.
struct Pull {
    registry: Arc<Registry>,
    reference: Reference,
    adding: Arc<Adding>,
    progress: Arc<dyn Progress>,
}

/// The documents of the image that fits this machine.
struct Resolved {
    /// The digest that the name leads to: the index's if there is one.
    top: Digest,
    manifest_digest: Digest,
    manifest_bytes: Vec<u8>,
    manifest: Manifest,
    documents_bytes: u64,
}

impl Pull {
    async fn run(&self) -> Result<Image, PullProblem> {
        let resolved = self.resolve().await?;
        let config = self.document(&resolved.manifest.config).await?;
        let config_digest = resolved.manifest.config.digest.clone();
        let unusable = |source| match source {
            DocumentError::Platform { .. } => PullProblem::Platform(source),
            source => PullProblem::Document { what: "configuration", digest: config_digest.clone(), source },
        };
        let document = ConfigDocument::parse(&config).map_err(unusable)?;
        document.check_platform().map_err(unusable)?;
        let diff_ids = document.diff_ids(resolved.manifest.layers.len()).map_err(unusable)?.to_vec();
        self.fetch_layers(&resolved.manifest.layers, &diff_ids).await?;
        let layers_bytes = resolved.manifest.layers.iter().fold(0u64, |sum, layer| sum.saturating_add(layer.size));
        let size_bytes = layers_bytes.saturating_add(config.len() as u64).saturating_add(resolved.documents_bytes);
        let adding = Arc::clone(&self.adding);
        let manifest = resolved.manifest_bytes;
        let id = blocking(move || {
            adding.put_blob(&manifest)?;
            adding.put_blob(&config)
        })
        .await??;
        let mut image = document.into_image(id, Some(resolved.manifest_digest), size_bytes);
        image.digests.push(self.reference.at(resolved.top).to_string());
        if self.reference.tag().is_some() {
            image.tags.push(self.reference.to_string());
        }
        Ok(image)
    }

    /// Finds the manifest that the name leads to, by way of an index if there is one.
    async fn resolve(&self) -> Result<Resolved, PullProblem> {
        let bytes = match self.registry.manifest(self.reference.digest()).await {
            Ok(bytes) => bytes,
            Err(source) => {
                let reference = self.reference.to_string();
                return Err(PullProblem::Resolve { reference, source });
            }
        };
        let top = Digest::of(&bytes);
        match parse(&bytes)? {
            Document::Manifest(manifest) => {
                let documents_bytes = bytes.len() as u64;
                let manifest_digest = top.clone();
                Ok(Resolved { top, manifest_digest, manifest_bytes: bytes, manifest, documents_bytes })
            }
            Document::Index(index) => {
                let unknown = Platform { os: String::new(), architecture: String::new(), variant: String::new() };
                let candidates = index.manifests.into_iter();
                let candidates = candidates.map(|entry| (entry.platform().unwrap_or(unknown.clone()), entry)).collect();
                let entry: Descriptor = choose(candidates).map_err(PullProblem::Platform)?;
                let manifest_digest = entry.digest;
                let manifest_bytes = match self.registry.manifest(Some(&manifest_digest)).await {
                    Ok(bytes) => bytes,
                    Err(source) => return Err(PullProblem::Copy { digest: manifest_digest, source }),
                };
                let documents_bytes = (bytes.len() as u64).saturating_add(manifest_bytes.len() as u64);
                match parse(&manifest_bytes)? {
                    Document::Manifest(manifest) => {
                        Ok(Resolved { top, manifest_digest, manifest_bytes, manifest, documents_bytes })
                    }
                    Document::Index(_) => {
                        let source = DocumentError::Inconsistent("it is an index within an index".to_owned());
                        Err(PullProblem::Document { what: "manifest", digest: manifest_digest, source })
                    }
                }
            }
        }
    }

    /// A small blob, from the store if it is there.
    async fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, PullProblem> {
        let path = self.adding.store().blob(&descriptor.digest);
        let stored = blocking(move || std::fs::read(path).ok()).await?;
        if let Some(bytes) = stored.filter(|bytes| Digest::of(bytes) == descriptor.digest) {
            return Ok(bytes);
        }
        let fetched = self.registry.small_blob(descriptor).await;
        fetched.map_err(|source| PullProblem::Copy { digest: descriptor.digest.clone(), source })
    }

    /// Downloads what is missing, side by side, and unpacks it in order.
    async fn fetch_layers(&self, layers: &[Descriptor], diff_ids: &[Digest]) -> Result<(), PullProblem> {
        let chain_ids = chain_ids(diff_ids);
        let places = Arc::new(Semaphore::new(DOWNLOADS_MAX));
        // Dropping the set ends the downloads.
        let mut downloads = JoinSet::new();
        let mut waiting = Vec::new();
        for (index, (descriptor, chain_id)) in layers.iter().zip(&chain_ids).enumerate() {
            let adding = Arc::clone(&self.adding);
            let wanted = chain_id.clone();
            if blocking(move || adding.has_layer(&wanted)).await? {
                continue;
            }
            let (sender, receiver) = oneshot::channel();
            let download = Download {
                registry: Arc::clone(&self.registry),
                store: self.adding.store().clone(),
                progress: Arc::clone(&self.progress),
                descriptor: descriptor.clone(),
                chain_id: chain_id.clone(),
            };
            let places = Arc::clone(&places);
            downloads.spawn(async move {
                let place = places.acquire_owned().await;
                let outcome = download.run().await;
                drop(place);
                // Nobody listens if the pull has failed elsewhere.
                drop(sender.send(outcome));
            });
            waiting.push((index, receiver));
        }
        let mut outcome = Ok(());
        for (index, receiver) in waiting {
            outcome = match receiver.await {
                Ok(Ok(Some(blob))) => self.unpack(blob, index, &chain_ids, diff_ids, layers).await,
                Ok(Ok(None)) => Ok(()),
                Ok(Err(problem)) => Err(problem),
                Err(_) => Err(PullProblem::CutOff),
            };
            if outcome.is_err() {
                break;
            }
        }
        // The others are ended before the error is told, so that nothing goes on behind it.
        downloads.shutdown().await;
        outcome
    }

    async fn unpack(
        &self,
        blob: PathBuf,
        index: usize,
        chain_ids: &[Digest],
        diff_ids: &[Digest],
        layers: &[Descriptor],
    ) -> Result<(), PullProblem> {
        let (Some(chain_id), Some(diff_id), Some(layer)) =
            (chain_ids.get(index).cloned(), diff_ids.get(index).cloned(), layers.get(index).cloned())
        else {
            return Err(PullProblem::CutOff);
        };
        let below = chain_ids.get(..index).unwrap_or_default().to_vec();
        let adding = Arc::clone(&self.adding);
        blocking(move || {
            let archive = File::open(&blob).map_err(super::store::failed("open", &blob))?;
            let outcome = adding.put_layer(NewLayer {
                name: layer.digest.to_string(),
                below: &below,
                chain_id: &chain_id,
                diff_id: &diff_id,
                digest: Some(&layer.digest),
                archive: Box::new(archive),
            });
            // Unpacked, it is not needed any more; wrong, it must not be taken for right the next time.
            super::store::remove(&blob)?;
            outcome.map_err(PullProblem::from)
        })
        .await?
    }
}

/// One layer on its way.
struct Download {
    registry: Arc<Registry>,
    store: ImageStore,
    progress: Arc<dyn Progress>,
    descriptor: Descriptor,
    chain_id: Digest,
}

impl Download {
    /// Gives the file, or `None` if somebody else has unpacked the layer meanwhile.
    async fn run(self) -> Result<Option<PathBuf>, PullProblem> {
        let turn = self.store.downloads.turn(&self.descriptor.digest);
        let _turn = turn.lock().await;
        let store = self.store.clone();
        let blob = self.store.blob(&self.descriptor.digest);
        let (chain_id, wanted) = (self.chain_id.clone(), blob.clone());
        let (is_unpacked, is_there) = blocking(move || (store.layer(&chain_id).is_dir(), wanted.is_file())).await?;
        if is_unpacked {
            return Ok(None);
        }
        if !is_there {
            self.fetch(&blob).await?;
        }
        Ok(Some(blob))
    }

    async fn fetch(&self, blob: &Path) -> Result<(), PullProblem> {
        let digest = &self.descriptor.digest;
        let staging = self.store.staging();
        let failed = super::store::failed("make a file in", &staging);
        let at = staging.clone();
        let staged =
            blocking(move || tempfile::Builder::new().prefix("blob-").tempfile_in(at)).await?.map_err(failed)?;
        let (file, path) = staged.into_parts();
        let file = tokio::fs::File::from_std(file);
        let fetched = self.registry.blob(&self.descriptor, file, &staging, &*self.progress).await;
        fetched.map_err(|source| PullProblem::Copy { digest: digest.clone(), source })?;
        let blob = blob.to_owned();
        blocking(move || {
            path.persist(&blob).map_err(|error| super::store::failed("rename to", &blob)(error.error).into())
        })
        .await?
    }
}

fn parse(bytes: &[u8]) -> Result<Document, PullProblem> {
    Document::parse(bytes).map_err(|source| PullProblem::Document {
        what: "manifest",
        digest: Digest::of(bytes),
        source,
    })
}
