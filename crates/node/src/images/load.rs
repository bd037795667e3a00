//! Loads images from files: docker-archives, OCI archives and layouts, and plain root file systems.
//!
//! Nothing of an archive that is damaged, hostile or for another machine stays in the store; an archive is loaded as a whole or not at all.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::adding::{Adding, LayerError, NewLayer};
use super::archive::{Archive, ArchiveError, TarFile};
use super::digest::{Digest, HashingReader, chain_ids};
use super::documents::{
    ArchiveItem, ConfigDocument, DOCUMENT_BYTES_MAX, Descriptor, Document, DocumentError, IndexDocument, Manifest,
    choose, foreign,
};
use super::image::{Image, Platform};
use super::platform::host;
use super::progress::{Counted, Progress, short};
use super::reference::{Reference, ReferenceError};
use super::store::{ImageStore, StoreError, system_hint};

/// How often an index may name another one.
const INDEX_DEPTH_MAX: usize = 4;
/// Where containerd and Docker put an image's name.
const NAME_ANNOTATION: &str = "io.containerd.image.name";
/// Where OCI puts a name or only a tag.
const REF_NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// Why a file was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("failed to load image archive `{}`", file.display())]
pub struct LoadError {
    /// The file.
    pub file: PathBuf,
    /// Why.
    #[source]
    pub problem: Box<LoadProblem>,
    hint: String,
}

/// What is wrong with a file that is to be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadProblem {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A JSON document in it cannot be used.
    #[error("member `{member}` cannot be used")]
    Document {
        /// Which member.
        member: String,
        /// Why.
        #[source]
        source: DocumentError,
    },
    /// A member is not what another one says it is.
    #[error("member `{member}` has digest {found}, but the image says {expected}")]
    WrongDigest {
        /// Which member.
        member: String,
        /// What it should be.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
    /// A layer cannot be added to the store.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// Neither the archive nor the caller gives the image a name.
    #[error("the archive gives its image no name")]
    NoName,
    /// It is a tar archive without an image, and no name was given to make it one.
    #[error("it holds neither `manifest.json` nor `oci-layout`, so it is no image")]
    NoImage,
    /// One name was given for several images.
    #[error("the archive holds several images ({}), which cannot all be named `{tag}`", .images.join(", "))]
    SeveralImages {
        /// Their own names.
        images: Vec<String>,
        /// The name that was given.
        tag: String,
    },
    /// A name cannot be used.
    #[error("`{name}` is no image name")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: ReferenceError,
    },
    /// A root file system's archive ends without its marker.
    #[error("the archive ends without its end marker: it is empty or was cut off")]
    CutOff,
    /// An index names itself, or others without end.
    #[error("its indexes are nested too deep")]
    NestedIndexes,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl LoadError {
    /// What to do about it.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl LoadProblem {
    fn hint(&self, file: &Path, store: &ImageStore) -> String {
        match self {
            LoadProblem::Archive(ArchiveError::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
                "check the path".to_owned()
            }
            LoadProblem::Archive(ArchiveError::Read(error)) if error.kind() == io::ErrorKind::Unsupported => {
                "compress it with gzip or zstd, or not at all".to_owned()
            }
            LoadProblem::Archive(ArchiveError::Unfold { source, place }) => system_hint(source, place),
            LoadProblem::Archive(ArchiveError::NotTar | ArchiveError::NotLayout { .. }) => {
                "give a file of `docker save`, an OCI archive or layout, or a tar file of a root file system with --tag NAME"
                    .to_owned()
            }
            LoadProblem::Document { source: DocumentError::Platform { host, .. }, .. } => {
                format!("build or save the image for {host}, for example with `--platform {host}`")
            }
            LoadProblem::NoName => "name it with --tag NAME".to_owned(),
            LoadProblem::NoImage => "to make an image of a root file system, name it with --tag NAME".to_owned(),
            LoadProblem::SeveralImages { .. } => "load it without --tag".to_owned(),
            LoadProblem::InvalidName { .. } => "names look like `busybox:1.36` or `registry.example.com/team/app:v1`".to_owned(),
            LoadProblem::Layer(error) => error.hint(store),
            LoadProblem::Store(error) => error.hint(),
            _ => format!("write `{}` again from where you have the image", file.display()),
        }
    }
}

/// An image of an archive, with the names that the archive gives it.
struct Found {
    names: BTreeSet<String>,
    config: Vec<u8>,
    config_member: String,
    /// The manifest and the bytes of the documents that led to it; a docker-archive has none.
    manifest: Option<(Vec<u8>, u64)>,
    layers: Vec<FoundLayer>,
}

