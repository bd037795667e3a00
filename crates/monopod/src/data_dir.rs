//! Where monopod keeps what it keeps: one directory, and the layout below it.
//!
//! Images are shared by all that use the directory. Each `run` has a node directory of its own, so that two can work side by side; its owner holds a lock on it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::failure::Explained;

/// The directory that `--data-dir` names.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
}

/// A node's directory, owned while this lives.
#[derive(Debug)]
pub(crate) struct NodeDir {
    path: PathBuf,
    // Held for its lock: the kernel gives it up when the process ends, however it ends.
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there (mode 0700: it holds Secrets).
    pub(crate) fn open(root: &Path) -> anyhow::Result<DataDir> {
        let root = std::path::absolute(root).with_context(|| format!("cannot resolve `{}`", root.display()))?;
        make_private_dir(&root).map_err(|error| {
            Explained::machine(
                format!("cannot make the data directory `{}`: {error}", root.display()),
                "run as root, or name a directory of yours with `--data-dir` or $MONOPOD_DATA_DIR",
            )
        })?;
        Ok(DataDir { root })
    }

    /// The path of the directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where images and their layers are.
    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Where the directories of single runs are.
    fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Makes a directory for one run, and locks it.
    pub(crate) fn new_run(&self) -> anyhow::Result<NodeDir> {
        make_private_dir(&self.runs()).with_context(|| format!("cannot make `{}`", self.runs().display()))?;
        for number in 0u32.. {
            let path = self.runs().join(format!("{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return NodeDir::lock(path)?.ok_or_else(|| anyhow::anyhow!("a new directory is locked")),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| format!("cannot make `{}`", path.display())),
            }
        }
        Err(anyhow::anyhow!("no name is left for a run in `{}`", self.runs().display()))
    }

    /// The directories of all runs, also of those that go on.
    pub(crate) fn all_runs(&self) -> anyhow::Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(self.runs()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", self.runs().display())),
        };
        entries
            .map(|entry| Ok(entry.with_context(|| format!("cannot read `{}`", self.runs().display()))?.path()))
            .collect()
    }

    /// Takes the directories of runs whose owner has died.
    pub(crate) fn abandoned_runs(&self) -> anyhow::Result<Vec<NodeDir>> {
        let mut abandoned = Vec::new();
        for path in self.all_runs()? {
            abandoned.extend(NodeDir::lock(path)?);
        }
        Ok(abandoned)
    }
}

impl NodeDir {
    /// Locks a node's directory; `None` if somebody else owns it.
    fn lock(path: PathBuf) -> anyhow::Result<Option<NodeDir>> {
        let lock = File::create(path.join("lock")).with_context(|| format!("cannot lock `{}`", path.display()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(NodeDir { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock `{}`", path.display())),
        }
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory; to be called when nothing in it is used any more.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(&self.path).with_context(|| format!("cannot remove `{}`", self.path.display()))
    }
}

fn make_private_dir(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
