//! The log of one run of a container, as `kubectl logs` asks for it.

use std::io;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::entry::LogEntry;
use super::file::LogFile;
use super::render::{LogOptions, Renderer};
use super::watch::{DirectoryWatches, Subscription, WatchError};

/// A reader is given about that much at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file is not there: the container has not been created, or its logs have been removed.
    #[error("there is no log `{}`", path.display())]
    Missing {
        /// Which file.
        path: PathBuf,
    },
    /// The disk does not give it.
    #[error("failed to read the log `{}`", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the disk says.
        #[source]
        source: io::Error,
    },
    /// It cannot be followed.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// A log being read.
#[derive(Debug)]
pub struct ContainerLog {
    path: PathBuf,
    file: LogFile,
    renderer: Renderer,
    /// How many lines of the file are still to be read, where that was fixed at the beginning.
    lines_left: Option<u64>,
    following: Option<Following>,
}

#[derive(Debug)]
struct Following {
    subscription: Subscription,
    ended: CancellationToken,
}

impl ContainerLog {
    /// Opens a log file.
    ///
    /// With [`LogOptions::follow`] the reading goes on until `ended`, which says that the container has ended and nothing will be written any more.
    pub async fn open(
        path: &Path,
        options: &LogOptions,
        watches: &DirectoryWatches,
        ended: CancellationToken,
    ) -> Result<ContainerLog, LogError> {
        let mut file = LogFile::open(path).await.map_err(|error| failed(path, error))?;
        // Subscribed before the first read, so that nothing written in between is missed.
        let following = match path.parent() {
            Some(directory) if options.follow => Some(Following { subscription: watches.subscribe(directory)?, ended }),
            _ => None,
        };
        if let Some(lines) = options.tail_lines {
            file.seek_to_tail(lines).await.map_err(|error| failed(path, error))?;
        }
        let lines_left = if following.is_some() { None } else { options.tail_lines };
        Ok(ContainerLog { path: path.to_owned(), file, renderer: Renderer::new(options), lines_left, following })
    }

