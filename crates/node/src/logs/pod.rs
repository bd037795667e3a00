//! The output of all containers of a pod, as it is written: what `monopod run` shows.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::container::LogError;
use super::entry::LogEntry;
use super::file::LogFile;
use super::watch::{DirectoryWatches, Subscription};

/// So many lines are read ahead of the caller at most.
const LINES_AHEAD_MAX: usize = 1024;

/// A piece of output and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLogLine {
    /// The container's name.
    pub container: String,
    /// Which run of it: its restart count.
    pub attempt: u32,
    /// What it wrote.
    pub entry: LogEntry,
}

/// Follows every container of a pod, from the first line on, through restarts and rotations.
#[derive(Debug)]
pub struct PodLogs {
    directory: PathBuf,
    watches: Arc<DirectoryWatches>,
    ended: CancellationToken,
    subscription: Subscription,
    containers: BTreeMap<String, Container>,
    lines: VecDeque<PodLogLine>,
}

#[derive(Debug)]
struct Container {
    _subscription: Subscription,
    logs: BTreeMap<u32, LogFile>,
    /// Runs before this one are read to their end.
    first_attempt: u32,
}

impl PodLogs {
    /// Follows the logs below a pod's log directory, which is made if it is missing, until `ended` says that no container writes any more.
    pub async fn follow(
        directory: &Path,
        watches: Arc<DirectoryWatches>,
        ended: CancellationToken,
    ) -> Result<PodLogs, LogError> {
        tokio::fs::create_dir_all(directory).await.map_err(|error| failed(directory, error))?;
        let subscription = watches.subscribe(directory)?;
        Ok(PodLogs {
            directory: directory.to_owned(),
            watches,
            ended,
            subscription,
            containers: BTreeMap::new(),
            lines: VecDeque::new(),
        })
    }

    /// The next piece of output, `None` at the end. Output of different containers comes in the order of its times as far as it is read together.
    pub async fn next(&mut self) -> Result<Option<PodLogLine>, LogError> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            // Asked before reading: what was written before the end is in the files by then.
            let has_ended = self.ended.is_cancelled();
            let mut again = self.discover().await?;
            for (name, container) in &mut self.containers {
                let path = self.directory.join(name);
                again |= container.read(name, &mut self.lines).await.map_err(|error| failed(&path, error))?;
            }
            self.lines.make_contiguous().sort_by_key(|line| line.entry.timestamp);
            if !self.lines.is_empty() || again {
                continue;
            }
            if has_ended {
                return Ok(None);
            }
            tokio::select! {
                () = self.subscription.changed() => {}
                () = self.ended.cancelled() => {}
            }
        }
    }

    /// Looks for containers and runs that were not there before; true if there are any.
    async fn discover(&mut self) -> Result<bool, LogError> {
        let directory = self.directory.clone();
        let mut found = false;
        for name in names(&directory).await.map_err(|error| failed(&directory, error))? {
            if !self.containers.contains_key(&name) {
                let path = directory.join(&name);
                if !tokio::fs::metadata(&path).await.is_ok_and(|metadata| metadata.is_dir()) {
                    continue;
                }
                let subscription = self.watches.subscribe_through(&self.subscription, &path)?;
                let container = Container { _subscription: subscription, logs: BTreeMap::new(), first_attempt: 0 };
                self.containers.insert(name, container);
            }
        }
        for (name, container) in &mut self.containers {
            let path = directory.join(name);
            found |= container.discover(&path).await.map_err(|error| failed(&path, error))?;
        }
        Ok(found)
    }
}

