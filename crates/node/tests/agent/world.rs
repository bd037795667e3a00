//! A data directory, an API and an agent of its own for each test, and proof that nothing is left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use node::agent::{Agent, AgentConfig};
use node::images::{ImageStore, Silent};
use node::logs::{ContainerLog, DirectoryWatches, LogOptions, PodLogs};
use node::paths::DataPaths;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::Objects;
use crate::image_builder::ImageBuilder;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The image of all tests: Debian's busybox.
pub(crate) const IMAGE: &str = "busybox:test";

/// What a test has.
pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) objects: Arc<Objects>,
    pub(crate) agent: Option<Agent>,
}

impl World {
    /// An agent that works, with the image loaded.
    pub(crate) async fn new() -> Outcome<World> {
        let mut world = World::without_agent()?;
        world.start_agent().await?;
        Ok(world)
    }

    fn without_agent() -> Outcome<World> {
        let directory = tempfile::Builder::new().prefix("monopod-agent-").tempdir()?;
        load_image(&directory.path().join("images"))?;
        Ok(World { directory, objects: Arc::new(Objects::default()), agent: None })
    }

    pub(crate) async fn start_agent(&mut self) -> Outcome {
        let agent = Agent::start(self.config(), Arc::clone(&self.objects) as _).await;
        self.agent = Some(agent.map_err(|error| chain(&error))?);
        Ok(())
    }

    pub(crate) async fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    pub(crate) fn config(&self) -> AgentConfig {
        AgentConfig::new(self.path(), "node-1")
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a pod as an API server stores it and a scheduler binds it.
    pub(crate) fn create(&self, name: &str, spec: Value) -> Outcome {
        self.objects.apply(pod(name, spec)?);
        Ok(())
    }

    /// Waits until a pod is as wanted, and gives it.
    pub(crate) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Pod) -> bool) -> Outcome<Pod> {
        let mut changes = self.objects.changes();
        let wait = async {
            loop {
                if let Some(pod) = self.objects.pod(name).filter(&is_so) {
                    return pod;
                }
                // The sender lives as long as the world.
                let _ = changes.changed().await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(pod) => Ok(pod),
            Err(_) => Err(format!(
                "pod `{name}` is not {what} within {PATIENCE:?}: {}\nevents: {:#?}",
                serde_json::to_string_pretty(&self.objects.pod(name).and_then(|pod| pod.status))?,
                self.objects.events(name),
            )
            .into()),
        }
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Outcome<Pod> {
        self.until(name, phase, |pod| status(pod).phase.as_deref() == Some(phase)).await
    }

    /// Waits until a pod's object is gone.
    pub(crate) async fn until_gone(&self, name: &str) -> Outcome {
        let mut changes = self.objects.changes();
        let wait = async {
            while self.objects.pod(name).is_some() {
                // The sender lives as long as the world.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.map_err(|_| format!("pod `{name}` is not gone"))?;
        Ok(())
    }

    /// Waits until an event about a pod is recorded.
    pub(crate) async fn until_event(&self, pod: &str, event: &str) -> Outcome {
        let mut changes = self.objects.changes();
        let wait = async {
            while !self.objects.events(pod).iter().any(|known| known == event) {
                // The sender lives as long as the world.
                let _ = changes.changed().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.map_err(|_| format!("no event `{event}`: {:#?}", self.objects.events(pod)))?;
        Ok(())
    }

    /// What a container has written in one of its runs.
    pub(crate) async fn log(&self, pod: &str, container: &str, attempt: u32) -> Outcome<String> {
        let pod = self.objects.pod(pod).ok_or("there is no such pod")?;
        self.log_of(&pod, container, attempt).await
    }

    pub(crate) async fn log_of(&self, pod: &Pod, container: &str, attempt: u32) -> Outcome<String> {
        let path = DataPaths::new(self.path()).log(&pod_ref(pod), container, attempt);
        let watches = DirectoryWatches::start()?;
        let options = LogOptions::default();
        let mut log = ContainerLog::open(&path, &options, &watches, CancellationToken::new()).await?;
        let mut text = Vec::new();
        while let Some(bytes) = log.next().await? {
            text.extend(bytes);
        }
        Ok(String::from_utf8(text)?)
    }

    /// Waits until a container of a pod has written something, and gives its first line.
    pub(crate) async fn first_line(&self, pod: &Pod, container: &str, attempt: u32) -> Outcome<String> {
        let directory = DataPaths::new(self.path()).pod_logs(&pod_ref(pod));
        let watches = Arc::new(DirectoryWatches::start()?);
        let mut logs = PodLogs::follow(&directory, watches, CancellationToken::new()).await?;
        let wait = async {
            while let Some(line) = logs.next().await? {
                if line.container == container && line.attempt == attempt {
                    return Ok(String::from_utf8(line.entry.content)?);
                }
            }
            Err("the logs have ended".into())
        };
        tokio::time::timeout(PATIENCE, wait).await?
    }

    /// Ends everything and proves that nothing is left.
    pub(crate) async fn close(mut self) -> Outcome {
        self.stop_agent().await;
        node::remove_everything(self.path()).await?;
        let left = leftovers(self.path());
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:#?}").into()) }
    }
}

/// Mounts, cgroups, processes and holds on images of a data directory.
pub(crate) fn leftovers(directory: &Path) -> Vec<String> {
    let name = directory.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = mounts.lines().filter(|line| line.contains(&name)).map(|line| format!("mount: {line}"));
    let prefix = AgentConfig::new(directory, "node-1").runtime.cgroup_prefix;
    let cgroups = cgroups(Path::new("/sys/fs/cgroup"), &prefix, 2);
    let cgroups = cgroups.into_iter().map(|path| format!("cgroup: {}", path.display()));
    let processes = processes(&name).into_iter().map(|line| format!("process: {line}"));
    let holds = ImageStore::open(&directory.join("images")).ok().and_then(|images| images.holders().ok());
    let holds = holds.unwrap_or_default().into_keys().map(|holder| format!("hold: {holder}"));
    mounts.chain(cgroups).chain(processes).chain(holds).collect()
}

fn cgroups(directory: &Path, prefix: &str, depth: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found = Vec::new();
    for entry in directories {
        if entry.file_name().to_string_lossy().contains(prefix) {
            found.push(entry.path());
        } else if depth > 0 {
            found.extend(cgroups(&entry.path(), prefix, depth - 1));
        }
    }
    found
}

fn processes(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let commands = entries.flatten().filter_map(|entry| {
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&command).replace('\0', " "))
    });
    commands.filter(|command| command.contains(name)).collect()
}

fn load_image(directory: &Path) -> Outcome {
    let store = ImageStore::open(directory)?;
    let archive = tempfile::Builder::new().suffix(".tar").tempfile()?;
    let builder = ImageBuilder::new(IMAGE).busybox().map_err(|error| error.to_string())?;
    let builder = builder.config(json!({"Cmd": ["/bin/sh", "-c", "echo image"], "Env": ["FROM_IMAGE=1"]}));
    let file = builder.write_docker_archive(archive.path()).map_err(|error| error.to_string())?;
    store.load(&file, None, &Silent).map_err(|error| chain(&error))?;
    Ok(())
}

/// A pod as an API server stores it and a scheduler binds it.
pub(crate) fn pod(name: &str, spec: Value) -> Outcome<Pod> {
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1,
                     "creationTimestamp": jiff::Timestamp::now().to_string(), "labels": {"app": name}},
        "spec": spec,
        "status": {"phase": "Pending"},
    }))?;
    api::defaults::pod(&mut pod);
    if let Some(spec) = &mut pod.spec {
        spec.node_name = Some("node-1".to_owned());
    }
    Ok(pod)
}

