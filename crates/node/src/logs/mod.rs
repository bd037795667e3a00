//! What containers have written: CRI log files, read from their end or their beginning, once or as they grow.
//!
//! Shims write these files; nothing here writes, rotates or removes them.
//! Followers sleep until the kernel tells of a write, and never poll.
//!
//! Next: [`ContainerLog`] for `kubectl logs`, [`PodLogs`] for the live output of a whole pod, [`LogEntry`] for the format.

mod container;
mod entry;
mod file;
mod pod;
mod render;
mod tail;
mod watch;

pub use container::{ContainerLog, LogError};
pub use entry::{EntryError, LogEntry, Stream};
pub use pod::{PodLogLine, PodLogs};
pub use render::{LogOptions, Renderer};
pub use watch::{DirectoryWatches, Subscription, WatchError};
