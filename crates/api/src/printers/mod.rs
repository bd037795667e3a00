//! What `kubectl get` shows of objects: the columns that the server fills (Kubernetes: pkg/printers/internalversion).
//!
//! [`pod_row`] and [`job_row`] are what a pod and a Job say of themselves in words; [`Printer`] has columns and cells of every kind.

mod batch;
mod core;
mod events;
pub mod job;
mod network;
mod node;
pub mod pod;
mod policy;
mod rbac;
mod table;
mod words;

pub use job::{JobRow, job_row};
pub use pod::{PodRow, pod_row};
pub use table::{Column, Completion, Printer, Row};

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Printer;

    /// Compares the cells of an object of the core group, five minutes into 2026.
    pub(super) fn check(kind: &str, object: Value, wanted: Value) {
        check_group("", kind, object, wanted);
    }

    /// Compares the cells of an object of any group, five minutes into 2026.
    pub(super) fn check_group(group: &str, kind: &str, object: Value, wanted: Value) {
        let now = "2026-01-01T00:05:00Z".parse().unwrap_or_default();
        let row = Printer::of(group, kind).row(&object, now).map(|row| Value::from(row.cells));
        assert_eq!(row.map_err(|error| error.to_string()), Ok(wanted));
    }
}
