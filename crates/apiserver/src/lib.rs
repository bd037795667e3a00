//! The API server: a durable store with revisions and watches, the registry of Kubernetes objects over it, and the HTTP front.
//!
//! In process, everything goes through [`Registry`]:
//!
//! ```
//! # use std::sync::Arc;
//! # use apiserver::{Registry, Store};
//! # async fn example() -> Result<(), apiserver::ApiError> {
//! let registry = Registry::new(Store::in_memory(), Arc::new(jiff::Timestamp::now));
//! registry.bootstrap().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`store`]: objects, revisions, watches, the database on the disk
//! - [`resource`]: the table of served kinds
//! - [`registry`]: create, get, list, watch, update, patch, delete by Kubernetes' rules
//! - [`error`]: failures as `Status` objects
//! - [`auth`], [`tokens`]: certificates, tokens, roles
//! - [`http`]: the server; [`streams`]: what it needs of whoever runs the pods
//!
//! It knows objects, not containers: what runs in a pod is behind the streams trait, which the binary joins to the node.

pub mod auth;
pub mod codec;
pub mod error;
mod fields;
pub mod http;
pub mod registry;
pub mod resource;
pub mod store;
pub mod streams;
pub mod tokens;
pub mod value;

pub use auth::{Authority, ServerNames};
pub use error::ApiError;
pub use http::{Server, ServerOptions, VersionInfo};
pub use registry::{
    Answer, DeleteOptions, Deleted, ListOptions, Part, Propagation, Registry, RegistryOptions, Selection, Watch,
    WatchEvent, WatchOptions, WriteOptions,
};
pub use resource::ResourceType;
pub use store::{Store, StoreError, StoreOptions};
