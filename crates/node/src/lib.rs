//! Placeholder.

pub mod images;
pub mod volumes;
pub mod runtime;
