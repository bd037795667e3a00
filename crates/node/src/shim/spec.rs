//! The OCI document that is made of a [`ContainerConfig`]; the only place that speaks OCI.
//!
//! Not in it, and done elsewhere: seccomp and capabilities (`executor`), limits (`cgroup`), the OOM score (`container`), propagation (`rootfs`), sysctls (`namespaces`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use libcontainer::oci_spec::OciSpecError;
use libcontainer::oci_spec::runtime::{
    Linux, LinuxBuilder, LinuxDevice, LinuxDeviceBuilder, LinuxDeviceCgroup, LinuxDeviceCgroupBuilder, LinuxDeviceType,
    LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, LinuxResourcesBuilder, Mount, MountBuilder, Process,
    ProcessBuilder, RootBuilder, Spec, SpecBuilder, UserBuilder,
};

use super::rootfs::{StagedMounts, read_in_root};
use crate::cgroup::{CgroupVersion, DeviceAccess, DeviceRule, default_device_rules};
use crate::runtime::config::{ContainerConfig, DeviceConfig, DeviceKind, MountPropagation, MountSource};

/// What a shell looks for programs in if nobody says; containerd's.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// A user database is small; a hostile one is cut.
const PASSWD_BYTES_MAX: u64 = 1 << 20;

/// Everything that the document is made of.
pub(crate) struct SpecInput<'a> {
    pub(crate) config: &'a ContainerConfig,
    pub(crate) staged: &'a StagedMounts,
    /// The final environment.
    pub(crate) env: &'a [(String, String)],
    /// The container's cgroup, with a leading slash.
    pub(crate) cgroup_path: PathBuf,
    pub(crate) cgroup_version: CgroupVersion,
    /// The pod's shared memory.
    pub(crate) shared_memory: &'a Path,
    pub(crate) pid_namespace: PidNamespace,
    /// The node's devices, for privileged containers.
    pub(crate) node_devices: Vec<DeviceConfig>,
}

/// The process namespace of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PidNamespace {
    /// One of its own.
    New,
    /// That of a process.
    Of(rustix::process::Pid),
    /// The node's.
    Node,
}

/// Makes the document for a container.
pub(crate) fn container_spec(input: &SpecInput<'_>) -> Result<Spec, OciSpecError> {
    let config = input.config;
    let root = RootBuilder::default().path(&input.staged.rootfs).readonly(config.read_only_rootfs).build()?;
    let mut spec = SpecBuilder::default()
        .root(root)
        .process(container_process(config, &config.argv, config.tty, input.env)?)
        .mounts(mounts(input)?)
        .linux(linux(input)?)
        .build()?;
    // The builder's default has a host name, which wants a UTS namespace of its own; the shim's is the pod's.
    spec.set_hostname(None);
    Ok(spec)
}

