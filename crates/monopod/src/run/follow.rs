//! Shows a run as it goes, and ends it: by itself, by a time-out, by Ctrl-C.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::manifest::Severity;
use api::printers::pod_row;
use apiserver::registry::Object;
use apiserver::{DeleteOptions, Registry, ResourceType, Selection, Watch, WatchEvent, WatchOptions};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use lifecycle::{PodRef, PodUid};
use node::logs::{DirectoryWatches, PodLogLine, PodLogs};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pulls::FailedPulls;
use super::render::{PodLine, RenderOptions, Renderer};
use super::session::Session;
use crate::cli::{PullOption, RunOptions};
use crate::commands::open_store;
use crate::control_plane::{ControlPlane, sleep_until};
use crate::data_dir::DataDir;

const EXIT_TIMEOUT: u8 = 124;
const EXIT_INTERRUPTED: u8 = 130;
/// Lines of output that may wait to be printed.
const LINES_MAX: usize = 256;
/// After the pods have ended, how long their last output may take to be read.
const LAST_LINES: Duration = Duration::from_secs(5);

type Out = anstream::AutoStream<std::io::Stdout>;

/// A run that is shown.
pub(crate) struct Follower {
    registry: Registry,
    session: Session,
    renderer: Renderer<Out>,
    watches: Watches,
    logs: Logs,
    pulls: Option<FailedPulls>,
    interrupts: [Signal; 2],
    timeout: Option<Instant>,
    end: Option<Ending>,
}

/// Why a run is ended before its time.
struct Ending {
    code: u8,
    /// Pods that are to be gone first.
    is_killed: bool,
}

struct Watches {
    pods: Watch,
    jobs: Watch,
    events: Watch,
}

/// Which change of what.
enum Change {
    Pod(WatchEvent),
    Job(WatchEvent),
    Event(WatchEvent),
}

impl Follower {
    pub(crate) fn start(
        options: &RunOptions,
        plane: &ControlPlane,
        data_dir: &DataDir,
        workloads: usize,
    ) -> anyhow::Result<Follower> {
        let registry = plane.registry().clone();
        let render = RenderOptions { format: options.output, quiet: options.quiet, no_logs: options.no_logs };
        let pulls = match options.pull {
            PullOption::Policy => Some(FailedPulls::new(open_store(data_dir)?)),
            _ => None,
        };
        Ok(Follower {
            session: Session::expecting(workloads),
            renderer: Renderer::new(anstream::stdout(), render),
            watches: Watches {
                pods: watch::<Pod>(&registry)?,
                jobs: watch::<Job>(&registry)?,
                events: watch::<Event>(&registry)?,
            },
            logs: Logs::new(plane)?,
            pulls,
            interrupts: [
                signal(SignalKind::interrupt()).context("cannot listen for Ctrl-C")?,
                signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            ],
            timeout: options.timeout.map(|timeout| Instant::now() + timeout),
            end: None,
            registry,
        })
    }

    /// Shows what happens until all has ended; answers the exit code.
    pub(crate) async fn until_the_end(mut self) -> anyhow::Result<u8> {
        loop {
            if self.is_over() {
                self.last_lines().await?;
                return Ok(self.end.map_or_else(|| self.session.exit_code(), |end| end.code));
            }
            let finding_at = self.session.next_finding_at().filter(|_| self.end.is_none());
            let now = self.registry.now();
            let [interrupt, terminate] = &mut self.interrupts;
            tokio::select! {
                change = self.watches.next() => self.take(change?)?,
                Some((pod, line)) = self.logs.lines.recv() => print_line(&mut self.renderer, pod.as_str(), &line)?,
                () = sleep_until(finding_at, now) => self.tell_findings()?,
                () = wait(self.timeout) => self.time_out().await?,
                _ = interrupt.recv() => self.interrupt().await?,
                _ = terminate.recv() => self.interrupt().await?,
            }
        }
    }

    fn is_over(&self) -> bool {
        match &self.end {
            Some(end) => end.is_killed || self.session.is_empty(),
            None => self.session.is_over(),
        }
    }

    fn take(&mut self, change: Change) -> anyhow::Result<()> {
        match change {
            Change::Pod(event) => self.take_pod(event),
            Change::Job(event) => self.take_job(event),
            Change::Event(WatchEvent::Added(object) | WatchEvent::Modified(object)) => self.take_event(&object),
            Change::Event(_) => Ok(()),
        }
    }

