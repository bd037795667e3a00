//! Warnings.
