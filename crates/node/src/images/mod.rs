//! Images: a content-addressed store that `load`, `pull` and containers share.
//!
//! [`ImageStore`] keeps everything on disk and nothing in memory, so two processes on one data directory see the same images.
//! A layer is unpacked once, below `layers/`, and given to overlayfs as a lower directory.
//! It does not mount anything for containers: [`Image::layers`] names the directories, the runtime mounts them.
//! It does not decide when to pull or how long to wait before the next try: that is the core's.

mod adding;
mod archive;
mod collect;
mod compression;
mod credentials;
mod digest;
mod documents;
mod image;
mod load;
mod lock;
mod platform;
mod progress;
mod pull;
mod reference;
mod registry;
mod store;
mod tar;
mod tree;
mod unpack;

pub use adding::LayerError;
pub use archive::ArchiveError;
pub use collect::{RemoveError, Removed};
pub use credentials::{Credentials, CredentialsError};
pub use digest::{Digest, DigestError};
pub use documents::DocumentError;
pub use image::{Image, ImageConfig, Platform};
pub use load::{LoadError, LoadProblem};
pub use progress::{Progress, Silent};
pub use pull::{PullError, PullOptions, PullProblem};
pub use reference::{Reference, ReferenceError};
pub use registry::RegistryError;
pub use store::{FindError, ImageStore, StoreError};
pub use tar::TarError;
pub(crate) use tree::open_beneath;
pub use tree::remove_tree;
pub use unpack::{LowerLayers, UnpackError, UnpackLimits, Unpacked, unpack};
