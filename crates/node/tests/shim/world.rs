//! A runtime of its own for each test, a root file system of busybox, and proof that nothing is left behind.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lifecycle::{
    ContainerId, ContainerRecord, ContainerRole, Exit, PodObservation, PodRef, PodUid, RuntimeState, SandboxId,
};
use node::cgroup::Hierarchy;
use node::runtime::config::{
    ContainerConfig, EnvVar, LinuxResources, NamespaceMode, PidNamespaceMode, Rootfs, SandboxConfig, SandboxNamespaces,
    SeccompProfile, SecurityConfig, TerminationMessageConfig, UserConfig,
};
use node::runtime::{CapturedExec, Observations, RuntimeConfig, RuntimeService};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const BUSYBOX: &str = "/bin/busybox";
const APPLETS: &[&str] = &[
    "sh",
    "cat",
    "ls",
    "echo",
    "sleep",
    "id",
    "grep",
    "mknod",
    "head",
    "tail",
    "kill",
    "ps",
    "mount",
    "touch",
    "true",
    "false",
    "env",
    "pwd",
    "yes",
    "dd",
    "hostname",
    "mkdir",
    "stat",
    "tty",
    "stty",
    "wc",
    "ip",
    "ping",
    "nc",
    "chroot",
    "unshare",
    "tr",
    "sed",
    "setsid",
    "readlink",
    "ulimit",
    "df",
    "printf",
    "seq",
    "mountpoint",
    "umount",
    "rm",
];

/// Makes a root file system with a static busybox in it.
fn make_root(root: &Path) -> Outcome {
    fs::create_dir(root)?;
    for directory in ["bin", "etc", "proc", "sys", "dev", "tmp", "data"] {
        fs::create_dir(root.join(directory))?;
    }
    fs::copy(BUSYBOX, root.join("bin/busybox"))
        .map_err(|error| format!("{BUSYBOX}: {error} (apt-get install busybox-static)"))?;
    for applet in APPLETS {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\napp:x:1000:\n")?;
    Ok(())
}

/// Where a world lives.
pub(crate) enum Directory {
    Own(tempfile::TempDir),
    Others(PathBuf),
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Directory::Own(directory) => directory.path(),
            Directory::Others(path) => path,
        }
    }
}

/// A runtime with its own state directory and cgroups.
pub(crate) struct World {
    pub(crate) directory: Directory,
    pub(crate) config: RuntimeConfig,
    pub(crate) runtime: RuntimeService,
    pub(crate) observations: Observations,
}

impl World {
    pub(crate) async fn new() -> Outcome<World> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = tempfile::Builder::new().prefix("monopod-shim-").tempdir()?;
        make_root(&directory.path().join("rootfs"))?;
        let prefix = format!("monopod-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let config = RuntimeConfig::new(&directory.path().join("runtime"), &prefix);
        let (runtime, observations) = RuntimeService::open(config.clone()).await?;
        Ok(World { directory: Directory::Own(directory), config, runtime, observations })
    }

    /// The same for a process that is going to be killed: the directory is another's.
    pub(crate) async fn adopt(directory: &Path, prefix: &str) -> Outcome<World> {
        let config = RuntimeConfig::new(&directory.join("runtime"), prefix);
        let (runtime, observations) = RuntimeService::open(config.clone()).await?;
        Ok(World { directory: Directory::Others(directory.to_owned()), config, runtime, observations })
    }

    /// A second agent on the same state, as after a restart.
    pub(crate) async fn reopen(&mut self) -> Outcome {
        let (runtime, observations) = RuntimeService::open(self.config.clone()).await?;
        self.runtime = runtime;
        self.observations = observations;
        Ok(())
    }

    /// Runs a sandbox with one container that is started at once.
    pub(crate) async fn run(&self, script: &str) -> Outcome<(SandboxId, ContainerId)> {
        self.run_container(&self.shell("main", script)?).await
    }

    /// Runs a sandbox with the given container, started.
    pub(crate) async fn run_container(&self, config: &ContainerConfig) -> Outcome<(SandboxId, ContainerId)> {
        let sandbox = self.runtime.run_sandbox(&sandbox_config("pod")).await?.id;
        let container = self.runtime.create_container(&sandbox, config).await?;
        self.runtime.start_container(&container).await?;
        Ok((sandbox, container))
    }

    /// A container that runs a script in busybox's shell.
    pub(crate) fn shell(&self, name: &str, script: &str) -> Outcome<ContainerConfig> {
        self.program(name, &["/bin/sh", "-c", script])
    }

