//! One container, whole: what the runtime is asked for, and the files of the node that it needs.
//!
//! Reads the image's accounts and writes the files that are mounted, so it blocks: call it from a blocking task.
//! Everything else it puts together from the pure parts beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use lifecycle::effect::CreateContainer;
use lifecycle::{ContainerId, NodeConfig, PodRef, SandboxId, SandboxRecord};

use super::command::argv;
use super::env::{
    EnvironmentError, EnvironmentOf, RuntimeEnvironment, Sources, declared_environment, whole_environment,
};
use super::find::find_container;
use super::hostname::{FqdnTooLong, PodHostname, pod_hostname};
use super::hosts::{host_network_hosts, pod_hosts};
use super::image_root::{ImageFileError, ImageRoot};
use super::resolv_conf::{ClusterDns, pod_resolv_conf};
use super::resources::container_resources;
use super::security::{Effective, SecurityError};
use super::user::{Accounts, UserError, resolve_user};
use crate::images::{Digest, Image, ImageStore, StoreError};
use crate::paths::DataPaths;
use crate::runtime::config::{
    ContainerConfig, EnvVar, MountAccess, MountConfig, MountPropagation, MountSource, Rootfs, TerminationMessageConfig,
};
use crate::volumes::{ContainerMounts, MountError, PodVolumes, VolumeContext, VolumeSources};

/// As much of `/etc/passwd` or `/etc/group` as is sensible.
const ACCOUNTS_BYTES_MAX: u64 = 4 << 20;
const SECCOMP_PROFILE_BYTES_MAX: u64 = 4 << 20;

/// What a node has for all its containers.
#[derive(Clone, Copy, Debug)]
pub struct ContainerHost<'a> {
    /// Its settings.
    pub node: &'a NodeConfig,
    /// Where things lie.
    pub paths: &'a DataPaths,
    /// The image store.
    pub images: &'a ImageStore,
    /// The machine's memory, for `oom_score_adj`.
    pub memory_bytes: u64,
    /// The DNS of the cluster.
    pub dns: &'a ClusterDns,
    /// The kernel's name of this machine.
    pub hostname: &'a str,
}

/// What is known of one container when it is to be created.
pub struct ContainerInputs<'a> {
    /// What the engine asks for.
    pub request: &'a CreateContainer,
    /// The pod, as effects name it.
    pub reference: &'a PodRef,
    /// Its sandbox.
    pub sandbox: &'a SandboxRecord,
    /// What its environment refers to.
    pub environment: &'a Sources,
    /// What its volumes are made of.
    pub volumes: &'a dyn VolumeSources,
    /// The time.
    pub now: Timestamp,
}