    /// The next bytes to show, `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LogError> {
        loop {
            // Asked before reading: what a container wrote before its end is in the file by then.
            let has_ended = self.following.as_ref().is_none_or(|following| following.ended.is_cancelled());
            let mut shown = Vec::new();
            let at_end = self.read(&mut shown).await.map_err(|error| failed(&self.path, error))?;
            if !shown.is_empty() {
                return Ok(Some(shown));
            }
            if self.renderer.is_exhausted() || self.lines_left == Some(0) {
                return Ok(None);
            }
            if !at_end || self.turn_over().await? {
                continue;
            }
            if has_ended {
                return Ok(self.last_words());
            }
            if let Some(following) = &self.following {
                tokio::select! {
                    () = following.subscription.changed() => {}
                    () = following.ended.cancelled() => {}
                }
            }
        }
    }

    /// Reads until there is enough to show; true if the file has no more.
    async fn read(&mut self, shown: &mut Vec<u8>) -> io::Result<bool> {
        while shown.len() < CHUNK_BYTES && !self.renderer.is_exhausted() && self.lines_left != Some(0) {
            let Some(line) = self.file.next_line().await? else { return Ok(true) };
            self.lines_left = self.lines_left.map(|lines| lines - 1);
            self.render(&line, shown);
        }
        Ok(false)
    }

    /// A line that was cut off by a crash is shown as far as it goes.
    fn last_words(&mut self) -> Option<Vec<u8>> {
        let line = self.file.take_begun();
        let mut shown = Vec::new();
        if !line.is_empty() {
            self.render(&line, &mut shown);
        }
        (!shown.is_empty()).then_some(shown)
    }

    fn render(&mut self, line: &[u8], shown: &mut Vec<u8>) {
        match LogEntry::parse(line) {
            Ok(entry) => self.renderer.render(&entry, shown),
            Err(error) => tracing::debug!(path = %self.path.display(), %error, "skipped a line of a log"),
        }
    }

    async fn turn_over(&mut self) -> Result<bool, LogError> {
        if self.following.is_none() {
            return Ok(false);
        }
        self.file.turn_over().await.map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, source: io::Error) -> LogError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => LogError::Missing { path },
        _ => LogError::Read { path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    const DEADLINE: Duration = Duration::from_secs(10);
    const FIRST: &str = "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stdout F two\n";
    const SECOND: &str = "2026-01-01T00:00:03Z stdout F three\n";

    async fn rest(log: &mut ContainerLog) -> std::result::Result<String, Box<dyn std::error::Error>> {
        let mut all = Vec::new();
        while let Some(bytes) = tokio::time::timeout(DEADLINE, log.next()).await?? {
            all.extend(bytes);
        }
        Ok(String::from_utf8(all)?)
    }

    async fn next(log: &mut ContainerLog) -> std::result::Result<String, Box<dyn std::error::Error>> {
        let bytes = tokio::time::timeout(DEADLINE, log.next()).await??;
        Ok(String::from_utf8(bytes.ok_or("the log has ended")?)?)
    }

    #[tokio::test]
    async fn without_follow_a_log_ends_with_its_file() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        std::fs::write(&path, format!("{FIRST}garbage\n{SECOND}2026-01-01T00:00:04Z stdout P cut"))?;
        let watches = DirectoryWatches::start()?;
        let mut log = ContainerLog::open(&path, &LogOptions::default(), &watches, CancellationToken::new()).await?;
        assert_eq!(rest(&mut log).await?, "one\ntwo\nthree\ncut");
        Ok(())
    }

    #[tokio::test]
    async fn the_tail_counts_lines_of_the_file() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        std::fs::write(&path, format!("{FIRST}{SECOND}"))?;
        let watches = DirectoryWatches::start()?;
        for (tail, expected) in [(0, ""), (1, "three\n"), (2, "two\nthree\n"), (9, "one\ntwo\nthree\n")] {
            let options = LogOptions { tail_lines: Some(tail), ..LogOptions::default() };
            let mut log = ContainerLog::open(&path, &options, &watches, CancellationToken::new()).await?;
            assert_eq!(rest(&mut log).await?, expected);
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_follower_sees_what_is_written_until_the_container_has_ended() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        let mut writer = std::fs::File::create(&path)?;
        writer.write_all(FIRST.as_bytes())?;
        let (watches, ended) = (DirectoryWatches::start()?, CancellationToken::new());
        let options = LogOptions { follow: true, tail_lines: Some(1), ..LogOptions::default() };
        let mut log = ContainerLog::open(&path, &options, &watches, ended.clone()).await?;
        assert_eq!(next(&mut log).await?, "two\n");
        writer.write_all(SECOND.as_bytes())?;
        assert_eq!(next(&mut log).await?, "three\n");
        writer.write_all(FIRST.as_bytes())?;
        ended.cancel();
        assert_eq!(rest(&mut log).await?, "one\ntwo\n");
        Ok(())
    }

    #[tokio::test]
    async fn a_follower_goes_over_to_the_new_file_after_rotation() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        std::fs::write(&path, FIRST)?;
        let (watches, ended) = (DirectoryWatches::start()?, CancellationToken::new());
        let options = LogOptions { follow: true, ..LogOptions::default() };
        let mut log = ContainerLog::open(&path, &options, &watches, ended.clone()).await?;
        assert_eq!(next(&mut log).await?, "one\ntwo\n");
        std::fs::rename(&path, directory.path().join("0.log.20260101-000000"))?;
        std::fs::write(&path, SECOND)?;
        assert_eq!(next(&mut log).await?, "three\n");
        ended.cancel();
        assert_eq!(rest(&mut log).await?, "");
        Ok(())
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_is_named() -> Result {
        let watches = DirectoryWatches::start()?;
        let path = Path::new("/does/not/exist/0.log");
        let opened = ContainerLog::open(path, &LogOptions::default(), &watches, CancellationToken::new()).await;
        assert_eq!(opened.err().map(|error| error.to_string()), Some("there is no log `/does/not/exist/0.log`".into()));
        Ok(())
    }
}