impl Container {
    async fn discover(&mut self, directory: &Path) -> io::Result<bool> {
        let mut found = false;
        for file in names(directory).await? {
            let Some(attempt) = file.strip_suffix(".log").and_then(|number| number.parse().ok()) else { continue };
            if attempt < self.first_attempt || self.logs.contains_key(&attempt) {
                continue;
            }
            match LogFile::open(&directory.join(file)).await {
                Ok(log) => {
                    self.logs.insert(attempt, log);
                    found = true;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads what is new; true if there may be more at once.
    async fn read(&mut self, name: &str, lines: &mut VecDeque<PodLogLine>) -> io::Result<bool> {
        let newest = self.logs.keys().next_back().copied();
        let mut again = false;
        let mut finished = Vec::new();
        for (attempt, log) in &mut self.logs {
            let before = lines.len();
            while lines.len() < LINES_AHEAD_MAX {
                let Some(line) = log.next_line().await? else { break };
                match LogEntry::parse(&line) {
                    Ok(entry) => lines.push_back(PodLogLine { container: name.to_owned(), attempt: *attempt, entry }),
                    Err(error) => tracing::debug!(container = name, %error, "skipped a line of a log"),
                }
            }
            if lines.len() >= LINES_AHEAD_MAX {
                return Ok(true);
            }
            let turned_over = log.turn_over().await?;
            again |= turned_over;
            // A container runs once at a time: a run that has a successor writes no more.
            if lines.len() == before && !turned_over && Some(*attempt) < newest {
                finished.push(*attempt);
            }
        }
        for attempt in finished {
            self.logs.remove(&attempt);
            self.first_attempt = self.first_attempt.max(attempt + 1);
        }
        Ok(again)
    }
}

async fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut entries = match tokio::fs::read_dir(directory).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

fn failed(path: &Path, source: io::Error) -> LogError {
    LogError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn line(second: u32, text: &str) -> String {
        format!("2026-01-01T00:00:{second:02}Z stdout F {text}\n")
    }

    async fn take(logs: &mut PodLogs, count: usize) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for _ in 0..count {
            let line = tokio::time::timeout(DEADLINE, logs.next()).await??.ok_or("the logs have ended")?;
            lines.push(format!("{} {} {}", line.container, line.attempt, String::from_utf8(line.entry.content)?));
        }
        Ok(lines)
    }

    #[tokio::test]
    async fn containers_and_restarts_are_followed_as_they_come() -> Result {
        let root = tempfile::tempdir()?;
        let pod = root.path().join("default_pod_uid");
        let (watches, ended) = (Arc::new(DirectoryWatches::start()?), CancellationToken::new());
        let mut logs = PodLogs::follow(&pod, watches, ended.clone()).await?;

        std::fs::create_dir(pod.join("app"))?;
        let mut app = std::fs::File::create(pod.join("app/0.log"))?;
        app.write_all(line(1, "one").as_bytes())?;
        assert_eq!(take(&mut logs, 1).await?, ["app 0 one"]);

        app.write_all(line(3, "three").as_bytes())?;
        std::fs::create_dir(pod.join("proxy"))?;
        std::fs::write(pod.join("proxy/0.log"), line(2, "two"))?;
        let mut seen = take(&mut logs, 2).await?;
        seen.sort();
        assert_eq!(seen, ["app 0 three", "proxy 0 two"]);

        std::fs::write(pod.join("app/1.log"), line(4, "four"))?;
        assert_eq!(take(&mut logs, 1).await?, ["app 1 four"]);

        std::fs::write(pod.join("app/2.log"), line(5, "five"))?;
        ended.cancel();
        assert_eq!(take(&mut logs, 1).await?, ["app 2 five"]);
        assert_eq!(tokio::time::timeout(DEADLINE, logs.next()).await??, None);
        Ok(())
    }

    #[tokio::test]
    async fn what_is_read_together_comes_in_the_order_of_time() -> Result {
        let root = tempfile::tempdir()?;
        for (container, text) in [("a", line(2, "two")), ("b", line(1, "one") + &line(3, "three"))] {
            std::fs::create_dir(root.path().join(container))?;
            std::fs::write(root.path().join(container).join("0.log"), text)?;
        }
        let watches = Arc::new(DirectoryWatches::start()?);
        let mut logs = PodLogs::follow(root.path(), watches, CancellationToken::new()).await?;
        assert_eq!(take(&mut logs, 3).await?, ["b 0 one", "a 0 two", "b 0 three"]);
        Ok(())
    }
}
