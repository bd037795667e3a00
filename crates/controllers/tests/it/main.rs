//! The controllers against a virtual store: rule by rule, then at random.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![expect(unreachable_pub, reason = "the modules of one test binary are public to each other")]

mod job_basic;
mod purity;
mod scheduling;
mod store;
mod world;
