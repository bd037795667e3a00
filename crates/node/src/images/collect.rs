//! Takes away: images by name, and layers and blobs that no image has.

use std::collections::BTreeSet;
use std::fs;

use super::digest::Digest;
use super::image::Image;
use super::lock::Lock;
use super::reference::{Reference, ReferenceError};
use super::store::{Hold, ImageStore, Index, NO_LAYERS, StoreError, failed, layer_name, names_in, remove};

/// What [`ImageStore::remove`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Names that mean nothing any more.
    pub names: Vec<String>,
    /// The image that is gone with its last name; layers that other images have stay.
    pub image: Option<Digest>,
}

/// Why an image is not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// There is none.
    #[error("no image is named `{image}`")]
    Missing {
        /// As it was given.
        image: String,
    },
    /// It is neither a name nor the beginning of an id.
    #[error("`{image}` is no image name")]
    InvalidName {
        /// As it was given.
        image: String,
        /// What is wrong with it.
        #[source]
        source: ReferenceError,
    },
    /// Several ids begin so.
    #[error("several images have ids that begin with `{image}`: {}", .ids.join(", "))]
    Ambiguous {
        /// As it was given.
        image: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// Containers or volumes use it.
    #[error("image `{image}` is used by {}", .holders.join(", "))]
    InUse {
        /// Its name.
        image: String,
        /// Who uses it.
        holders: Vec<String>,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RemoveError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            RemoveError::Missing { .. } | RemoveError::InvalidName { .. } => {
                "`monopod image list` shows the images with their names and ids".to_owned()
            }
            RemoveError::Ambiguous { .. } => "give more digits of the id, or a name".to_owned(),
            RemoveError::InUse { .. } => {
                "delete the pods that use it, or remove it by force; its layers then stay until the pods are gone"
                    .to_owned()
            }
            RemoveError::Store(error) => error.hint(),
        }
    }
}

/// What a user means by a text.
enum Choice {
    Name(String),
    Id(Digest),
}

impl ImageStore {
    /// Removes a name, or all names of an image that is given by the beginning of its id.
    ///
    /// An image goes with its last tag. One that is used goes only by force, and its layers stay as long as they are held.
    pub fn remove(&self, name_or_id: &str, is_forced: bool) -> Result<Removed, RemoveError> {
        let removed = self.update_index(|index| self.remove_from(index, name_or_id, is_forced))??;
        self.collect()?;
        Ok(removed)
    }

    fn remove_from(&self, index: &mut Index, name_or_id: &str, is_forced: bool) -> Result<Removed, RemoveError> {
        let choice = choose(index, name_or_id)?;
        let missing = || RemoveError::Missing { image: name_or_id.to_owned() };
        let image = index.images.iter_mut().find(|image| choice.means(image)).ok_or_else(missing)?;
        if let Choice::Name(name) = &choice
            && image.tags.iter().any(|tag| tag != name)
        {
            image.tags.retain(|tag| tag != name);
            image.digests.retain(|digest| digest != name);
            return Ok(Removed { names: vec![name.clone()], image: None });
        }
        // Read while the index is locked: nobody can begin to hold the image now.
        let holds = self.read_holds()?;
        let holders: Vec<String> =
            holds.into_iter().filter(|hold| hold.image == image.id).map(|hold| hold.holder).collect();
        if !holders.is_empty() && !is_forced {
            return Err(RemoveError::InUse { image: image.name().to_owned(), holders });
        }
        let names = image.tags.iter().chain(&image.digests).cloned().collect();
        let id = image.id.clone();
        index.images.retain(|image| image.id != id);
        Ok(Removed { names, image: Some(id) })
    }

    /// Removes what no image and no hold needs, unless somebody adds to the store at this moment; then it is done when that is finished.
    pub(super) fn collect(&self) -> Result<(), StoreError> {
        let path = self.store_lock();
        let Some(_lock) = Lock::try_alone(&path).map_err(failed("lock", &path))? else { return Ok(()) };
        let holds = self.read_holds()?;
        let (layers, blobs, left) = self.update_index(|index| {
            let is_held = |image: &Image| holds.iter().any(|hold| hold.image == image.id);
            index.images.retain(|image| image.has_names() || is_held(image));
            // Whoever writes a file by way of the staging directory has the lock of the store or of the index:
            // what is there at this moment belongs to nobody.
            Ok::<_, StoreError>((used_layers(index, &holds), used_blobs(index), names_in(&self.staging())?))
        })??;
        for layer in names_in(&self.layers())?.difference(&layers) {
            // It loses its name first: a layer that is half removed must not be taken for a whole one.
            let path = self.layers().join(layer);
            let doomed = self.staging().join(format!("removed-{layer}"));
            remove(&doomed)?;
            fs::rename(&path, &doomed).map_err(failed("rename", &path))?;
            remove(&doomed)?;
        }
        for blob in names_in(&self.blobs())?.difference(&blobs) {
            remove(&self.blobs().join(blob))?;
        }
        for name in left {
            remove(&self.staging().join(name))?;
        }
        // Layers are unpacked under the store's lock only, so nobody can wait for one of these.
        for lock in names_in(&self.locks())?.iter().filter(|name| *name != "index") {
            remove(&self.locks().join(lock))?;
        }
        Ok(())
    }
}

fn used_layers(index: &Index, holds: &[Hold]) -> BTreeSet<String> {
    let of_images = index.images.iter().flat_map(|image| &image.layers);
    let layers = of_images.chain(holds.iter().flat_map(|hold| &hold.layers));
    layers.map(|layer| layer_name(layer).to_owned()).chain([NO_LAYERS.to_owned()]).collect()
}

fn used_blobs(index: &Index) -> BTreeSet<String> {
    let blobs = index.images.iter().flat_map(|image| std::iter::once(&image.id).chain(&image.manifest));
    blobs.map(|digest| digest.hex().to_owned()).collect()
}

impl Choice {
    fn means(&self, image: &Image) -> bool {
        match self {
            Choice::Name(name) => image.is_named(name),
            Choice::Id(id) => image.id == *id,
        }
    }
}

fn choose(index: &Index, text: &str) -> Result<Choice, RemoveError> {
    let reference = Reference::parse(text);
    if let Ok(name) = &reference {
        let name = name.to_string();
        if index.images.iter().any(|image| image.is_named(&name)) {
            return Ok(Choice::Name(name));
        }
    }
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let is_id = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids: Vec<&Digest> =
        index.images.iter().map(|image| &image.id).filter(|id| is_id && id.hex().starts_with(digits)).collect();
    match (ids.as_slice(), reference) {
        ([id], _) => Ok(Choice::Id((*id).clone())),
        ([], Err(source)) if !is_id => Err(RemoveError::InvalidName { image: text.to_owned(), source }),
        ([], _) => Err(RemoveError::Missing { image: text.to_owned() }),
        (ids, _) => {
            let ids = ids.iter().map(ToString::to_string).collect();
            Err(RemoveError::Ambiguous { image: text.to_owned(), ids })
        }
    }
}
