//! A log file that grows, and is replaced by a new one of the same name when it is rotated.

use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncSeekExt, BufReader};

use super::tail::tail_offset;

/// A line of the format is 16 KiB and a little; what is longer is garbage and is given out in pieces.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads whole lines of a file.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    reader: BufReader<File>,
    identity: (u64, u64),
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
    /// The file that has taken this one's name.
    successor: Option<Box<LogFile>>,
}

impl LogFile {
    /// Opens the file at its beginning.
    pub(super) async fn open(path: &Path) -> io::Result<LogFile> {
        let file = File::open(path).await?;
        let identity = identity(&file.metadata().await?);
        Ok(LogFile {
            path: path.to_owned(),
            reader: BufReader::with_capacity(64 * 1024, file),
            identity,
            begun: Vec::new(),
            successor: None,
        })
    }

    /// Goes to where the last lines begin.
    pub(super) async fn seek_to_tail(&mut self, lines: u64) -> io::Result<()> {
        let offset = tail_offset(self.reader.get_mut(), lines).await?;
        self.reader.seek(SeekFrom::Start(offset)).await?;
        Ok(())
    }

    /// The next whole line with its end, `None` if there is none yet.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(None);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let length = newline.map_or(available.len(), |index| index + 1);
            self.begun.extend(available.iter().take(length));
            self.reader.consume(length);
            if newline.is_some() || self.begun.len() > LINE_BYTES_MAX {
                return Ok(Some(std::mem::take(&mut self.begun)));
            }
        }
    }

    /// What stands after the last whole line; empty in most cases.
    pub(super) fn take_begun(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.begun)
    }

    /// Goes over to the file that has taken this one's name, once this one is read to its end; true if there may be more to read.
    ///
    /// The writer goes on with the old file until it has opened the new one.
    /// So the old one is complete only when the new one is there, and is read once more after that.
    pub(super) async fn turn_over(&mut self) -> io::Result<bool> {
        if let Some(successor) = self.successor.take() {
            *self = *successor;
            return Ok(true);
        }
        if !self.is_replaced().await? {
            return Ok(false);
        }
        match LogFile::open(&self.path).await {
            Ok(file) => {
                self.successor = Some(Box::new(file));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_replaced(&self) -> io::Result<bool> {
        match tokio::fs::metadata(&self.path).await {
            Ok(metadata) => Ok(identity(&metadata) != self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    async fn drain(file: &mut LogFile) -> io::Result<String> {
        let mut all = Vec::new();
        while let Some(line) = file.next_line().await? {
            all.extend(line);
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    #[tokio::test]
    async fn a_line_is_given_once_its_end_is_written() -> Result {
        use std::io::Write;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        let mut writer = std::fs::File::create(&path)?;
        let mut file = LogFile::open(&path).await?;
        writer.write_all(b"one\ntw")?;
        assert_eq!(drain(&mut file).await?, "one\n");
        writer.write_all(b"o\n")?;
        assert_eq!(drain(&mut file).await?, "two\n");
        assert_eq!(file.take_begun(), b"");
        Ok(())
    }

    #[tokio::test]
    async fn a_rotated_file_is_read_to_its_end_before_the_new_one() -> Result {
        use std::io::Write;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("0.log");
        let mut old = std::fs::File::create(&path)?;
        let mut file = LogFile::open(&path).await?;
        old.write_all(b"one\n")?;
        assert_eq!(drain(&mut file).await?, "one\n");
        std::fs::rename(&path, directory.path().join("0.log.20260101"))?;
        assert!(!file.turn_over().await?);
        old.write_all(b"two\n")?;
        std::fs::write(&path, "three\n")?;
        assert!(file.turn_over().await?);
        assert_eq!(drain(&mut file).await?, "two\n");
        assert!(file.turn_over().await?);
        assert_eq!(drain(&mut file).await?, "three\n");
        assert!(!file.turn_over().await?);
        Ok(())
    }
}