/// Makes the part for a process, the first of a container or one that joins it.
pub(crate) fn container_process(
    config: &ContainerConfig,
    argv: &[String],
    has_terminal: bool,
    env: &[(String, String)],
) -> Result<Process, OciSpecError> {
    let user = UserBuilder::default()
        .uid(config.user.uid)
        .gid(config.user.gid)
        .additional_gids(config.user.supplementary_groups.clone())
        .build()?;
    let cwd = if config.working_directory.is_empty() { "/" } else { &config.working_directory };
    let mut process = ProcessBuilder::default()
        .terminal(has_terminal)
        .user(user)
        .args(argv.to_vec())
        .env(env.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        .cwd(cwd)
        .no_new_privileges(config.security.no_new_privileges)
        .build()?;
    // The executor drops capabilities itself, after it has installed the filters that need one more.
    process.set_capabilities(None);
    // The builder's default lowers the limit of open files to 1024.
    process.set_rlimits(None);
    Ok(process)
}

/// The environment of a container: what the runtime adds if nobody else does, then the config's, of which the last of a name counts.
pub(crate) fn environment(config: &ContainerConfig, hostname: &str, rootfs: &Path) -> Vec<(String, String)> {
    let mut wanted = BTreeMap::new();
    for (index, variable) in config.env.iter().enumerate() {
        wanted.insert(variable.name.as_str(), index);
    }
    let mut env = Vec::with_capacity(config.env.len() + 4);
    let mut add_default = |name: &str, value: String| {
        if !wanted.contains_key(name) {
            env.push((name.to_owned(), value));
        }
    };
    add_default("PATH", DEFAULT_PATH.to_owned());
    add_default("HOSTNAME", hostname.to_owned());
    if config.tty {
        add_default("TERM", "xterm".to_owned());
    }
    for (index, variable) in config.env.iter().enumerate() {
        if wanted.get(variable.name.as_str()) == Some(&index) {
            env.push((variable.name.clone(), variable.value.clone()));
        }
    }
    // libcontainer would ask the C library for the home directory, which loads code from the container.
    if !env.iter().any(|(name, value)| name == "HOME" && !value.is_empty()) {
        env.retain(|(name, _)| name != "HOME");
        env.push(("HOME".to_owned(), home_directory(config.user.uid, rootfs)));
    }
    env
}

/// The home directory that the container's own user database has for a user; `/` if it has none.
fn home_directory(uid: u32, rootfs: &Path) -> String {
    let database = read_in_root(rootfs, Path::new("etc/passwd"), PASSWD_BYTES_MAX).unwrap_or_default();
    let home = database.lines().find_map(|line| {
        let mut fields = line.split(':');
        let id: u32 = fields.nth(2)?.parse().ok()?;
        fields.nth(2).filter(|home| id == uid && !home.is_empty())
    });
    let fallback = if uid == 0 { "/root" } else { "/" };
    home.unwrap_or(fallback).to_owned()
}

fn mounts(input: &SpecInput<'_>) -> Result<Vec<Mount>, OciSpecError> {
    let own: Vec<&Path> = input.config.mounts.iter().map(|mount| mount.destination.as_path()).collect();
    let mut mounts = standard_mounts(input)?;
    // Kubernetes: who mounts something at /dev/shm gets that and not the pod's.
    mounts.retain(|mount| !own.contains(&mount.destination().as_path()));
    let mut volumes = Vec::new();
    for (mount, source) in input.config.mounts.iter().zip(&input.staged.sources) {
        volumes.push(match (&mount.source, source) {
            (MountSource::Tmpfs { size_bytes, mode }, _) => {
                let mut options = vec!["nosuid".to_owned(), "nodev".to_owned(), format!("mode={mode:o}")];
                options.extend(size_bytes.map(|size| format!("size={size}")));
                build_mount(&mount.destination, "tmpfs", Path::new("tmpfs"), options)?
            }
            (_, Some(source)) => build_mount(&mount.destination, "bind", source, vec!["rbind".to_owned()])?,
            (_, None) => continue,
        });
    }
    // Parents before children, whatever order they came in.
    volumes.sort_by_key(|mount: &Mount| mount.destination().components().count());
    mounts.extend(volumes);
    Ok(mounts)
}

fn standard_mounts(input: &SpecInput<'_>) -> Result<Vec<Mount>, OciSpecError> {
    let access = if input.config.security.privileged { "rw" } else { "ro" };
    let shared_memory = input.shared_memory.to_owned();
    let mut mounts = Vec::new();
    let mut add = |destination: &str, kind: &str, source: &Path, options: &[&str]| {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        build_mount(Path::new(destination), kind, source, options).map(|mount| mounts.push(mount))
    };
    add("/proc", "proc", Path::new("proc"), &["nosuid", "noexec", "nodev"])?;
    add("/dev", "tmpfs", Path::new("tmpfs"), &["nosuid", "strictatime", "mode=755", "size=65536k"])?;
    let pts = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"];
    add("/dev/pts", "devpts", Path::new("devpts"), &pts)?;
    add("/dev/shm", "bind", &shared_memory, &["rbind", "nosuid", "noexec", "nodev"])?;
    add("/dev/mqueue", "mqueue", Path::new("mqueue"), &["nosuid", "noexec", "nodev"])?;
    add("/sys", "sysfs", Path::new("sysfs"), &["nosuid", "noexec", "nodev", access])?;
    add("/sys/fs/cgroup", "cgroup", Path::new("cgroup"), &["nosuid", "noexec", "nodev", "relatime", access])?;
    Ok(mounts)
}

fn build_mount(destination: &Path, kind: &str, source: &Path, options: Vec<String>) -> Result<Mount, OciSpecError> {
    MountBuilder::default().destination(destination).typ(kind).source(source).options(options).build()
}

fn linux(input: &SpecInput<'_>) -> Result<Linux, OciSpecError> {
    let config = input.config;
    let resources = LinuxResourcesBuilder::default().devices(device_cgroup(input)?).build()?;
    let devices = config.devices.iter().chain(&input.node_devices).map(device).collect::<Result<Vec<_>, _>>()?;
    let shares_mounts = config
        .mounts
        .iter()
        .any(|mount| matches!(mount.source, MountSource::Bind { propagation: MountPropagation::Bidirectional, .. }));
    let mut linux = LinuxBuilder::default()
        .namespaces(namespaces(input)?)
        .cgroups_path(&input.cgroup_path)
        .resources(resources)
        .devices(devices)
        .masked_paths(config.security.masked_paths.clone())
        .readonly_paths(config.security.read_only_paths.clone())
        // Shared keeps volumes that propagate to the node tied to it, slave those that follow the node; private ones stay private.
        .rootfs_propagation(if shares_mounts { "shared" } else { "slave" })
        .build()?;
    linux.set_seccomp(None);
    Ok(linux)
}

/// Network, IPC and UTS namespaces are the shim's own, which the container inherits.
fn namespaces(input: &SpecInput<'_>) -> Result<Vec<LinuxNamespace>, OciSpecError> {
    let mut namespaces = vec![LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Mount).build()?];
    match &input.pid_namespace {
        PidNamespace::New => namespaces.push(LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Pid).build()?),
        PidNamespace::Of(pid) => {
            let path = format!("/proc/{}/ns/pid", pid.as_raw_nonzero());
            namespaces.push(LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Pid).path(path).build()?);
        }
        PidNamespace::Node => {}
    }
    // Kubernetes' runtimes hide the host's cgroups on v2 only.
    if input.cgroup_version == CgroupVersion::V2 && !input.config.security.privileged {
        namespaces.push(LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Cgroup).build()?);
    }
    Ok(namespaces)
}

