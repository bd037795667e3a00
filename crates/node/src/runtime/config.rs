//! What the agent asks the runtime for: plain data, no behaviour but the ids.
//!
//! The agent fills these in from the pod's spec and the image; the shim carries them out to the letter and decides nothing of Kubernetes.
//! Nothing is defaulted here that Kubernetes or the image should say: an empty list means "none".
//! Next: [`super`] for the verbs, `shim::spec` for the OCI document that is made of a [`ContainerConfig`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use lifecycle::{ContainerId, ContainerRole, PodRef, PodUid, SandboxId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// One pod sandbox: the namespaces and the cgroup that the pod's containers share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// The pod.
    pub pod: PodRef,
    /// Counts from 0 for each pod.
    pub attempt: u32,
    /// The kernel's host name in the pod's UTS namespace; ignored with [`NamespaceMode::Node`] for the network, whose UTS namespace is the node's (L-910).
    pub hostname: String,
    /// Which namespaces the pod has of its own.
    pub namespaces: SandboxNamespaces,
    /// Sysctls by their dotted name, written in the pod's namespaces (L-946).
    pub sysctls: BTreeMap<String, String>,
    /// The pod's cgroup below the cgroup root, as in L-808: `kubepods/burstable/pod<uid>`.
    /// The runtime puts its own prefix before it and makes what is missing.
    pub cgroup_parent: String,
    /// What the pod's cgroup is limited to (L-809).
    pub resources: LinuxResources,
    /// The addresses to report, the primary one first; what gives them to the pod is not the runtime's affair.
    pub ips: Vec<IpAddr>,
    /// Free for the agent; kept on disk with the sandbox.
    pub labels: BTreeMap<String, String>,
}

/// Which namespaces a pod has of its own and which it takes from the node (L-940).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxNamespaces {
    /// `hostNetwork` makes it [`NamespaceMode::Node`]; the UTS namespace goes with it.
    pub network: NamespaceMode,
    /// `hostIPC` makes it [`NamespaceMode::Node`].
    pub ipc: NamespaceMode,
    /// `hostPID` and `shareProcessNamespace`.
    pub pid: PidNamespaceMode,
}

/// Whose a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NamespaceMode {
    /// One for the pod, shared by its containers.
    Pod,
    /// The node's.
    Node,
}

/// Whose the process namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PidNamespaceMode {
    /// One for each container.
    Container,
    /// One for the pod, with a pause process as PID 1 (`shareProcessNamespace`).
    Pod,
    /// The node's (`hostPID`).
    Node,
}

/// One container instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerConfig {
    /// The pod.
    pub pod: PodRef,
    /// `name` in the pod's spec.
    pub name: String,
    /// Its role.
    pub role: ContainerRole,
    /// Its restart count.
    pub attempt: u32,
    /// The image as the pod's spec names it.
    pub spec_image: String,
    /// The image name to report.
    pub image: String,
    /// The image reference with digest to report.
    pub image_id: String,
    /// The root file system.
    pub rootfs: Rootfs,
    /// Whether the root file system is mounted read-only (`readOnlyRootFilesystem`).
    pub read_only_rootfs: bool,
    /// Program and arguments; the program is looked up in the `PATH` of `env` if it has no slash.
    pub argv: Vec<String>,
    /// The whole environment, in order; of two entries of one name the later one counts.
    pub env: Vec<EnvVar>,
    /// The working directory, made if it is missing; `/` if empty.
    pub working_directory: String,
    /// Who the processes are.
    pub user: UserConfig,
    /// What the processes may do.
    pub security: SecurityConfig,
    /// Mounts beside those that every container has (`/proc`, `/dev`, `/dev/shm`, `/dev/mqueue`, `/dev/pts`, `/sys`), parents before children.
    pub mounts: Vec<MountConfig>,
    /// Devices beside those that every container has.
    pub devices: Vec<DeviceConfig>,
    /// What its cgroup is limited to (L-810).
    pub resources: LinuxResources,
    /// Lowered only where the kernel allows it (L-807).
    pub oom_score_adj: Option<i32>,
    /// `tty`.
    pub tty: bool,
    /// `stdin`.
    pub stdin: bool,
    /// `stdinOnce`.
    pub stdin_once: bool,
    /// The log file; its directory is made if it is missing. `None` throws the output away.
    pub log_path: Option<PathBuf>,
    /// Where the termination message comes from.
    pub termination_message: TerminationMessageConfig,
    /// The image's stop signal (`SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`); empty means SIGTERM.
    pub stop_signal: String,
    /// The container whose process namespace it joins (ephemeral containers, L-104).
    pub target: Option<ContainerId>,
    /// Free for the agent; kept on disk with the container.
    pub labels: BTreeMap<String, String>,
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Where a container's root file system comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rootfs {
    /// Unpacked layers under a directory that takes the container's own writes.
    Overlay {
        /// The unpacked layers, the topmost first, as overlayfs has it.
        lower_directories: Vec<PathBuf>,
        /// Takes the writes. Made if it is missing, removed with the container.
        upper_directory: PathBuf,
        /// overlayfs' scratch space, on the same file system. Made if it is missing, removed with the container.
        work_directory: PathBuf,
    },
    /// A directory that stands ready; it is never removed by the runtime.
    Directory(PathBuf),
}