struct FoundLayer {
    member: String,
    /// Its digest as it lies there, if the archive tells.
    digest: Option<Digest>,
}

impl ImageStore {
    /// Loads every image of a file: a docker-archive, an OCI archive or layout, or, with a tag, the tar archive of a root file system.
    ///
    /// A tag takes the place of the names in the archive, which then must hold one image only.
    pub fn load(&self, file: &Path, tag: Option<&str>, progress: &dyn Progress) -> Result<Vec<Image>, LoadError> {
        self.load_file(file, tag, progress).map_err(|problem| {
            let hint = problem.hint(file, self);
            LoadError { file: file.to_owned(), problem: Box::new(problem), hint }
        })
    }

    fn load_file(&self, file: &Path, tag: Option<&str>, progress: &dyn Progress) -> Result<Vec<Image>, LoadProblem> {
        let tag = tag.map(tag_name).transpose()?;
        let adding = self.begin_adding(&Arc::default())?;
        let images = load(&adding, file, tag.as_deref(), progress);
        let entered = images.and_then(|images| Ok(adding.enter_all(images)?));
        match (entered, adding.end()) {
            (Ok(images), end) => end.map(|()| images).map_err(LoadProblem::Store),
            (Err(problem), end) => {
                if let Err(error) = end {
                    tracing::warn!(%error, "what was loaded for nothing is left until the store is opened again");
                }
                Err(problem)
            }
        }
    }
}

/// A name with a tag, complete. A digest can't be given to an image: it has one.
fn tag_name(name: &str) -> Result<String, LoadProblem> {
    let invalid = |source| LoadProblem::InvalidName { name: name.to_owned(), source };
    let reference = Reference::parse(name).map_err(invalid)?;
    if reference.digest().is_some() { Err(invalid(ReferenceError::Format)) } else { Ok(reference.to_string()) }
}

fn load(adding: &Adding, file: &Path, tag: Option<&str>, progress: &dyn Progress) -> Result<Vec<Image>, LoadProblem> {
    let archive = Archive::open(file, &adding.store().staging(), progress)?;
    let is_oci = archive.contains("oci-layout") && archive.contains("index.json");
    let is_docker = archive.contains("manifest.json");
    let mut found = if is_oci { find_in_layout(&archive)? } else { Vec::new() };
    // Docker writes both forms into one archive; the older one always has the names.
    if is_docker && found.iter().all(|image| image.names.is_empty()) {
        found = find_in_docker_archive(&archive)?;
    }
    if !is_oci && !is_docker {
        let (Archive::Tar(tar), Some(tag)) = (&archive, tag) else { return Err(LoadProblem::NoImage) };
        return load_rootfs(adding, tar, tag, progress).map(|image| vec![image]);
    }
    if let Some(tag) = tag {
        let [image] = found.as_mut_slice() else {
            let images = found.iter().flat_map(|image| image.names.iter().cloned()).collect();
            return Err(LoadProblem::SeveralImages { images, tag: tag.to_owned() });
        };
        image.names = BTreeSet::from([tag.to_owned()]);
    }
    if found.is_empty() || found.iter().any(|image| image.names.is_empty()) {
        return Err(LoadProblem::NoName);
    }
    found.into_iter().map(|found| add(adding, &archive, found, progress)).collect()
}

/// Adds the blobs and layers of an image.
fn add(adding: &Adding, archive: &Archive, found: Found, progress: &dyn Progress) -> Result<Image, LoadProblem> {
    let unusable = |source| LoadProblem::Document { member: found.config_member.clone(), source };
    let config = ConfigDocument::parse(&found.config).map_err(unusable)?;
    config.check_platform().map_err(unusable)?;
    let diff_ids = config.diff_ids(found.layers.len()).map_err(unusable)?;
    let chain_ids = chain_ids(diff_ids);
    let mut size_bytes = found.config.len() as u64;
    for (index, ((layer, diff_id), chain_id)) in found.layers.iter().zip(diff_ids).zip(&chain_ids).enumerate() {
        let layer_bytes = archive.size(&layer.member)?;
        size_bytes = size_bytes.saturating_add(layer_bytes);
        if adding.has_layer(chain_id) {
            continue;
        }
        let member = archive.open_member(&layer.member)?;
        adding.put_layer(NewLayer {
            name: layer.member.clone(),
            below: chain_ids.get(..index).unwrap_or_default(),
            chain_id,
            diff_id,
            digest: layer.digest.as_ref(),
            archive: Box::new(Counted::new(member, progress, short(diff_id), Some(layer_bytes))),
        })?;
    }
    let id = adding.put_blob(&found.config)?;
    let manifest = match &found.manifest {
        Some((bytes, documents_bytes)) => {
            size_bytes = size_bytes.saturating_add(*documents_bytes);
            Some(adding.put_blob(bytes)?)
        }
        None => None,
    };
    let mut image = config.into_image(id, manifest, size_bytes);
    image.tags = found.names.into_iter().collect();
    Ok(image)
}

