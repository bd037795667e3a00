//! What the node needs of an API: the objects that it runs, and a place to write what became of them.
//!
//! Two adapters stand behind [`Cluster`]: the process's own store, and a remote API server.
//! An adapter reconnects and lists again by itself; the node sees a stream that goes on.
//! It decides nothing: which pods, when, and what is written is the engine's.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, PodStatus, Secret, Service};
use lifecycle::input::ReferenceKind;
use lifecycle::{PodRef, PodUid};

pub use crate::volumes::Token;

/// An API as a node sees it.
pub trait Cluster: Send + Sync + 'static {
    /// The pods that are bound to this node, as they are and as they change.
    ///
    /// Every pod that exists is applied, then comes [`PodChange::Synced`], then every change in order.
    /// After a break an adapter applies again what stands and tells what is gone.
    /// The stream ends only with the API itself.
    fn watch_pods(&self) -> BoxStream<'static, PodChange>;

    /// Changes of the ConfigMaps and Secrets that pods may refer to. What exists when the stream begins is not told.
    fn watch_references(&self) -> BoxStream<'static, ReferenceChange>;

    /// A ConfigMap, `None` if there is none of that name.
    fn config_map<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, Option<Arc<ConfigMap>>>;

    /// A Secret, `None` if there is none of that name.
    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, Option<Arc<Secret>>>;

    /// The Services of a namespace (L-909).
    fn services<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<Arc<Service>>>;

    /// A token of a pod's service account.
    fn service_account_token(&self, request: TokenRequest) -> Answer<'_, Token>;

    /// Replaces the part of a pod's status that is the node's.
    ///
    /// The pod is named with its uid: a pod of the same name and another uid is [`ClusterError::Gone`].
    /// Other writers of the same object are no obstacle: an adapter puts the status over the stored one with [`lifecycle::merge_status`],
    /// and reads again and repeats the write until it is taken or refused.
    fn write_pod_status<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> Answer<'a, ()>;

    /// Records an event, which has no name yet: an adapter counts and gathers equal ones (`api::events`) and writes what comes of it.
    fn record_event(&self, event: Event) -> Answer<'_, ()>;

    /// Removes a pod's object: grace 0, with the uid as precondition (L-619). [`ClusterError::Gone`] if there is none of that uid.
    fn delete_pod<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, ()>;
}

/// What a call gives, later.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, ClusterError>>;

/// A change of what this node is to run.
#[derive(Clone, Debug)]
pub enum PodChange {
    /// A pod bound to this node was created or changed.
    Applied(Arc<Pod>),
    /// A pod's object is gone.
    Deleted(PodUid),
    /// All pods that existed when the stream began have been applied.
    Synced,
}

/// An object that pods may refer to was created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceChange {
    /// Its kind.
    pub kind: ReferenceKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A service account token to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The pod that it is bound to.
    pub pod: PodRef,
    /// `spec.serviceAccountName`.
    pub service_account: String,
    /// The audience; empty means the API server's own.
    pub audience: String,
    /// How long it is to be valid.
    pub expiration_seconds: i64,
}

/// Why the API did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The object is not there, or is another of the same name.
    #[error("{what} is gone")]
    Gone {
        /// Kind, namespace and name.
        what: String,
    },
    /// The API understood and said no; the text is its own.
    #[error("{message}")]
    Refused {
        /// The `message` of its Status.
        message: String,
    },
    /// The API did not answer.
    #[error("the API server does not answer: {message}")]
    Unavailable {
        /// What went wrong on the way.
        message: String,
    },
}