/// The identity of a container's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserConfig {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub supplementary_groups: Vec<u32>,
}

/// What a container's processes may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecurityConfig {
    /// All devices, writable `/sys` and cgroups; capabilities, masks and seccomp stand in their own fields all the same.
    pub privileged: bool,
    /// The exact capabilities, as `CAP_CHOWN`: [`SecurityConfig::default_capabilities`] with `add` and `drop` applied (L-945).
    /// They make the bounding, effective and permitted sets; the effective and permitted ones are lost to a user other than 0 on exec, as in Kubernetes.
    pub capabilities: Vec<String>,
    /// `allowPrivilegeEscalation: false`.
    pub no_new_privileges: bool,
    /// Paths hidden from the container; [`SecurityConfig::default_masked_paths`] unless privileged or `procMount: Unmasked`.
    pub masked_paths: Vec<String>,
    /// Paths made read-only; [`SecurityConfig::default_read_only_paths`] unless privileged or `procMount: Unmasked`.
    pub read_only_paths: Vec<String>,
    /// The system call filter.
    pub seccomp: SeccompProfile,
}

/// A system call filter (L-944).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeccompProfile {
    /// No filter.
    Unconfined,
    /// The runtime's own allow-list, which depends on the capabilities.
    RuntimeDefault,
    /// An OCI seccomp document in JSON.
    Localhost(String),
}

/// Something mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountConfig {
    /// The absolute path in the container; made if it is missing.
    pub destination: PathBuf,
    /// What is mounted there.
    pub source: MountSource,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountSource {
    /// A file or directory of the node, with all that is mounted below it.
    Bind {
        /// The node's path.
        path: PathBuf,
        /// A path inside it to bind instead (`subPath`); it is resolved where it is mounted and may not lead out (L-926).
        sub_path: Option<PathBuf>,
        /// Whether it can be written.
        access: MountAccess,
        /// Which later mounts pass (L-927).
        propagation: MountPropagation,
    },
    /// An empty memory file system.
    Tmpfs {
        /// Its limit; `None` is the kernel's half of the memory.
        size_bytes: Option<u64>,
        /// The mode of its root.
        mode: u32,
    },
    /// An image volume: unpacked layers, read-only and without programs (L-928).
    Layers {
        /// The topmost first.
        lower_directories: Vec<PathBuf>,
        /// A path inside the layers to mount instead of their root.
        sub_path: Option<PathBuf>,
    },
}

/// Whether a bind mount can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountAccess {
    /// As the node's own.
    ReadWrite,
    /// The mount itself is read-only, what is mounted below it is not.
    ReadOnly,
    /// The mount and all below it are read-only (`recursiveReadOnly`); fails on kernels before 5.12.
    RecursiveReadOnly,
}