fn find_in_docker_archive(archive: &Archive) -> Result<Vec<Found>, LoadProblem> {
    const MEMBER: &str = "manifest.json";
    let bytes = archive.read_member(MEMBER, DOCUMENT_BYTES_MAX)?;
    let items: Vec<ArchiveItem> = serde_json::from_slice(&bytes)
        .map_err(|error| LoadProblem::Document { member: MEMBER.to_owned(), source: error.into() })?;
    let found = |item: ArchiveItem| {
        Ok(Found {
            names: item.repo_tags.iter().map(|name| tag_name(name)).collect::<Result<_, _>>()?,
            config: archive.read_member(&item.config, DOCUMENT_BYTES_MAX)?,
            config_member: item.config,
            manifest: None,
            layers: item.layers.into_iter().map(|member| FoundLayer { member, digest: None }).collect(),
        })
    };
    items.into_iter().map(found).collect()
}

/// The images of a layout: for each name the one that fits this machine best; without names, the best of all.
fn find_in_layout(archive: &Archive) -> Result<Vec<Found>, LoadProblem> {
    const MEMBER: &str = "index.json";
    let bytes = archive.read_member(MEMBER, DOCUMENT_BYTES_MAX)?;
    let index: IndexDocument = serde_json::from_slice(&bytes)
        .map_err(|error| LoadProblem::Document { member: MEMBER.to_owned(), source: error.into() })?;
    let names: BTreeSet<String> = index.manifests.iter().filter_map(name_of).collect();
    let mut groups: Vec<(BTreeSet<String>, Vec<&Descriptor>)> = Vec::new();
    if names.is_empty() {
        groups.push((BTreeSet::new(), index.manifests.iter().collect()));
    }
    for name in names {
        let descriptors: Vec<&Descriptor> =
            index.manifests.iter().filter(|descriptor| name_of(descriptor).as_ref() == Some(&name)).collect();
        let digests = |of: &[&Descriptor]| of.iter().map(|descriptor| descriptor.digest.clone()).collect::<Vec<_>>();
        match groups.iter_mut().find(|(_, known)| digests(known) == digests(&descriptors)) {
            // Several names of one image.
            Some((names, _)) => drop(names.insert(name)),
            None => groups.push((BTreeSet::from([name]), descriptors)),
        }
    }
    let found = |(names, descriptors): (BTreeSet<String>, Vec<&Descriptor>)| {
        let candidates = candidates(archive, &descriptors, 0, 0)?;
        let unusable = |source| LoadProblem::Document { member: MEMBER.to_owned(), source };
        choose(candidates).map_err(unusable)?.into_found(archive, names)
    };
    groups.into_iter().map(found).collect()
}

/// The name that an index gives an image. A text that can only be a tag is none.
fn name_of(descriptor: &Descriptor) -> Option<String> {
    let annotation = |key: &str| descriptor.annotations.get(key).filter(|name| name.contains([':', '/']));
    let name = annotation(NAME_ANNOTATION).or_else(|| annotation(REF_NAME_ANNOTATION))?;
    tag_name(name).ok()
}

/// A manifest of a layout.
struct LayoutManifest {
    manifest: Manifest,
    member: String,
    bytes: Vec<u8>,
    /// Bytes of the manifest and of the indexes that led to it.
    documents_bytes: u64,
}