    fn take_pod(&mut self, event: WatchEvent) -> anyhow::Result<()> {
        let Some((change, object)) = described(event) else { return Ok(()) };
        let pod = Pod::deserialize(&*object).context("a stored pod can't be read")?;
        self.logs.follow(&pod, change)?;
        self.show_pod(change, &object, &pod)?;
        match change {
            "DELETED" => self.session.delete_pod(&pod),
            _ => self.session.apply_pod(pod),
        }
        Ok(())
    }

    fn show_pod(&mut self, change: &str, object: &Value, pod: &Pod) -> anyhow::Result<()> {
        let row = pod_row(pod, self.registry.now());
        let line =
            PodLine { name: row.name, ready: row.ready, status: row.status, restarts: row.restarts, age: row.age };
        Ok(self.renderer.pod(change, object, line)?)
    }

    fn take_job(&mut self, event: WatchEvent) -> anyhow::Result<()> {
        let Some((change, object)) = described(event) else { return Ok(()) };
        self.renderer.job(change, &object)?;
        let job = Job::deserialize(&*object).context("a stored Job can't be read")?;
        // Pods of a Job are called by its name, a dash and five characters.
        self.renderer.expect_name(job.metadata.name.as_deref().unwrap_or_default().len() + 6);
        match change {
            "DELETED" => self.session.delete_job(&job),
            _ => self.session.apply_job(job),
        }
        Ok(())
    }

    fn take_event(&mut self, object: &Value) -> anyhow::Result<()> {
        let event = Event::deserialize(object).context("a stored event can't be read")?;
        let text = |text: Option<String>| text.unwrap_or_default();
        let name = text(event.involved_object.name);
        let (kind, reason, message) = (text(event.type_), text(event.reason), text(event.message));
        self.renderer.event(object, &name, kind == "Warning", &reason, &message)?;
        let severity = if kind == "Warning" { Severity::Warning } else { Severity::Error };
        if let Some(image) = self.pulls.as_mut().and_then(|pulls| pulls.take(severity, &reason, &message)) {
            let hint = format!(
                "image `{image}` is loaded here, but the manifest's policy is to pull it: run with `--pull missing`, or write `imagePullPolicy: IfNotPresent`"
            );
            self.renderer.hint(&name, &hint)?;
        }
        Ok(())
    }

    fn tell_findings(&mut self) -> anyhow::Result<()> {
        for (name, finding) in self.session.take_findings(self.registry.now()) {
            let hint = "make it a native sidecar: move it from `containers` to `initContainers`, with its own `restartPolicy: Always`";
            self.renderer.finding(&name, &finding.to_string(), hint, &finding.remedy())?;
        }
        Ok(())
    }

    async fn time_out(&mut self) -> anyhow::Result<()> {
        self.timeout = None;
        if self.end.is_none() {
            self.end = Some(Ending { code: EXIT_TIMEOUT, is_killed: false });
            self.delete_everything().await?;
        }
        Ok(())
    }

    /// The first Ctrl-C deletes, the second kills.
    async fn interrupt(&mut self) -> anyhow::Result<()> {
        match &mut self.end {
            Some(end) => end.is_killed = true,
            None => {
                self.end = Some(Ending { code: EXIT_INTERRUPTED, is_killed: false });
                self.delete_everything().await?;
            }
        }
        Ok(())
    }

    /// Deletes Jobs and pods with the grace that they ask for.
    async fn delete_everything(&mut self) -> anyhow::Result<()> {
        let options = DeleteOptions::with(apiserver::Propagation::Background);
        delete_all::<Job>(&self.registry, &options).await?;
        delete_all::<Pod>(&self.registry, &options).await
    }

    /// Prints what the containers wrote last.
    async fn last_lines(&mut self) -> anyhow::Result<()> {
        let killed = self.end.as_ref().is_some_and(|end| end.is_killed);
        self.logs.end();
        let deadline = Instant::now() + if killed { Duration::ZERO } else { LAST_LINES };
        while let Ok(Some((pod, line))) = tokio::time::timeout_at(deadline, self.logs.lines.recv()).await {
            print_line(&mut self.renderer, &pod, &line)?;
        }
        Ok(())
    }
}

impl Watches {
    /// The next change. Pods before events, so that a line stands before what is said about it.
    async fn next(&mut self) -> anyhow::Result<Change> {
        tokio::select! {
            biased;
            event = self.jobs.next() => Ok(Change::Job(event?)),
            event = self.pods.next() => Ok(Change::Pod(event?)),
            event = self.events.next() => Ok(Change::Event(event?)),
        }
    }
}

