//! Why a pod or a Job does not go on: one cause, its evidence, and what to do.

mod never_ending;

pub use never_ending::{NeverEnding, never_ending_helpers};
