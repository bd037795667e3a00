//! The controllers against a virtual store: rule by rule, then at random.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]
#![expect(unreachable_pub, reason = "the modules of one test binary are public to each other")]

mod collection;
mod cron_jobs;
mod dice;
mod garbage;
mod job_basic;
mod job_indexed;
mod job_policies;
mod job_random;
mod namespaces;
mod purity;
mod scheduling;
mod service_endpoints;
mod store;
mod whole;
mod world;
