//! The HTTP front: what clients send becomes calls of the registry, what comes back becomes answers.
//!
//! - `server`: connections, TLS, limits; `front`: from a request to an answer
//! - pure parts: `request_info`, `query`, `negotiate`, `json`, `protobuf`, `discovery`
//! - `resources`: the verbs on resources; `watch`: the answer that goes on; `present` and `table`: how objects look
//! - `reviews`: questions about rights; `pods`: logs and streams of pods; `tokens`: service account tokens
//! - `openapi`, `schemas`: the documents that clients check manifests by

mod body;
mod discovery;
mod front;
mod health;
mod json;
mod negotiate;
mod openapi;
mod patch;
mod pods;
mod present;
pub mod protobuf;
mod query;
pub mod request_info;
mod resources;
mod respond;
mod reviews;
mod schemas;
mod server;
mod table;
mod tokens;
mod watch;
mod yaml;

pub use front::{ServerOptions, VersionInfo};
pub use server::Server;
