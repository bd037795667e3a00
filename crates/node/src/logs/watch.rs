//! One inotify instance for all who follow logs, since a user has few of them.
//!
//! A follower is only told that something happened in its directory and looks for itself: a lost or merged event costs nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Why a directory cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel gives no inotify instance.
    #[error(
        "cannot follow logs: no inotify instance\nhint: close programs that watch files, or raise `sysctl fs.inotify.max_user_instances`"
    )]
    Instance(#[source] io::Error),
    /// The kernel takes no watch for the directory.
    #[error("cannot watch `{}`\nhint: if it exists, raise `sysctl fs.inotify.max_user_watches`", path.display())]
    Directory {
        /// Which directory.
        path: PathBuf,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
}

/// Watches directories for whoever subscribes. Its task ends when it is dropped.
#[derive(Debug)]
pub struct DirectoryWatches {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// A subscription to one directory; it ends when it is dropped.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    watch: i32,
    notify: Arc<Notify>,
}

#[derive(Debug)]
struct Shared {
    /// An inotify instance. tokio has no type for one; a pipe's end is what it polls and reads in the same way.
    inotify: pipe::Receiver,
    /// Who is to be told, by watch descriptor: the kernel gives one for each directory, however often it is asked.
    subscribers: Mutex<BTreeMap<i32, Vec<Arc<Notify>>>>,
}

impl DirectoryWatches {
    /// Starts with no directory. Needs a tokio runtime.
    pub fn start() -> Result<Self, WatchError> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|instance| pipe::Receiver::from_file_unchecked(instance.into()))
            .map_err(WatchError::Instance)?;
        let shared = Arc::new(Shared { inotify, subscribers: Mutex::default() });
        let task = tokio::spawn(dispatch(Arc::clone(&shared)));
        Ok(DirectoryWatches { shared, task })
    }

    /// Tells of every write, creation and renaming in a directory from here on.
    pub fn subscribe(&self, directory: &Path) -> Result<Subscription, WatchError> {
        self.add(directory, Arc::new(Notify::new()))
    }

    /// As [`DirectoryWatches::subscribe`], told through another subscription.
    pub fn subscribe_through(&self, other: &Subscription, directory: &Path) -> Result<Subscription, WatchError> {
        self.add(directory, Arc::clone(&other.notify))
    }

    fn add(&self, directory: &Path, notify: Arc<Notify>) -> Result<Subscription, WatchError> {
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        // Locked around the system call too, so that the end of another subscription cannot take the same watch away in between.
        let mut subscribers = self.shared.lock();
        let watch = inotify::add_watch(&self.shared.inotify, directory, flags)
            .map_err(|error| WatchError::Directory { path: directory.to_owned(), source: error.into() })?;
        subscribers.entry(watch).or_default().push(Arc::clone(&notify));
        Ok(Subscription { shared: Arc::clone(&self.shared), watch, notify })
    }
}

impl Drop for DirectoryWatches {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Subscription {
    /// Waits until something has happened since this was last called.
    pub async fn changed(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.shared.lock();
        let Some(list) = subscribers.get_mut(&self.watch) else { return };
        list.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
        if list.is_empty() {
            subscribers.remove(&self.watch);
            // Fails if the directory is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.shared.inotify, self.watch);
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Vec<Arc<Notify>>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event) {
        let subscribers = self.lock();
        if event.overflowed {
            subscribers.values().flatten().for_each(|notify| notify.notify_one());
        } else if let Some(list) = subscribers.get(&event.watch) {
            list.iter().for_each(|notify| notify.notify_one());
        }
    }
}

async fn dispatch(shared: Arc<Shared>) {
    // One event with the longest name takes 272 bytes.
    let mut buffer = [0; 8192];
    loop {
        let read = match shared.inotify.readable().await {
            Ok(()) => shared.inotify.try_read(&mut buffer),
            Err(error) => Err(error),
        };
        match read {
            Ok(length) => events(buffer.get(..length).unwrap_or_default()).for_each(|event| shared.tell(event)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::error!(%error, "inotify cannot be read; logs are followed no further");
                return;
            }
        }
    }
}

/// What a follower needs of an event of inotify(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    watch: i32,
    /// The kernel dropped events, of any watch.
    overflowed: bool,
}

/// The events in what was read: each is a watch, a mask, a cookie and the length of the name behind them.
fn events(mut bytes: &[u8]) -> impl Iterator<Item = Event> {
    std::iter::from_fn(move || {
        let (watch, rest) = bytes.split_first_chunk::<4>()?;
        let (mask, rest) = rest.split_first_chunk::<4>()?;
        let (_cookie, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        bytes = rest.get(usize::try_from(u32::from_ne_bytes(*length)).ok()?..)?;
        let overflowed = u32::from_ne_bytes(*mask) & ReadFlags::QUEUE_OVERFLOW.bits() != 0;
        Some(Event { watch: i32::from_ne_bytes(*watch), overflowed })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    const DEADLINE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn each_subscriber_of_a_directory_is_told() -> Result {
        let directory = tempfile::tempdir()?;
        let watches = DirectoryWatches::start()?;
        let (first, second) = (watches.subscribe(directory.path())?, watches.subscribe(directory.path())?);
        std::fs::write(directory.path().join("a"), "x")?;
        tokio::time::timeout(DEADLINE, first.changed()).await?;
        tokio::time::timeout(DEADLINE, second.changed()).await?;
        drop(first);
        std::fs::write(directory.path().join("b"), "x")?;
        tokio::time::timeout(DEADLINE, second.changed()).await?;
        Ok(())
    }

    #[test]
    fn events_are_told_apart_by_the_length_of_their_names() {
        let event = |watch: i32, mask: u32, name: &[u8]| {
            let numbers = [watch.to_ne_bytes(), mask.to_ne_bytes(), [0; 4], (name.len() as u32).to_ne_bytes()];
            [numbers.concat(), name.to_vec()].concat()
        };
        let bytes = [event(1, 2, b"a\0\0\0"), event(-1, 0x4000, b""), event(7, 0x100, b"")].concat();
        let expected = [(1, false), (-1, true), (7, false)].map(|(watch, overflowed)| Event { watch, overflowed });
        assert_eq!(events(&bytes).collect::<Vec<_>>(), expected);
        assert_eq!(events(bytes.get(..19).unwrap_or_default()).count(), 0);
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_is_named() -> Result {
        let watches = DirectoryWatches::start()?;
        let error = watches.subscribe(Path::new("/does/not/exist")).err().ok_or("it was watched")?;
        assert!(error.to_string().starts_with("cannot watch `/does/not/exist`"), "{error}");
        Ok(())
    }
}
