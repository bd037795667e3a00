//! The real world below a pod: the agent that drives the lifecycle engine on one machine, and all that it acts with.
//!
//! It decides nothing about a pod's life: `lifecycle` does, and is told here what happened and obeyed.
//! It knows no API server: what it needs of one is the trait in [`cluster`].
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the loop: inputs to the engine, effects to the world |
//! | [`cluster`] | what the node needs of an API |
//! | [`container`] | from a pod's spec and an image to what the runtime is asked for |
//! | [`probe`], [`hook`] | attempts at a pod's probes and lifecycle hooks |
//! | [`images`], [`volumes`] | what containers are made of and what they mount |
//! | [`runtime`] | the shims: who makes containers and is their parent |
//! | [`logs`] | what containers have written |
//! | [`paths`] | where it all lies on disk |
//!
//! Read [`agent`] first.

pub mod agent;
pub mod cgroup;
pub mod cluster;
pub mod container;
pub mod hook;
pub mod images;
pub mod logs;
pub mod paths;
pub mod probe;
pub mod runtime;
pub mod shim;
mod sys;
pub mod volumes;
mod wording;

pub use agent::remove_everything;
