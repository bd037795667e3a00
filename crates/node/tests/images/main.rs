//! The image store through its public surface: loading, pulling, sharing, removing, and what becomes of all that is wrong.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "../support/image_builder.rs"]
mod image_builder;

mod fake_registry;
mod load;
mod pull;
mod scene;
mod store;
mod wrong;
