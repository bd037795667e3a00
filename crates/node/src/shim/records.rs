//! What a sandbox leaves on disk, so that it is known whoever dies.
//!
//! ```text
//! <state>/sandboxes/<sandbox id>/sandbox.json      what was asked for, where its cgroup is
//!                                shim.sock         the shim listens here
//!                                shim.log          what the shim and libcontainer had to complain of
//!                                mounts/           in the shim's own mount namespace only
//!                                containers/<container id>/config.json    what was asked for
//!                                                          state.json     how far it came, how it ended
//!                                                          bundle, oci/   libcontainer's
//! ```
//!
//! The agent writes `sandbox.json`, the shim all else while it lives; when it is gone the agent reads and removes.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use lifecycle::observation::LinuxUser;
use lifecycle::{ContainerId, ContainerRecord, Exit, PodRef, RuntimeState, SandboxId, SandboxRecord};
use serde::{Deserialize, Serialize};

use super::files::{Durability, FileError, read_json, remove_directory, write_json};
use crate::cgroup::{Cgroup, CgroupError, Hierarchy};
use crate::runtime::config::{ContainerConfig, NamespaceMode, Rootfs, SandboxConfig};

/// What the agent tells a new shim, and any later agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SandboxFile {
    /// What was asked for.
    pub(crate) config: SandboxConfig,
    /// When.
    pub(crate) created_at: Timestamp,
    /// Where the cgroup hierarchies are mounted.
    pub(crate) cgroup_root: PathBuf,
    /// The pod's cgroup below them.
    pub(crate) cgroup: String,
}

/// How far a container came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContainerState {
    /// When it was created.
    pub(crate) created_at: Timestamp,
    /// When its first process was started.
    pub(crate) started_at: Option<Timestamp>,
    /// How it ended.
    pub(crate) exit: Option<Exit>,
}

/// The directory of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxDirectory(PathBuf);

/// The directory of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerDirectory(PathBuf);

/// All that the runtime knows of one sandbox at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxSnapshot {
    pub(crate) pod: PodRef,
    pub(crate) sandbox: SandboxRecord,
    pub(crate) containers: Vec<ContainerRecord>,
}

impl SandboxFile {
    /// The pod's cgroup.
    pub(crate) fn pod_cgroup(&self) -> Result<Cgroup, CgroupError> {
        Ok(Hierarchy::detect(&self.cgroup_root)?.cgroup(&self.cgroup))
    }

    /// What is reported of the sandbox.
    pub(crate) fn record(&self, is_ready: bool, ips: Vec<IpAddr>) -> SandboxRecord {
        SandboxRecord {
            id: self.config.id(),
            attempt: self.config.attempt,
            ready: is_ready,
            host_network: self.config.namespaces.network == NamespaceMode::Node,
            ips,
            created_at: self.created_at,
        }
    }
}

impl SandboxDirectory {
    pub(crate) fn new(path: PathBuf) -> Self {
        SandboxDirectory(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn sandbox_file(&self) -> PathBuf {
        self.0.join("sandbox.json")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("shim.log")
    }

    pub(crate) fn mounts(&self) -> PathBuf {
        self.0.join("mounts")
    }

    pub(crate) fn containers(&self) -> PathBuf {
        self.0.join("containers")
    }

    pub(crate) fn container(&self, id: &ContainerId) -> ContainerDirectory {
        ContainerDirectory(self.containers().join(id.as_str()))
    }

    /// What the agent wrote; `None` if the directory is not a whole sandbox.
    pub(crate) fn read(&self) -> Result<Option<SandboxFile>, FileError> {
        read_json(&self.sandbox_file())
    }

    /// The ids of the containers that have a directory.
    pub(crate) fn container_ids(&self) -> Result<Vec<ContainerId>, FileError> {
        let path = self.containers();
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(FileError::of("list", &path)(error)),
        };
        let names =
            entries.map(|entry| entry.map(|entry| ContainerId(entry.file_name().to_string_lossy().into_owned())));
        names.collect::<Result<Vec<_>, _>>().map_err(FileError::of("list", &path))
    }

    /// What the disk tells of a sandbox whose shim is gone.
    ///
    /// A container that has no end on record is [`RuntimeState::Unknown`], and so is one whose record is broken, as far as it can be named.
    pub(crate) fn snapshot_without_shim(&self, file: &SandboxFile) -> Result<SandboxSnapshot, FileError> {
        let sandbox = file.record(false, Vec::new());
        let mut containers = Vec::new();
        for id in self.container_ids()? {
            let directory = self.container(&id);
            let Ok(Some(config)) = directory.read_config() else { continue };
            let state = directory.read_state().ok().flatten();
            containers.push(container_record(&id, &sandbox.id, &config, state.as_ref(), Life::Over));
        }
        Ok(SandboxSnapshot { pod: file.config.pod.clone(), sandbox, containers })
    }
}

impl ContainerDirectory {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// libcontainer's bundle: the directory with the OCI document.
    pub(crate) fn bundle(&self) -> &Path {
        &self.0
    }

