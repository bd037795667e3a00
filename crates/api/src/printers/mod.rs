//! What `kubectl get` shows of objects: the columns that the server fills (Kubernetes: pkg/printers/internalversion).

pub mod job;
pub mod pod;

pub use job::{JobRow, job_row};
pub use pod::{PodRow, pod_row};
