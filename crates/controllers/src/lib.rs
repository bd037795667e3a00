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
//! All is level-triggered: a driver that starts anew passes the objects that are stored, then [`Input::Synced`], and the controllers go on.
//!
//! The rules are those of Kubernetes 1.36; `J-...` in comments and test names are their numbers in the project's specification.
//! Start reading at [`input`] and [`write`], then `runner` and `job`.

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
