//! Small files on disk: written whole or not at all, read with a bound.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest file that is read into memory.
const READ_MAX: u64 = 64 << 20;

/// Why a file of the runtime's could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} `{path}`: {source}")]
pub struct FileError {
    /// What was to be done.
    pub action: &'static str,
    /// With which file.
    pub path: std::path::PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was to be done with which file.
    pub(crate) fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |source| FileError { action, path, source }
    }
}

/// Whether a file must survive a power failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It must: it says how something ended, and nobody else knows.
    Durable,
    /// It need not: what it describes does not survive a power failure either.
    UntilReboot,
}

/// Writes a value as JSON; readers see the old file or the new one, never a part.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, durability: Durability) -> Result<(), FileError> {
    let text = serde_json::to_vec(value).map_err(|error| FileError::of("encode", path)(error.into()))?;
    let temporary = path.with_extension("new");
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(&text)?;
        if durability == Durability::Durable {
            file.sync_data()?;
        }
        fs::rename(&temporary, path)
    };
    write().map_err(FileError::of("write", path))
}

/// Reads a value from JSON; `None` if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FileError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::of("read", path)(error)),
    };
    let mut text = Vec::new();
    file.take(READ_MAX).read_to_end(&mut text).map_err(FileError::of("read", path))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| FileError::of("decode", path)(error.into()))
}

/// Removes a directory with all in it; one that is gone is no error.
pub(crate) fn remove_directory(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::of("remove", path)(error)),
        _ => Ok(()),
    }
}