    /// The OCI document, whose name the OCI runtime specification prescribes.
    pub(crate) fn oci_document(&self) -> PathBuf {
        self.0.join("config.json")
    }

    /// Where libcontainer keeps its own state.
    pub(crate) fn oci_root(&self) -> PathBuf {
        self.0.join("oci")
    }

    fn container_file(&self) -> PathBuf {
        self.0.join("container.json")
    }

    fn state_file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Makes the directory with what was asked for.
    pub(crate) fn create(&self, config: &ContainerConfig) -> Result<(), FileError> {
        fs::create_dir_all(&self.0).map_err(FileError::of("make directory", &self.0))?;
        write_json(&self.container_file(), config, Durability::UntilReboot)
    }

    pub(crate) fn read_config(&self) -> Result<Option<ContainerConfig>, FileError> {
        read_json(&self.container_file())
    }

    pub(crate) fn read_state(&self) -> Result<Option<ContainerState>, FileError> {
        read_json(&self.state_file())
    }

    /// Puts the state on disk; one that tells of an end survives a power failure.
    pub(crate) fn write_state(&self, state: &ContainerState) -> Result<(), FileError> {
        let durability = if state.exit.is_some() { Durability::Durable } else { Durability::UntilReboot };
        write_json(&self.state_file(), state, durability)
    }

    /// Removes all that is the container's alone: its writable layer, its log if `keep_logs` does not say otherwise, its records last.
    pub(crate) fn remove(&self, config: &ContainerConfig, keep_logs: bool) -> Result<(), FileError> {
        if let Rootfs::Overlay { upper_directory, work_directory, .. } = &config.rootfs {
            for directory in [upper_directory, work_directory] {
                remove_directory(directory)?;
                if let Some(parent) = directory.parent() {
                    // It was made for the two, or holds something else.
                    let _ = fs::remove_dir(parent);
                }
            }
        }
        if !keep_logs && let Some(path) = &config.log_path {
            super::log::remove_logs(path)?;
        }
        remove_directory(&self.0)
    }
}

/// Whether a container's shim lives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It does: a container without an end runs, or waits to be started.
    Going,
    /// It does not: a container without an end has one that nobody saw.
    Over,
}

/// What is reported of a container.
pub(crate) fn container_record(
    id: &ContainerId,
    sandbox: &SandboxId,
    config: &ContainerConfig,
    state: Option<&ContainerState>,
    life: Life,
) -> ContainerRecord {
    let runtime_state = match state {
        Some(ContainerState { exit: Some(exit), .. }) => RuntimeState::Exited(exit.clone()),
        Some(ContainerState { started_at: Some(started_at), .. }) if life == Life::Going => {
            RuntimeState::Running { started_at: *started_at }
        }
        Some(ContainerState { started_at: None, .. }) if life == Life::Going => RuntimeState::Created,
        _ => RuntimeState::Unknown,
    };
    ContainerRecord {
        id: id.clone(),
        sandbox: sandbox.clone(),
        name: config.name.clone(),
        role: config.role,
        attempt: config.attempt,
        spec_image: config.spec_image.clone(),
        image: config.image.clone(),
        image_id: config.image_id.clone(),
        created_at: state.map_or(Timestamp::UNIX_EPOCH, |state| state.created_at),
        state: runtime_state,
        user: Some(linux_user(config)),
    }
}

fn linux_user(config: &ContainerConfig) -> LinuxUser {
    LinuxUser {
        uid: config.user.uid.into(),
        gid: config.user.gid.into(),
        supplemental_groups: config.user.supplementary_groups.iter().copied().map(i64::from).collect(),
    }
}
