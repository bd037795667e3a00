//! The API in process: what the binary, the controllers, the node and the HTTP front all call.
//!
//! An object is JSON, passed through its Kubernetes type on the way in; so unknown fields are found and wrong types refused.
//! Every write goes the same way: decode (`crate::codec`), prepare and default and validate (`laws`), admit (`admission`),
//! then one compare-and-set in the [store](crate::store); a lost race is tried again unless the caller named a version.
//!
//! - reading and watching: `read`
//! - creating: `create`; updating, status, patching: `update`; deleting: `delete`
//! - what pods and namespaces have besides: `pods`, `namespaces`
//! - the same with Rust types: `typed`
//!
//! What it does not do: who may do what is decided by the HTTP front; owners and dependents are the controllers' business.

mod admission;
mod create;
mod delete;
mod events;
mod kinds;
mod laws;
mod managed;
mod metadata;
mod namespaces;
mod pods;
mod random;
mod read;
mod selection;
mod services;
mod typed;
mod update;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::store::{ObjectKey, Store, StoredObject};

pub use delete::{DeleteOptions, Deleted, Propagation};
pub use read::{List, ListOptions, VersionMatch, Watch, WatchEvent, WatchOptions};
pub use selection::Selection;
pub use services::KUBERNETES_SERVICE_ADDRESS;
pub use typed::Object;

/// A fresh uid.
pub(crate) fn new_uid() -> Result<String, ApiError> {
    random::uid()
}
pub use update::{Configuration, Part};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What is done with fields that the kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, each with a warning.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

/// How a write is done.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// True to do everything but store.
    pub dry_run: bool,
    /// Who is recorded in `metadata.managedFields`; nobody if empty.
    pub field_manager: String,
    /// What is done with unknown fields.
    pub field_validation: FieldValidation,
}

/// What a write gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The object as it is stored (or would be).
    pub object: Arc<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// True if the object was not there before.
    pub created: bool,
}

/// What of the cluster's surroundings goes into objects.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// The certificate authority's certificates in PEM, put into every namespace as `kube-root-ca.crt`; none if absent.
    pub root_certificates: Option<String>,
    /// True to mount service account tokens into pods: somebody must be able to issue them.
    pub mount_tokens: bool,
}

/// The objects of the API. Clones share them.
#[derive(Clone)]
pub struct Registry {
    store: Store,
    clock: Clock,
    options: Arc<RegistryOptions>,
    /// Held while a Service's address is chosen and stored.
    addresses: Arc<tokio::sync::Mutex<()>>,
    last_sweep: Arc<events::LastSweep>,
}

impl Registry {
    /// A registry over a store, with the default options.
    pub fn new(store: Store, clock: Clock) -> Self {
        Self::with_options(store, clock, RegistryOptions::default())
    }

    /// A registry over a store.
    pub fn with_options(store: Store, clock: Clock, options: RegistryOptions) -> Self {
        Self { store, clock, options: Arc::new(options), addresses: Arc::default(), last_sweep: Arc::default() }
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The clock it was made with.
    pub fn clock(&self) -> Clock {
        Arc::clone(&self.clock)
    }

    /// The time of that clock.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The revision of the last write, as `metadata.resourceVersion` has it.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    fn key(&self, resource: &ResourceType, namespace: &str, name: &str) -> ObjectKey {
        let namespace = if resource.namespaced { namespace.to_owned() } else { String::new() };
        ObjectKey { resource: resource.storage(), namespace, name: name.to_owned() }
    }

    fn stored(&self, resource: &ResourceType, namespace: &str, name: &str) -> Result<StoredObject, ApiError> {
        self.store.get(&self.key(resource, namespace, name)).ok_or_else(|| ApiError::not_found(resource, name))
    }
}
