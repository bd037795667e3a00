//! The controllers of a cluster as pure functions: from what is stored and the time to what to write.
//!
//! [`Controllers`] is given `(now, Input)` and yields [`Write`]s.
//! It owns no clock, socket, file, task, thread or random source.
//! The node's server, the simulator and the tests are drivers of this same object.
//!
//! A driver does four things, over and over:
//! 1. it passes changes of objects and answers with [`Controllers::handle`];
//! 2. it takes every [`Write`] from [`Controllers::poll_write`] and carries it out;
//! 3. it answers each write exactly once with [`Input::Answered`];
//! 4. it calls [`Controllers::handle_timeout`] when the time of [`Controllers::poll_timeout`] has come.
//!
//! ```
//! use controllers::{Action, Config, Controllers, Input, Outcome};
//! use jiff::Timestamp;
//! use k8s_openapi::api::batch::v1::Job;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let job: Job = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "j", "namespace": "default", "uid": "1", "resourceVersion": "1"},
//!     "spec": {
//!         "parallelism": 1, "completions": 1, "backoffLimit": 6,
//!         "selector": {"matchLabels": {"app": "j"}},
//!         "template": {
//!             "metadata": {"labels": {"app": "j"}},
//!             "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
//!         },
//!     },
//! }))?;
//! let now = Timestamp::UNIX_EPOCH;
//! let mut controllers = Controllers::new(Config::default());
//! controllers.handle(now, Input::Applied(job.into()))?;
//! controllers.handle(now, Input::Synced)?;
//! let write = controllers.poll_write().ok_or("nothing to write")?;
//! assert!(matches!(write.action, Action::Create(_)));
//! // Here the driver creates the pod, and answers with what is stored: `Outcome::Stored(pod)`.
//! # let Action::Create(pod) = write.action else { return Err("no creation".into()) };
//! # let mut pod = pod;
//! # if let controllers::Object::Pod(pod) = &mut pod { std::sync::Arc::make_mut(pod).metadata.uid = Some("2".into()); }
//! controllers.handle(now, Input::Answered { write: write.id, outcome: Outcome::Stored(pod) })?;
//! # Ok(())
//! # }
//! ```
//!
//! All is level-triggered: a driver that starts anew passes the objects that are stored, then [`Input::Synced`], and the controllers go on.
//!
//! The rules are those of Kubernetes 1.36; `J-...` in comments and test names are their numbers in the project's specification.
//! Start reading at [`Input`] and [`Action`], then the modules `runner` (what all controllers share) and `job`.

mod cache;
mod config;
mod controllers;
mod cron_job;
mod endpoints;
mod garbage;
mod input;
mod job;
mod namespaces;
mod object;
mod pod_gc;
mod provisions;
mod queue;
mod runner;
mod scheduler;
mod time;
mod ttl;
mod write;

pub use cache::Cache;
pub use config::{Config, ControllerName, JobConfig, ServedKind};
pub use controllers::Controllers;
pub use cron_job::SCHEDULED_TIMESTAMP;
pub use input::{Input, InputError};
pub use job::{COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, TRACKING_FINALIZER};
pub use object::{Kind, Object, OtherObject, Target};
pub use write::{
    Action, EventRecord, MetadataChange, Outcome, PodStatusPatch, Propagation, Refusal, RefusalCause, Write, WriteId,
};