/// The devices that a container may use, as rules for either version.
pub(crate) fn device_rules(config: &ContainerConfig) -> Vec<DeviceRule> {
    let mut rules = default_device_rules();
    rules.extend(config.devices.iter().map(|device| DeviceRule {
        kind: device.kind,
        major: Some(device.major),
        minor: Some(device.minor),
        access: DeviceAccess::parse(&device.access),
    }));
    rules
}

/// The same for the devices controller of v1. libcontainer gives no rules to the kernel on v2: there `cgroup::attach_device_filter` does.
fn device_cgroup(input: &SpecInput<'_>) -> Result<Vec<LinuxDeviceCgroup>, OciSpecError> {
    let everything =
        |allow| LinuxDeviceCgroupBuilder::default().allow(allow).typ(LinuxDeviceType::A).access("rwm").build();
    if input.config.security.privileged {
        return Ok(vec![everything(true)?]);
    }
    let mut rules = vec![everything(false)?];
    for rule in device_rules(input.config) {
        let letters = [(rule.access.read, "r"), (rule.access.write, "w"), (rule.access.make_node, "m")];
        let access: String = letters.iter().filter_map(|(is_set, letter)| is_set.then_some(*letter)).collect();
        let mut builder = LinuxDeviceCgroupBuilder::default().allow(true).typ(device_type(rule.kind)).access(access);
        if let Some(major) = rule.major {
            builder = builder.major(major);
        }
        if let Some(minor) = rule.minor {
            builder = builder.minor(minor);
        }
        rules.push(builder.build()?);
    }
    Ok(rules)
}

fn device(device: &DeviceConfig) -> Result<LinuxDevice, OciSpecError> {
    LinuxDeviceBuilder::default()
        .path(&device.path)
        .typ(device_type(device.kind))
        .major(device.major)
        .minor(device.minor)
        .file_mode(device.file_mode)
        .uid(device.uid)
        .gid(device.gid)
        .build()
}

fn device_type(kind: DeviceKind) -> LinuxDeviceType {
    match kind {
        DeviceKind::Block => LinuxDeviceType::B,
        DeviceKind::Character => LinuxDeviceType::C,
    }
}
