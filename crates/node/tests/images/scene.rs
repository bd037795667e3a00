//! A store in a scratch directory, and what can be seen of it.

use std::fs;
use std::path::{Path, PathBuf};

use node::images::{Image, ImageStore, LoadError, Silent};

pub(crate) struct Scene {
    pub(crate) scratch: tempfile::TempDir,
    pub(crate) store: ImageStore,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&scratch.path().join("images")).unwrap();
        Scene { scratch, store }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("images")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Opens the store as another process would.
    pub(crate) fn reopen(&self) -> ImageStore {
        ImageStore::open(&self.root()).unwrap()
    }

    pub(crate) fn load(&self, file: &Path) -> Result<Vec<Image>, LoadError> {
        self.store.load(file, None, &Silent)
    }

    /// Loads an archive of one image.
    pub(crate) fn load_one(&self, file: &Path) -> Image {
        let mut images = self.load(file).unwrap();
        assert_eq!(images.len(), 1);
        images.remove(0)
    }

    /// The content of a file of an image, as overlayfs shows it but for whiteouts.
    pub(crate) fn read(&self, image: &Image, path: &str) -> String {
        let directories = self.store.layer_directories(image);
        let found = directories.iter().map(|directory| directory.join(path)).find(|path| path.exists());
        fs::read_to_string(found.unwrap()).unwrap()
    }

    /// All names of all images.
    pub(crate) fn names(&self) -> Vec<String> {
        self.store.list().unwrap().into_iter().flat_map(|image| [image.tags, image.digests].concat()).collect()
    }

    pub(crate) fn layers(&self) -> usize {
        names(&self.root().join("layers")).len() - 1
    }

    /// Nothing is in the store, and nothing is left of what was tried.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.store.list().unwrap(), []);
        let left: Vec<String> = ["layers", "blobs/sha256", "staging", "holds"]
            .iter()
            .flat_map(|directory| names(&self.root().join(directory)))
            .collect();
        assert_eq!(left, ["none"], "only the directory for images without layers");
    }
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// An error with its causes and its hint.
pub(crate) fn explained(error: &LoadError) -> (String, String) {
    let mut text = String::new();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // Causes that only pass another one on say the same.
        if !text.ends_with(&cause.to_string()) {
            text = if text.is_empty() { cause.to_string() } else { format!("{text}: {cause}") };
        }
        source = cause.source();
    }
    (text, error.hint().to_owned())
}