/// A container that runs a script.
pub(crate) fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script]})
}

/// A container with more fields.
pub(crate) fn with(mut container: Value, fields: Value) -> Value {
    if let (Some(container), Value::Object(fields)) = (container.as_object_mut(), fields) {
        container.extend(fields);
    }
    container
}

pub(crate) fn pod_ref(pod: &Pod) -> lifecycle::PodRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    lifecycle::PodRef {
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        uid: lifecycle::PodUid(text(&pod.metadata.uid)),
    }
}

pub(crate) fn status(pod: &Pod) -> PodStatus {
    pod.status.clone().unwrap_or_default()
}

/// The status of a container, init or not; an empty one if there is none.
pub(crate) fn container(pod: &Pod, name: &str) -> ContainerStatus {
    let status = status(pod);
    let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    all.into_iter().find(|container| container.name == name).unwrap_or_default()
}

pub(crate) fn state(pod: &Pod, name: &str) -> ContainerState {
    container(pod, name).state.unwrap_or_default()
}

/// `running`, `waiting <reason>: <message>` or `exited <code> <reason>`.
pub(crate) fn described(state: &ContainerState) -> String {
    if state.running.is_some() {
        return "running".to_owned();
    }
    if let Some(ended) = &state.terminated {
        return format!("exited {} {}", ended.exit_code, ended.reason.clone().unwrap_or_default());
    }
    let waiting = state.waiting.clone().unwrap_or_default();
    format!("waiting {}: {}", waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default())
}

pub(crate) fn is_running(pod: &Pod, name: &str) -> bool {
    state(pod, name).running.is_some()
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = status(pod).conditions.unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits until the machine is as wanted. Nothing tells of that, so it is asked.
pub(crate) async fn until(is_so: impl Fn() -> bool) -> Outcome {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    Ok(tokio::time::timeout(PATIENCE, wait).await?)
}

/// Fails with both values if they differ.
pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?}, wanted {wanted:?}").into()) }
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}

#[expect(clippy::print_stderr, reason = "a test that cannot run here says so")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}
