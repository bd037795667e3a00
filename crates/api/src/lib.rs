//! Kubernetes' objects and their laws.
//!
//! The types are those of `k8s-openapi`; here is what the types don't say: how they are written ([`manifest`]), what the server fills in ([`defaults`], [`admission`]), what it refuses ([`validation`]) and warns of ([`warnings`]), what it sets itself ([`strategy`]), and how `kubectl` shows them ([`printers`]).
//! No I/O, no clock, no async: time and ids are passed in.

pub mod absent;
pub mod admission;
pub mod containers;
pub mod cron;
pub mod decode;
pub mod defaults;
mod equality;
pub mod events;
pub mod field;
pub mod manifest;
pub mod merge;
pub mod oom;
pub mod printers;
pub mod qos;
pub mod quantity;
pub mod resources;
pub mod selector;
pub mod strategy;
pub mod time;
mod unified_diff;
pub mod validation;
pub mod warnings;
