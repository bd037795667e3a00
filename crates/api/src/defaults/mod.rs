//! What the API server fills into an object that leaves it out.
//!
//! One function per kind, each whole and stable: what a second call finds it leaves alone, or clients that compare would
//! patch for ever.
//! They run on what a client sent and before validation.
//! They do not do what needs more than the object: see [`crate::strategy`] for what is set when an object is created, and
//! [`crate::admission`] for what needs other objects.
//!
//! The rules are L-110, L-111, A-155 to A-160, J-1 to J-12 and J-127; Kubernetes keeps them in `pkg/apis/*/v1/defaults.go`.

mod apps;
mod batch;
mod container;
mod core;
mod image;
mod pod;
mod probe;
mod resources;
mod service;
mod volume;

pub use apps::{daemon_set, deployment, replica_set, replication_controller, stateful_set};
pub use batch::{cron_job, job};
pub use core::{
    config_map, endpoint_slice, endpoints, event, limit_range, namespace, node, persistent_volume,
    persistent_volume_claim, pod_template, priority_class, resource_quota, secret, service_account, storage_class,
};
pub use image::{ImageTag, image_tag};
pub use pod::{pod, pod_spec};
pub(crate) use service::is_externally_accessible;
pub use service::service;