/// The output of all pods, read by one task for each until the pod has ended.
struct Logs {
    paths: node::paths::DataPaths,
    watches: Arc<DirectoryWatches>,
    sender: Option<mpsc::Sender<(String, PodLogLine)>>,
    lines: mpsc::Receiver<(String, PodLogLine)>,
    pods: BTreeMap<String, CancellationToken>,
    seen: BTreeSet<String>,
    /// Owns the readers: they end with it.
    readers: JoinSet<()>,
}

impl Logs {
    fn new(plane: &ControlPlane) -> anyhow::Result<Logs> {
        let (sender, lines) = mpsc::channel(LINES_MAX);
        let watches = DirectoryWatches::start().context("cannot watch the directories of logs")?;
        Ok(Logs {
            paths: plane.paths().clone(),
            watches: Arc::new(watches),
            sender: Some(sender),
            lines,
            pods: BTreeMap::new(),
            seen: BTreeSet::new(),
            readers: JoinSet::new(),
        })
    }

    /// Begins to read a pod's output, or ends it when nothing more can come.
    fn follow(&mut self, pod: &Pod, change: &str) -> anyhow::Result<()> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let uid = text(&pod.metadata.uid);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if self.seen.insert(uid.clone()) {
            let pod = PodRef {
                namespace: text(&pod.metadata.namespace),
                name: text(&pod.metadata.name),
                uid: PodUid(uid.clone()),
            };
            self.read(pod);
        }
        if (change == "DELETED" || matches!(phase, Some("Succeeded" | "Failed")))
            && let Some(ended) = self.pods.remove(&uid)
        {
            ended.cancel();
        }
        Ok(())
    }

    fn read(&mut self, pod: PodRef) {
        let Some(sender) = self.sender.clone() else { return };
        let ended = CancellationToken::new();
        self.pods.insert(pod.uid.0.clone(), ended.clone());
        let (directory, watches) = (self.paths.pod_logs(&pod), Arc::clone(&self.watches));
        self.readers.spawn(async move {
            if let Err(error) = send_lines(&pod, &directory, watches, ended, &sender).await {
                tracing::warn!(pod = pod.name, %error, "the output of a pod can't be read");
            }
        });
    }

    /// Nothing more will be written by anybody.
    fn end(&mut self) {
        self.sender = None;
        std::mem::take(&mut self.pods).into_values().for_each(|ended| ended.cancel());
    }
}

async fn send_lines(
    pod: &PodRef,
    directory: &std::path::Path,
    watches: Arc<DirectoryWatches>,
    ended: CancellationToken,
    sender: &mpsc::Sender<(String, PodLogLine)>,
) -> Result<(), node::logs::LogError> {
    let mut logs = PodLogs::follow(directory, watches, ended).await?;
    while let Some(line) = logs.next().await? {
        if sender.send((pod.name.clone(), line)).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn print_line(renderer: &mut Renderer<Out>, pod: &str, line: &PodLogLine) -> std::io::Result<()> {
    let text = String::from_utf8_lossy(&line.entry.content);
    renderer.log(pod, &line.container, line.entry.stream.as_str(), &text)
}

/// A watch from this moment on: a run's store is empty when it begins.
fn watch<K: Object>(registry: &Registry) -> anyhow::Result<Watch> {
    let resource = ResourceType::of::<K>().with_context(|| format!("{} is not served", K::KIND))?;
    Ok(registry.watch(resource, None, WatchOptions::default())?)
}

fn described(event: WatchEvent) -> Option<(&'static str, Arc<Value>)> {
    match event {
        WatchEvent::Added(object) => Some(("ADDED", object)),
        WatchEvent::Modified(object) => Some(("MODIFIED", object)),
        WatchEvent::Deleted(object) => Some(("DELETED", object)),
        WatchEvent::InitialEnd(_) => None,
    }
}

async fn delete_all<K: Object>(registry: &Registry, options: &DeleteOptions) -> anyhow::Result<()> {
    for object in registry.list_typed::<K>(None, Selection::all())? {
        let metadata = object.metadata();
        let (namespace, name) =
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        match registry.delete_typed::<K>(&namespace, &name, options).await {
            Err(error) if error.is_not_found() => {}
            answer => {
                answer.with_context(|| format!("cannot delete {} `{name}`", K::KIND))?;
            }
        }
    }
    Ok(())
}

async fn wait(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