/// Why a container cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The pod has no such container.
    #[error("container \"{0}\" is not part of the pod's spec")]
    NoContainer(String),
    /// The pod has no such sandbox.
    #[error("there is no pod sandbox `{0}`")]
    NoSandbox(SandboxId),
    /// The image cannot be kept from being removed.
    #[error("cannot keep the image from being removed: {0}")]
    Hold(#[source] StoreError),
    /// The image has gone since it was looked up.
    #[error("image \"{0}\" is not present")]
    NoImage(String),
    /// The image cannot be looked up.
    #[error(transparent)]
    Image(#[from] crate::images::FindError),
    /// Its pod cannot be named.
    #[error(transparent)]
    Hostname(#[from] FqdnTooLong),
    /// Its environment cannot be made.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// Its volumes cannot be mounted.
    #[error(transparent)]
    Mounts(#[from] MountError),
    /// It may run as no user.
    #[error(transparent)]
    User(#[from] UserError),
    /// The image's accounts cannot be read.
    #[error(transparent)]
    Accounts(#[from] ImageFileError),
    /// Its security context cannot be kept.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// Neither pod nor image say what to run.
    #[error("no command specified")]
    NoCommand,
    /// A file for it cannot be written.
    #[error("failed to write `{}`: {}", path.display(), crate::wording::io_error(source))]
    File {
        /// Which file.
        path: PathBuf,
        /// What the disk says.
        source: io::Error,
    },
}

impl BuildError {
    /// The container's waiting reason: what a kubelet finds out before it asks its runtime is the configuration's fault (L-734).
    pub fn reason(&self) -> &'static str {
        match self {
            BuildError::NoSandbox(_)
            | BuildError::Hold(_)
            | BuildError::NoImage(_)
            | BuildError::Image(_)
            | BuildError::Accounts(_)
            | BuildError::NoCommand
            | BuildError::User(UserError::Unknown { .. })
            | BuildError::Security(SecurityError::Capability { .. } | SecurityError::Profile { .. }) => {
                "CreateContainerError"
            }
            _ => "CreateContainerConfigError",
        }
    }
}

/// A container that can be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltContainer {
    /// What the runtime is asked for.
    pub config: ContainerConfig,
    /// The image in the store, to be held as long as the container is there.
    pub image: Digest,
}

/// Puts a container together.
pub fn build_container(host: &ContainerHost<'_>, inputs: &ContainerInputs<'_>) -> Result<BuiltContainer, BuildError> {
    let pod = inputs.request.pod.as_ref();
    let name = &inputs.request.name;
    let container = find_container(pod, name).ok_or_else(|| BuildError::NoContainer(name.clone()))?;
    let hostname = pod_hostname(pod, &host.dns.domain, host.hostname)?;
    Builder { host, inputs, pod, container: container.as_ref(), hostname }.build()
}

struct Builder<'a> {
    host: &'a ContainerHost<'a>,
    inputs: &'a ContainerInputs<'a>,
    pod: &'a Pod,
    container: &'a Container,
    hostname: PodHostname,
}

impl Builder<'_> {
    /// In the order in which a kubelet finds faults: environment, volumes, image, user, security.
    fn build(&self) -> Result<BuiltContainer, BuildError> {
        let (pod, container, request) = (self.pod, self.container, self.inputs.request);
        let node = self.host.node;
        let of = EnvironmentOf { pod, container, node, pod_ips: &self.inputs.sandbox.ips };
        let declared = declared_environment(&of, self.inputs.environment)?;
        let mut mounts = self.volume_mounts(&declared)?;
        let image = self.host.images.find(&request.image_id)?;
        let image = image.ok_or_else(|| BuildError::NoImage(request.image_id.clone()))?;
        let layers = self.host.images.layer_directories(&image);
        let effective = Effective::of(pod, container.security_context.as_ref());
        let user = resolve_user(&effective, pod, &container.name, &image.config.user, &accounts(&layers)?)?;
        let security = effective.security_config(&|path| read_profile(&self.host.paths.seccomp_profiles(), path))?;
        let argv = self.argv(&image, &declared)?;
        let env = self.environment(&image, &user.home, &declared);
        let termination_message = self.termination_message()?;
        mounts.extend(self.network_files()?);
        mounts.extend(
            termination_message
                .host_path
                .as_ref()
                .map(|path| bind(path, Path::new(&termination_message.container_path), MountAccess::ReadWrite)),
        );
        let mut config = ContainerConfig {
            pod: self.inputs.reference.clone(),
            name: container.name.clone(),
            role: request.role,
            attempt: request.attempt,
            spec_image: container.image.clone().unwrap_or_default(),
            image: image.name().to_owned(),
            image_id: request.image_id.clone(),
            rootfs: Rootfs::Directory(PathBuf::new()),
            read_only_rootfs: effective.read_only_root_filesystem,
            argv,
            env,
            working_directory: working_directory(container, &image),
            user: user.user,
            security,
            mounts,
            devices: Vec::new(),
            resources: container_resources(pod, container),
            oom_score_adj: Some(api::oom::oom_score_adj(pod, container, self.host.memory_bytes)),
            tty: container.tty == Some(true),
            stdin: container.stdin == Some(true),
            stdin_once: container.stdin_once == Some(true),
            log_path: Some(self.host.paths.log(self.inputs.reference, &container.name, request.attempt)),
            termination_message,
            stop_signal: image.config.stop_signal.clone(),
            target: request.target.clone(),
            labels: BTreeMap::new(),
        };
        // The writable layer is named after the container, whose id is made of the rest.
        config.rootfs = rootfs(self.host.paths, &config.id(&request.sandbox), layers);
        Ok(BuiltContainer { config, image: image.id })
    }

    fn volume_mounts(&self, environment: &BTreeMap<String, String>) -> Result<Vec<MountConfig>, BuildError> {
        let context = VolumeContext {
            pod: self.pod,
            node: self.host.node,
            sources: self.inputs.volumes,
            images: self.host.images,
            now: self.inputs.now,
        };
        let wanted = ContainerMounts {
            container: &self.container.name,
            volume_mounts: self.container.volume_mounts.as_deref().unwrap_or_default(),
            environment,
        };
        let volumes = PodVolumes::new(&self.host.paths.pod(&self.inputs.reference.uid));
        Ok(volumes.mounts(&context, &wanted)?)
    }

    fn argv(&self, image: &Image, environment: &BTreeMap<String, String>) -> Result<Vec<String>, BuildError> {
        let argv = argv(
            self.container.command.as_deref().unwrap_or_default(),
            self.container.args.as_deref().unwrap_or_default(),
            &image.config,
            &|name| environment.get(name).cloned(),
        );
        if argv.is_empty() { Err(BuildError::NoCommand) } else { Ok(argv) }
    }

    fn environment(&self, image: &Image, home: &str, declared: &BTreeMap<String, String>) -> Vec<EnvVar> {
        let runtime = RuntimeEnvironment {
            image: &image.config.environment,
            hostname: &self.hostname.kernel_hostname,
            home,
            tty: self.container.tty == Some(true),
        };
        whole_environment(&runtime, declared)
    }

    /// The file for the termination message: fresh for each run, and anybody may write it (L-740).
    fn termination_message(&self) -> Result<TerminationMessageConfig, BuildError> {
        let container = self.container;
        let wanted = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        let container_path = format!("/{}", wanted.unwrap_or("/dev/termination-log").trim_start_matches('/'));
        let uid = &self.inputs.reference.uid;
        let host_path = self.host.paths.termination_message(uid, &container.name, self.inputs.request.attempt);
        write_file(&host_path, b"", 0o666)?;
        let policy = container.termination_message_policy.as_deref();
        Ok(TerminationMessageConfig {
            container_path,
            host_path: Some(host_path),
            fallback_to_logs_on_error: policy == Some("FallbackToLogsOnError"),
        })
    }

    /// `/etc/hosts`, `/etc/resolv.conf` and `/etc/hostname`, unless the container mounts something there itself.
    fn network_files(&self) -> Result<Vec<MountConfig>, BuildError> {
        let (paths, uid) = (self.host.paths, &self.inputs.reference.uid);
        let context = self.container.security_context.as_ref();
        let is_read_only = context.and_then(|context| context.read_only_root_filesystem) == Some(true);
        let of_rootfs = if is_read_only { MountAccess::ReadOnly } else { MountAccess::ReadWrite };
        let hostname = format!("{}\n", self.hostname.kernel_hostname);
        let files = [
            (paths.hosts(uid), "/etc/hosts", self.hosts(), MountAccess::ReadWrite),
            (paths.resolv_conf(uid), "/etc/resolv.conf", self.resolv_conf(), of_rootfs),
            (paths.hostname(uid), "/etc/hostname", hostname, of_rootfs),
        ];
        let mut mounts = Vec::new();
        for (path, destination, content, access) in files {
            let is_mounted = self.container.volume_mounts.iter().flatten().any(|mount| mount.mount_path == destination);
            if !is_mounted {
                write_file(&path, content.as_bytes(), 0o644)?;
                mounts.push(bind(&path, Path::new(destination), access));
            }
        }
        Ok(mounts)
    }

    fn hosts(&self) -> String {
        let spec = self.pod.spec.as_ref();
        let aliases = spec.and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
        if self.inputs.sandbox.host_network {
            // A node without the file has no names of its own.
            host_network_hosts(&fs::read_to_string("/etc/hosts").unwrap_or_default(), aliases)
        } else {
            pod_hosts(&self.inputs.sandbox.ips, &self.hostname, aliases)
        }
    }

    fn resolv_conf(&self) -> String {
        // A node without the file has no resolver.
        let of_node = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        pod_resolv_conf(self.pod, self.host.dns, &of_node).text
    }
}

fn accounts(layers: &[PathBuf]) -> Result<Accounts, ImageFileError> {
    let root = ImageRoot::new(layers);
    let read = |path: &str| {
        let content = root.read(Path::new(path), ACCOUNTS_BYTES_MAX)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&content).into_owned())
    };
    Ok(Accounts { passwd: read("/etc/passwd")?, group: read("/etc/group")? })
}