    /// A container that runs a program.
    pub(crate) fn program(&self, name: &str, argv: &[&str]) -> Outcome<ContainerConfig> {
        let own = self.directory.path().join("containers").join(name);
        fs::create_dir_all(&own)?;
        let message = own.join("termination-log");
        fs::write(&message, "")?;
        let log_path = Some(self.log_path(name));
        Ok(ContainerConfig {
            pod: pod("pod"),
            name: name.to_owned(),
            role: ContainerRole::App,
            attempt: 0,
            spec_image: "busybox".to_owned(),
            image: "docker.io/library/busybox:latest".to_owned(),
            image_id: "docker.io/library/busybox@sha256:0".to_owned(),
            rootfs: Rootfs::Overlay {
                lower_directories: vec![self.root()],
                upper_directory: own.join("layer/upper"),
                work_directory: own.join("layer/work"),
            },
            read_only_rootfs: false,
            argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
            env: vec![EnvVar { name: "GREETING".to_owned(), value: "hello world".to_owned() }],
            working_directory: String::new(),
            user: UserConfig::default(),
            security: SecurityConfig {
                privileged: false,
                capabilities: SecurityConfig::default_capabilities(),
                no_new_privileges: false,
                masked_paths: SecurityConfig::default_masked_paths(),
                read_only_paths: SecurityConfig::default_read_only_paths(),
                seccomp: SeccompProfile::RuntimeDefault,
            },
            mounts: Vec::new(),
            devices: Vec::new(),
            resources: LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() },
            oom_score_adj: Some(1000),
            tty: false,
            stdin: false,
            stdin_once: false,
            log_path,
            termination_message: TerminationMessageConfig {
                container_path: "/dev/termination-log".to_owned(),
                host_path: Some(message),
                fallback_to_logs_on_error: false,
            },
            stop_signal: String::new(),
            target: None,
            labels: BTreeMap::new(),
        })
    }

    /// The root file system with busybox.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("rootfs")
    }

    pub(crate) fn log_path(&self, container: &str) -> PathBuf {
        self.directory.path().join("logs").join(container).join("0.log")
    }

    /// What a container has logged, without the heads of the lines.
    pub(crate) fn log(&self, container: &str) -> Outcome<String> {
        let text = fs::read_to_string(self.log_path(container))?;
        let mut out = String::new();
        for line in text.lines() {
            let mut fields = line.splitn(4, ' ').skip(2);
            let (tag, content) = (fields.next().ok_or("no tag")?, fields.next().ok_or("no text")?);
            out.push_str(content);
            if tag == "F" {
                out.push('\n');
            }
        }
        Ok(out)
    }

    /// Waits until a container has logged exactly this.
    pub(crate) async fn wait_for_log(&self, container: &str, text: &str) -> Outcome {
        self.wait_for_log_that(container, |log| log == text).await
    }

    /// Waits until a container has logged a line with this in it.
    pub(crate) async fn wait_for_log_line(&self, container: &str, part: &str) -> Outcome {
        self.wait_for_log_that(container, |log| log.contains(part)).await
    }

    /// The kernel tells when a log has been written.
    async fn wait_for_log_that(&self, container: &str, is_it: impl Fn(&str) -> bool) -> Outcome {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::fs::inotify;

        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, self.log_path(container), inotify::WatchFlags::MODIFY)?;
        let deadline = Instant::now() + PATIENCE;
        while !is_it(&self.log(container)?) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("waited in vain for the log; it is {:?}", self.log(container)?).into());
            }
            poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&Timespec::try_from(left)?))?;
            let mut events = [0; 4096];
            while rustix::io::read(&watch, &mut events).is_ok() {}
        }
        Ok(())
    }

    /// Waits until the pod is as wanted.
    pub(crate) async fn wait_until(&mut self, is_it: impl Fn(&PodObservation) -> bool) -> Outcome<PodObservation> {
        if let Some(now) = self.runtime.observations().into_iter().find(&is_it) {
            return Ok(now);
        }
        let wait = async {
            loop {
                let observation = self.observations.next().await;
                if is_it(&observation) {
                    return observation;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(observation) => Ok(observation),
            Err(_) => Err(format!("waited in vain; last seen: {:#?}", self.runtime.observations()).into()),
        }
    }

    /// Waits for a container's end.
    pub(crate) async fn exit(&mut self, id: &ContainerId) -> Outcome<Exit> {
        let observation = self.wait_until(|it| matches!(state(it, id), Some(RuntimeState::Exited(_)))).await?;
        match state(&observation, id) {
            Some(RuntimeState::Exited(exit)) => Ok(exit.clone()),
            other => Err(format!("{other:?}").into()),
        }
    }

    pub(crate) fn record(&self, id: &ContainerId) -> Outcome<ContainerRecord> {
        let found = self.runtime.observations().into_iter().flat_map(|it| it.containers).find(|it| it.id == *id);
        Ok(found.ok_or("no record")?)
    }

    pub(crate) async fn exec(&self, id: &ContainerId, script: &str) -> Outcome<CapturedExec> {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned);
        Ok(self.runtime.exec_captured(id, &argv, Some(PATIENCE), 1 << 20).await?)
    }

    /// What a script in a container writes.
    pub(crate) async fn output(&self, id: &ContainerId, script: &str) -> Outcome<String> {
        let captured = self.exec(id, script).await?;
        let text = String::from_utf8_lossy(&captured.output).into_owned();
        if captured.exit.exit_code == 0 {
            Ok(text)
        } else {
            Err(format!("{script}: {:?}: {text}", captured.exit).into())
        }
    }

    /// The shims of this world, by their command line.
    pub(crate) fn shims(&self) -> Vec<i32> {
        let needle = self.directory.path().to_string_lossy().into_owned();
        processes_with(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&needle))
        })
    }

    /// Every process that lives in a cgroup of this world.
    pub(crate) fn contained_processes(&self) -> Vec<i32> {
        processes_with(|pid| {
            fs::read_to_string(format!("/proc/{pid}/cgroup"))
                .is_ok_and(|text| text.contains(&self.config.cgroup_prefix))
        })
    }

    /// Takes everything down and names what is left behind all the same.
    pub(crate) async fn close(self) -> Outcome {
        let ids: Vec<SandboxId> =
            self.runtime.observations().into_iter().flat_map(|it| it.sandboxes).map(|it| it.id).collect();
        for id in &ids {
            let parent = self.runtime.sandbox_config(id).map(|config| config.cgroup_parent);
            self.runtime.remove_sandbox(id).await?;
            if let Some(parent) = parent {
                self.runtime.remove_pod_cgroup(&parent).await?;
            }
        }
        let mut left = Vec::new();
        left.extend(self.shims().into_iter().map(|pid| format!("shim {pid}")));
        left.extend(self.contained_processes().into_iter().map(|pid| format!("process {pid}")));
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let own = self.directory.path().to_string_lossy().into_owned();
        left.extend(mounts.lines().filter(|line| line.contains(&own)).map(|line| format!("mount {line}")));
        for hierarchy in fs::read_dir("/sys/fs/cgroup")? {
            let path = hierarchy?.path().join(&self.config.cgroup_prefix);
            if path.exists() {
                left.push(format!("cgroup {}", path.display()));
            }
        }
        let sandboxes = self.config.state_directory.join("sandboxes");
        left.extend(fs::read_dir(sandboxes)?.flatten().map(|entry| format!("state {}", entry.path().display())));
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:#?}").into()) }
    }
}