/// Every image manifest that descriptors lead to, with what it is for.
fn candidates(
    archive: &Archive,
    descriptors: &[&Descriptor],
    indexes_bytes: u64,
    depth: usize,
) -> Result<Vec<(Platform, LayoutManifest)>, LoadProblem> {
    if depth > INDEX_DEPTH_MAX {
        return Err(LoadProblem::NestedIndexes);
    }
    let mut found = Vec::new();
    for descriptor in descriptors {
        let (member, bytes) = read_blob(archive, descriptor)?;
        let documents_bytes = indexes_bytes.saturating_add(bytes.len() as u64);
        match Document::parse(&bytes) {
            Ok(Document::Index(index)) => {
                let inner: Vec<&Descriptor> = index.manifests.iter().filter(|entry| may_fit(archive, entry)).collect();
                if inner.is_empty() {
                    let platforms: Vec<Platform> = index.manifests.iter().filter_map(Descriptor::platform).collect();
                    return Err(LoadProblem::Document { member, source: foreign(&platforms) });
                }
                found.extend(candidates(archive, &inner, documents_bytes, depth + 1)?);
            }
            Ok(Document::Manifest(manifest)) => {
                let (config_member, config) = read_blob(archive, &manifest.config)?;
                let unusable = |source| LoadProblem::Document { member: config_member.clone(), source };
                let platform = ConfigDocument::parse(&config).map_err(unusable)?.platform();
                found.push((platform, LayoutManifest { manifest, member, bytes, documents_bytes }));
            }
            // Signatures and attestations may stand beside images.
            Err(DocumentError::Kind(_)) if descriptors.len() > 1 => {}
            Err(source) => return Err(LoadProblem::Document { member, source }),
        }
    }
    Ok(found)
}

/// Whether an index's entry need be looked at: an archive for one platform names the others too, but does not hold them.
fn may_fit(archive: &Archive, entry: &Descriptor) -> bool {
    let is_unknown = entry.platform().is_some_and(|platform| platform.architecture == "unknown");
    !is_unknown
        && (archive.contains(&blob_member(&entry.digest))
            || entry.platform().is_none_or(|platform| super::platform::fitness(&platform, &host()).is_some()))
}

impl LayoutManifest {
    fn into_found(self, archive: &Archive, names: BTreeSet<String>) -> Result<Found, LoadProblem> {
        let (config_member, config) = read_blob(archive, &self.manifest.config)?;
        let layer = |layer: Descriptor| -> Result<FoundLayer, LoadProblem> {
            let member = blob_member(&layer.digest);
            // A wrong length is found without reading the layer.
            if archive.size(&member)? != layer.size {
                let text = format!("it says that `{member}` has {} bytes", layer.size);
                let source = DocumentError::Inconsistent(text);
                return Err(LoadProblem::Document { member: self.member.clone(), source });
            }
            Ok(FoundLayer { member, digest: Some(layer.digest) })
        };
        let layers = self.manifest.layers.into_iter().map(layer).collect::<Result<_, _>>()?;
        Ok(Found { names, config, config_member, manifest: Some((self.bytes, self.documents_bytes)), layers })
    }
}

/// Reads a document of a layout and compares it with its descriptor.
fn read_blob(archive: &Archive, descriptor: &Descriptor) -> Result<(String, Vec<u8>), LoadProblem> {
    let member = blob_member(&descriptor.digest);
    let bytes = archive.read_member(&member, DOCUMENT_BYTES_MAX)?;
    let found = Digest::of(&bytes);
    if found != descriptor.digest {
        return Err(LoadProblem::WrongDigest { member, expected: descriptor.digest.clone(), found });
    }
    Ok((member, bytes))
}

fn blob_member(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Makes an image of a root file system: one layer, and a configuration that says nothing but the platform.
fn load_rootfs(adding: &Adding, tar: &TarFile, tag: &str, progress: &dyn Progress) -> Result<Image, LoadProblem> {
    if !tar.is_complete {
        return Err(LoadProblem::CutOff);
    }
    let unreadable = |source| LoadProblem::Archive(ArchiveError::Read(source));
    let (diff_id, _) = HashingReader::new(tar.content(), u64::MAX).finish().map_err(unreadable)?;
    let host = host();
    let document = serde_json::json!({
        "architecture": host.architecture,
        "os": host.os,
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    });
    let config = document.to_string().into_bytes();
    let member = "config".to_owned();
    let document =
        ConfigDocument::parse(&config).map_err(|source| LoadProblem::Document { member: member.clone(), source })?;
    if !adding.has_layer(&diff_id) {
        let content = Counted::new(tar.content(), progress, short(&diff_id), Some(tar.size_bytes));
        adding.put_layer(NewLayer {
            name: short(&diff_id),
            below: &[],
            chain_id: &diff_id,
            diff_id: &diff_id,
            digest: None,
            archive: Box::new(content),
        })?;
    }
    let id = adding.put_blob(&config)?;
    let mut image = document.into_image(id, None, tar.size_bytes.saturating_add(config.len() as u64));
    image.tags.push(tag.to_owned());
    Ok(image)
}