/// A `Localhost` profile; the API has refused paths that lead upwards, and a link out of the directory is not followed.
fn read_profile(directory: &Path, path: &str) -> Result<String, SecurityError> {
    let failed = |problem: String| SecurityError::Profile {
        path: path.to_owned(),
        problem,
        directory: directory.display().to_string(),
    };
    let layers = [directory.to_owned()];
    let content = ImageRoot::new(&layers)
        .read(Path::new(path), SECCOMP_PROFILE_BYTES_MAX)
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed("no such file".to_owned()))?;
    String::from_utf8(content).map_err(|_| failed("it is not text".to_owned()))
}

fn rootfs(paths: &DataPaths, id: &ContainerId, lower_directories: Vec<PathBuf>) -> Rootfs {
    let directory = paths.writable_layer(id);
    Rootfs::Overlay {
        lower_directories,
        upper_directory: directory.join("upper"),
        work_directory: directory.join("work"),
    }
}

fn working_directory(container: &Container, image: &Image) -> String {
    let own = container.working_dir.clone().filter(|directory| !directory.is_empty());
    own.unwrap_or_else(|| image.config.working_directory.clone())
}

/// Writes a file in place: containers that run already have it mounted.
fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<(), BuildError> {
    let write = || {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, content)?;
        // The mode of a new file is subject to the umask.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    write().map_err(|source| BuildError::File { path: path.to_owned(), source })
}

fn bind(path: &Path, destination: &Path, access: MountAccess) -> MountConfig {
    MountConfig {
        destination: destination.to_owned(),
        source: MountSource::Bind {
            path: path.to_owned(),
            sub_path: None,
            access,
            propagation: MountPropagation::Private,
        },
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
