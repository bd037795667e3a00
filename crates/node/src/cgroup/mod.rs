//! Control groups: found, made, limited, counted, emptied and removed, on v1, hybrid and v2 hosts.
//!
//! All code works on a root path that is given, so that it can be tested on recorded trees.
//! It knows nothing of pods: it is given paths and limits.
//! Next: [`Hierarchy::detect`], then `limits` for the files that are written and `kill` for how a cgroup is emptied.

mod device_filter;
mod kill;
mod limits;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use device_filter::{DeviceAccess, DeviceFilterError, DeviceRule};
pub(crate) use device_filter::{attach_device_filter, default_device_rules};
pub use usage::CgroupUsage;

/// The file that every cgroup directory of both versions has.
const PROCESSES_FILE: &str = "cgroup.procs";

/// How often a removal is tried again, and after how long.
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// What went wrong with a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// There is no cgroup file system at the root.
    #[error("no cgroup hierarchy found at `{root}`\nhint: mount cgroup2 there, or the v1 controllers below it")]
    NoHierarchy {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// A limit was asked for that needs a controller that is not there.
    #[error(
        "the limit on {what} needs the cgroup controller `{controller}`, which is not available at `{path}`\n\
         hint: enable it for this cgroup (boot parameters, `cgroup.subtree_control`, or `Delegate=` of the systemd unit), or leave the limit out"
    )]
    MissingController {
        /// The limit.
        what: &'static str,
        /// The controller's name.
        controller: &'static str,
        /// The cgroup.
        path: PathBuf,
    },
    /// A file or directory of the cgroup file system refused an operation.
    #[error("failed to {action} `{path}`: {source}")]
    Io {
        /// What was to be done.
        action: String,
        /// With what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Processes were still there after they had been killed.
    #[error(
        "{count} processes of cgroup `{path}` did not end within {seconds} s after SIGKILL (they may wait for a disk or a network file system)"
    )]
    StillRunning {
        /// The cgroup.
        path: PathBuf,
        /// How many.
        count: usize,
        /// How long was waited.
        seconds: u64,
    },
}

impl CgroupError {
    fn io(action: impl Into<String>, path: &Path, source: io::Error) -> Self {
        CgroupError::Io { action: action.into(), path: path.to_owned(), source }
    }
}

/// Which kind of hierarchy carries the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy for each controller; a hybrid host is one of these.
    V1,
    /// One hierarchy.
    V2,
}

/// The host's cgroup hierarchies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    V1 {
        /// The directory of each controller; controllers that are mounted together share one.
        controllers: BTreeMap<String, PathBuf>,
        /// Each directory once.
        directories: Vec<PathBuf>,
    },
    V2 {
        root: PathBuf,
    },
}

impl Hierarchy {
    /// Looks at what is mounted at `root`, usually `/sys/fs/cgroup`.
    pub fn detect(root: &Path) -> Result<Hierarchy, CgroupError> {
        if root.join("cgroup.controllers").exists() {
            return Ok(Hierarchy { kind: Kind::V2 { root: root.to_owned() } });
        }
        let controllers = v1_controllers(root)?;
        if controllers.is_empty() {
            return Err(CgroupError::NoHierarchy { root: root.to_owned() });
        }
        let directories: BTreeSet<PathBuf> = controllers.values().cloned().collect();
        Ok(Hierarchy { kind: Kind::V1 { controllers, directories: directories.into_iter().collect() } })
    }

    /// The version that carries the controllers.
    pub fn version(&self) -> CgroupVersion {
        match self.kind {
            Kind::V1 { .. } => CgroupVersion::V1,
            Kind::V2 { .. } => CgroupVersion::V2,
        }
    }

    /// The cgroup of the given path below the root; it need not exist.
    pub fn cgroup(&self, path: &str) -> Cgroup {
        Cgroup { hierarchy: self.clone(), path: PathBuf::from(path.trim_matches('/')) }
    }
}