impl Drop for World {
    /// For tests that fail half-way: nothing of theirs may live on.
    fn drop(&mut self) {
        for pid in self.shims().into_iter().chain(self.contained_processes()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // It has ended in the meantime.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if let (Directory::Own(_), Ok(hierarchy)) = (&self.directory, Hierarchy::detect(&self.config.cgroup_root)) {
            let own = hierarchy.cgroup(&self.config.cgroup_prefix);
            // A test that succeeded has proved that there is nothing.
            let _ = own.kill(Duration::from_secs(5)).and_then(|()| own.remove());
        }
    }
}

pub(crate) fn pod(name: &str) -> PodRef {
    PodRef { namespace: "default".to_owned(), name: name.to_owned(), uid: PodUid(format!("uid-of-{name}")) }
}

pub(crate) fn sandbox_config(name: &str) -> SandboxConfig {
    SandboxConfig {
        pod: pod(name),
        attempt: 0,
        hostname: name.to_owned(),
        namespaces: SandboxNamespaces {
            network: NamespaceMode::Pod,
            ipc: NamespaceMode::Pod,
            pid: PidNamespaceMode::Container,
        },
        sysctls: BTreeMap::new(),
        cgroup_parent: format!("kubepods/besteffort/pod-{name}"),
        resources: LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() },
        ips: Vec::new(),
        labels: BTreeMap::new(),
    }
}

pub(crate) fn state<'a>(observation: &'a PodObservation, id: &ContainerId) -> Option<&'a RuntimeState> {
    observation.containers.iter().find(|it| it.id == *id).map(|it| &it.state)
}

fn processes_with(is_it: impl Fn(i32) -> bool) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter(|pid| *pid != std::process::id().cast_signed() && is_it(*pid))
        .collect()
}
