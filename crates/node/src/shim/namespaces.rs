//! The pod sandbox: namespaces that the shim enters itself, so that its containers inherit them.
//!
//! Nothing of it has a name in a file system: when the shim and its containers are gone, so are the namespaces and mounts.
//! Others reach the network namespace through a descriptor that the shim hands out (`Request::NetworkNamespace`), which is where pod addresses will come in.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::UnshareFlags;

use super::files::FileError;
use super::rootfs::MountNamespaces;
use crate::runtime::config::{NamespaceMode, SandboxConfig};
use crate::sys;

/// The size of a pod's shared memory; containerd's.
const SHARED_MEMORY_OPTIONS: &std::ffi::CStr = c"mode=1777,size=65536k";

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    /// A step failed.
    #[error("failed to {action}: {source}")]
    Step {
        /// Which step.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A sysctl was refused.
    #[error("failed to set sysctl `{name}` to `{value}`: {source}")]
    Sysctl {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// A sysctl's name leads elsewhere.
    #[error("`{name}` is not the name of a sysctl")]
    SysctlName {
        /// The name.
        name: String,
    },
    /// A file or directory.
    #[error(transparent)]
    File(#[from] FileError),
    /// A cgroup.
    #[error(transparent)]
    Cgroup(#[from] crate::cgroup::CgroupError),
    /// What the agent should have written is not there.
    #[error("`{path}` holds no sandbox")]
    NoSandbox {
        /// Where it was looked for.
        path: PathBuf,
    },
}

impl SandboxError {
    pub(crate) fn step<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> SandboxError {
        move |source| SandboxError::Step { action, source: source.into() }
    }
}

/// Enters the pod's namespaces. `mounts` becomes a memory file system that only the shim and its containers see.
pub(crate) fn enter(config: &SandboxConfig, mounts: &Path) -> Result<MountNamespaces, SandboxError> {
    let open_own = || File::open("/proc/self/ns/mnt").map_err(SandboxError::step("open the mount namespace"));
    let node = open_own()?;
    let mut flags = UnshareFlags::NEWNS;
    if config.namespaces.network == NamespaceMode::Pod {
        flags |= UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
    }
    if config.namespaces.ipc == NamespaceMode::Pod {
        flags |= UnshareFlags::NEWIPC;
    }
    sys::process::unshare(flags).map_err(SandboxError::step("make namespaces"))?;
    make_private_mounts(config, mounts)?;
    if config.namespaces.network == NamespaceMode::Pod {
        rustix::system::sethostname(config.hostname.as_bytes()).map_err(SandboxError::step("set the host name"))?;
        bring_loopback_up().map_err(SandboxError::step("bring the loopback interface up"))?;
    }
    for (name, value) in &config.sysctls {
        write_sysctl(name, value)?;
    }
    Ok(MountNamespaces { own: open_own()?, node })
}

/// The pod's shared memory, below the private mounts; the node's own if the pod has the node's IPC namespace.
pub(crate) fn shared_memory(config: &SandboxConfig, mounts: &Path) -> PathBuf {
    match config.namespaces.ipc {
        NamespaceMode::Pod => mounts.join("shm"),
        NamespaceMode::Node => PathBuf::from("/dev/shm"),
    }
}

fn make_private_mounts(config: &SandboxConfig, mounts: &Path) -> Result<(), SandboxError> {
    // The node's mounts go on to be seen, the shim's own stay its own.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(SandboxError::step("cut mounts off from the node"))?;
    fs::create_dir_all(mounts).map_err(FileError::of("make directory", mounts))?;
    mount("monopod", mounts, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=700")
        .map_err(SandboxError::step("mount the sandbox's memory file system"))?;
    if config.namespaces.ipc == NamespaceMode::Pod {
        let shared = shared_memory(config, mounts);
        fs::create_dir_all(&shared).map_err(FileError::of("make directory", &shared))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("shm", &shared, "tmpfs", flags, SHARED_MEMORY_OPTIONS)
            .map_err(SandboxError::step("mount the pod's shared memory"))?;
    }
    Ok(())
}

fn bring_loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sys::network::bring_loopback_up(socket.as_fd())
}

fn write_sysctl(name: &str, value: &str) -> Result<(), SandboxError> {
    // Both `net.core.somaxconn` and `net/ipv4/conf/eth0.1/forwarding` are in use.
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    if path.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(SandboxError::SysctlName { name: name.to_owned() });
    }
    fs::OpenOptions::new()
        .write(true)
        .open(Path::new("/proc/sys").join(path))
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|source| SandboxError::Sysctl { name: name.to_owned(), value: value.to_owned(), source })
}
