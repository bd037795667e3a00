//! What a manifest or a running pod lacks, and how to mend it: data in, findings out.
//!
//! This crate reads objects and says what they mean; it opens no file, asks no server and knows no clock.
//! [`explain`] looks at what runs, [`knowledge`] knows the helpers that people run beside their apps.

pub mod explain;
pub mod knowledge;