/// `mountPropagation` (L-927).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountPropagation {
    /// `None`: later mounts are seen on neither side.
    Private,
    /// `HostToContainer`: the node's later mounts are seen in the container.
    HostToContainer,
    /// `Bidirectional`: the container's later mounts are seen on the node too.
    Bidirectional,
}

/// A device node in the container and the right to use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceConfig {
    /// The path in the container.
    pub path: PathBuf,
    /// Block or character device.
    pub kind: DeviceKind,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits of the node.
    pub file_mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Any of `r`, `w`, `m`.
    pub access: String,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    /// Character device.
    Character,
    /// Block device.
    Block,
}

/// Limits of a cgroup; `None` leaves the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinuxResources {
    /// cgroup v1 shares, 2 to 262144; converted to a weight on v2.
    pub cpu_shares: Option<u64>,
    /// Run time per period; `None` is unlimited.
    pub cpu_quota_microseconds: Option<u64>,
    /// The period; Kubernetes' is 100000.
    pub cpu_period_microseconds: Option<u64>,
    /// Memory limit; swap is not given on top of it.
    pub memory_limit_bytes: Option<u64>,
    /// Number of processes and threads.
    pub pids_limit: Option<u64>,
    /// Whether an out-of-memory kill takes the whole cgroup (v2 only, L-810).
    pub oom_group: bool,
}

/// Where the termination message of a container comes from (L-740).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminationMessageConfig {
    /// `terminationMessagePath`, for the message about an unreadable file.
    pub container_path: String,
    /// The node's file that is bind-mounted there by `mounts`; `None` if the container has none.
    pub host_path: Option<PathBuf>,
    /// `terminationMessagePolicy: FallbackToLogsOnError`.
    pub fallback_to_logs_on_error: bool,
}

impl SecurityConfig {
    /// The capabilities that a container has if its pod says nothing, as containerd and Docker give them.
    pub fn default_capabilities() -> Vec<String> {
        [
            "CAP_AUDIT_WRITE",
            "CAP_CHOWN",
            "CAP_DAC_OVERRIDE",
            "CAP_FOWNER",
            "CAP_FSETID",
            "CAP_KILL",
            "CAP_MKNOD",
            "CAP_NET_BIND_SERVICE",
            "CAP_NET_RAW",
            "CAP_SETFCAP",
            "CAP_SETGID",
            "CAP_SETPCAP",
            "CAP_SETUID",
            "CAP_SYS_CHROOT",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// The paths that a container does not see.
    pub fn default_masked_paths() -> Vec<String> {
        [
            "/proc/acpi",
            "/proc/asound",
            "/proc/interrupts",
            "/proc/kcore",
            "/proc/keys",
            "/proc/latency_stats",
            "/proc/timer_list",
            "/proc/timer_stats",
            "/proc/sched_debug",
            "/proc/scsi",
            "/sys/devices/virtual/powercap",
            "/sys/firmware",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// The paths that a container cannot write.
    pub fn default_read_only_paths() -> Vec<String> {
        ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"].map(str::to_owned).to_vec()
    }
}

impl SandboxConfig {
    /// The sandbox's id: the same pod and attempt give the same id, so that asking twice is harmless.
    pub fn id(&self) -> SandboxId {
        sandbox_id(&self.pod.uid, self.attempt)
    }
}

impl ContainerConfig {
    /// The container's id in the given sandbox: the same container and attempt give the same id, so that asking twice is harmless.
    pub fn id(&self, sandbox: &SandboxId) -> ContainerId {
        ContainerId(digest(&["container", sandbox.as_str(), &self.name, &self.attempt.to_string()]))
    }
}

/// The id of a pod's sandbox of the given attempt: 64 hexadecimal digits.
pub fn sandbox_id(pod: &PodUid, attempt: u32) -> SandboxId {
    SandboxId(digest(&["sandbox", pod.as_str(), &attempt.to_string()]))
}

fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        // A byte that no part can hold keeps ("a", "bc") apart from ("ab", "c").
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
