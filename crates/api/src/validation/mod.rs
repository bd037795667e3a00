//! What the API server refuses, all of it at once: field paths, kinds of error, wording and order are Kubernetes' own.
//!
//! One public function per kind and operation, pure and without side effects.
//! They expect objects that were defaulted ([`crate::defaults`]) and prepared ([`crate::strategy`]), as the server does it
//! before it validates; without that they report what is missing.
//! Each gives the errors in the order in which Kubernetes finds them, maps in the order of their keys.
//!
//! The rules are L-1201 to L-1232, J-26 to J-60 and; Kubernetes keeps them in `pkg/apis/*/validation`.
//! Start reading at [`validate_pod`].

pub(crate) mod addresses;
mod claim;
mod config_map;
mod cron_job;
mod endpoints;
pub(crate) mod errors;
mod event;
mod job;
pub(crate) mod labels;
mod meta;
pub(crate) mod names;
mod paths;
pub(crate) mod pod;
mod secret;
mod service;
mod service_update;
mod signer;
mod small_kinds;
mod workload;

pub use claim::validate_persistent_volume_claim;
pub use config_map::{validate_config_map, validate_config_map_update};
pub use cron_job::{validate_cron_job, validate_cron_job_update};
pub use endpoints::{validate_endpoints, validate_endpoints_update};
pub use event::{validate_core_event, validate_event, validate_event_update};
pub use job::{IndexListError, count_indexes, validate_job, validate_job_status_update, validate_job_update};
pub use pod::{
    validate_binding, validate_ephemeral_containers_update, validate_pod, validate_pod_resize,
    validate_pod_status_update, validate_pod_update,
};
pub use secret::{validate_secret, validate_secret_update};
pub use service::validate_service;
pub use service_update::{validate_service_status_update, validate_service_update};
pub use small_kinds::{
    validate_lease, validate_lease_update, validate_metadata, validate_metadata_update, validate_namespace,
    validate_namespace_finalize_update, validate_namespace_status_update, validate_namespace_update,
    validate_priority_class, validate_priority_class_update, validate_service_account, validate_service_account_update,
};
pub use workload::{
    validate_daemon_set, validate_deployment, validate_replica_set, validate_replication_controller,
    validate_stateful_set,
};