/// Finds the controllers of v1 by their directories: `memory`, or `cpu,cpuacct` for several in one.
fn v1_controllers(root: &Path) -> Result<BTreeMap<String, PathBuf>, CgroupError> {
    let mut controllers = BTreeMap::new();
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(controllers),
        Err(error) => return Err(CgroupError::io("list", root, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| CgroupError::io("list", root, error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // The v2 hierarchy of a hybrid host and systemd's own hierarchy carry no controllers.
        if name == "unified" || name == "systemd" {
            continue;
        }
        // A symbolic link such as `cpu` -> `cpu,cpuacct` leads to the same directory.
        let Ok(directory) = fs::canonicalize(entry.path()) else { continue };
        if directory.join(PROCESSES_FILE).exists() {
            for controller in name.split(',') {
                controllers.insert(controller.to_owned(), directory.clone());
            }
        }
    }
    Ok(controllers)
}

/// One cgroup: on v1 the directory of that path in each hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    hierarchy: Hierarchy,
    path: PathBuf,
}

impl Cgroup {
    /// The path below the root, with a leading slash, as the OCI runtime specification wants it.
    pub fn absolute_path(&self) -> PathBuf {
        Path::new("/").join(&self.path)
    }

    /// The child of that name.
    pub fn child(&self, name: &str) -> Cgroup {
        Cgroup { hierarchy: self.hierarchy.clone(), path: self.path.join(name) }
    }

    /// Makes the cgroup and its ancestors. What is there stays as it is.
    pub fn create(&self) -> Result<(), CgroupError> {
        match &self.hierarchy.kind {
            Kind::V1 { controllers, directories } => {
                let cpuset = controllers.get("cpuset");
                directories.iter().try_for_each(|root| create_v1(root, &self.path, cpuset == Some(root)))
            }
            Kind::V2 { root } => create_v2(root, &self.path),
        }
    }

    /// Whether any of its directories exists.
    pub fn exists(&self) -> bool {
        self.directories().iter().any(|directory| directory.exists())
    }

    /// Removes the cgroup and all below it. Nobody may live in it; what is gone already is no error.
    pub fn remove(&self) -> Result<(), CgroupError> {
        let mut first_error = None;
        for directory in self.directories() {
            if let Err(error) = remove_tree(&directory) {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Removes the cgroup if nothing is left in it: no process, no cgroup below.
    pub fn remove_if_empty(&self) {
        for directory in self.directories() {
            // It is in use, or gone: both are fine.
            let _ = fs::remove_dir(&directory);
        }
    }

    /// The directory of the one hierarchy of v2, to attach programs to.
    pub(crate) fn v2_directory(&self) -> Option<PathBuf> {
        match &self.hierarchy.kind {
            Kind::V1 { .. } => None,
            Kind::V2 { root } => Some(root.join(&self.path)),
        }
    }

    /// The directory that holds the files of a controller.
    fn controller_directory(&self, controller: &str) -> Option<PathBuf> {
        match &self.hierarchy.kind {
            Kind::V1 { controllers, .. } => controllers.get(controller).map(|root| root.join(&self.path)),
            Kind::V2 { root } => Some(root.join(&self.path)),
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        match &self.hierarchy.kind {
            Kind::V1 { directories, .. } => directories.iter().map(|root| root.join(&self.path)).collect(),
            Kind::V2 { root } => vec![root.join(&self.path)],
        }
    }
}

fn create_v1(root: &Path, path: &Path, is_cpuset: bool) -> Result<(), CgroupError> {
    let mut directory = root.to_owned();
    for component in path.components() {
        let parent = directory.clone();
        directory.push(component);
        make_directory(&directory)?;
        if is_cpuset {
            // A new cpuset is empty, and nobody can join an empty one.
            inherit(&parent, &directory, "cpuset.cpus")?;
            inherit(&parent, &directory, "cpuset.mems")?;
        }
    }
    Ok(())
}

fn create_v2(root: &Path, path: &Path) -> Result<(), CgroupError> {
    let mut directory = root.to_owned();
    for component in path.components() {
        enable_controllers(&directory);
        directory.push(component);
        make_directory(&directory)?;
    }
    Ok(())
}

/// Hands every available controller on to the children, as far as the kernel lets us: whether one that is needed is missing shows when a limit is set.
fn enable_controllers(directory: &Path) {
    let Ok(available) = fs::read_to_string(directory.join("cgroup.controllers")) else { return };
    for controller in available.split_whitespace() {
        // One at a time: the kernel takes all or none of a line.
        let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn make_directory(directory: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::io("make cgroup", directory, error))
        }
        _ => Ok(()),
    }
}

fn inherit(parent: &Path, child: &Path, file: &str) -> Result<(), CgroupError> {
    let target = child.join(file);
    let present = fs::read_to_string(&target).map_err(|error| CgroupError::io("read", &target, error))?;
    if !present.trim().is_empty() {
        return Ok(());
    }
    let source = parent.join(file);
    let value = fs::read_to_string(&source).map_err(|error| CgroupError::io("read", &source, error))?;
    write(&target, value.trim())
}

fn remove_tree(directory: &Path) -> Result<(), CgroupError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CgroupError::io("list", directory, error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| CgroupError::io("list", directory, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    remove_directory(directory)
}

/// Removes one cgroup directory.
///
/// The kernel lets go of a dead process's cgroup shortly after it has reported the death, and v1 tells nobody when:
/// so EBUSY is waited out for a moment.
fn remove_directory(directory: &Path) -> Result<(), CgroupError> {
    let mut tries = REMOVE_TRIES;
    loop {
        match fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries > 0 => {
                tries -= 1;
                std::thread::sleep(REMOVE_PAUSE);
            }
            Err(error) => return Err(CgroupError::io("remove cgroup", directory, error)),
        }
    }
}

fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    // The file must be there: `fs::write` would make it in a recorded tree and hide a wrong name.
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|error| CgroupError::io(format!("write `{value}` to"), path, error))
}

#[cfg(test)]
mod tests;
