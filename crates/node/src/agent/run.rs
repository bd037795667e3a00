//! The loop: what happened goes into the engine, what it asks for becomes a task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::{Action, Effect, EffectId, Engine, Input, Outcome, PodRef, PodUid};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::effects::{self, of_panic};
use super::leftovers;
use super::world::World;
use crate::cluster::{PodChange, ReferenceChange};
use crate::paths::is_file_name;
use crate::runtime::Observations;

/// How long tasks that are under way may take to end when the agent stops.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long the logs of a pod whose object is gone stay, for those who read them to the end.
const LOGS_LINGER: Duration = Duration::from_secs(5);

/// The state of the loop.
pub(super) struct Run {
    engine: Engine,
    world: Arc<World>,
    observations: Observations,
    requests: mpsc::Receiver<Input>,
    stop: CancellationToken,
    /// The effects that are being carried out.
    tasks: JoinSet<(EffectId, Outcome)>,
    in_flight: BTreeMap<Id, InFlight>,
    cancellations: BTreeMap<EffectId, CancellationToken>,
    /// Work beside the engine's: nothing waits for it.
    chores: JoinSet<()>,
    pods: Pods,
}

/// What is known of a task, for when it dies or has torn a pod down.
struct InFlight {
    effect: EffectId,
    pod: PodRef,
    is_probe: bool,
    is_tear_down: bool,
}

/// Whose logs are to go: pods that are torn down and whose object is gone.
#[derive(Default)]
struct Pods {
    /// Pods with an object.
    applied: BTreeMap<PodUid, PodRef>,
    /// Pods whose object is gone.
    deleted: BTreeMap<PodUid, PodRef>,
    torn_down: BTreeSet<PodUid>,
}

/// What can wake the loop.
enum Wake {
    Stop,
    Pod(Option<PodChange>),
    Reference(Option<ReferenceChange>),
    Observed(lifecycle::PodObservation),
    Request(Input),
    Task(Result<(Id, (EffectId, Outcome)), JoinError>),
    Chore,
    Timeout,
}

impl Run {
    pub(super) fn new(
        engine: Engine,
        world: Arc<World>,
        observations: Observations,
        requests: mpsc::Receiver<Input>,
        stop: CancellationToken,
    ) -> Self {
        Run {
            engine,
            world,
            observations,
            requests,
            stop,
            tasks: JoinSet::new(),
            in_flight: BTreeMap::new(),
            cancellations: BTreeMap::new(),
            chores: JoinSet::new(),
            pods: Pods::default(),
        }
    }

    pub(super) async fn until_stopped(mut self) {
        for observation in self.world.runtime.observations() {
            self.handle(Input::Observed(observation));
        }
        // The watch of references begins first, so that nothing changes unseen between the two.
        let mut references = self.world.cluster.watch_references();
        let mut pods = self.world.cluster.watch_pods();
        loop {
            self.carry_out();
            match self.wake(&mut pods, &mut references).await {
                Wake::Stop => break,
                Wake::Pod(Some(change)) => self.pod_changed(change),
                Wake::Pod(None) => {
                    tracing::error!("the watch of pods has ended; pods go on as they are");
                    pods = futures::stream::pending().boxed();
                }
                Wake::Reference(Some(change)) => self.handle(Input::ReferenceChanged {
                    kind: change.kind,
                    namespace: change.namespace,
                    name: change.name,
                }),
                Wake::Reference(None) => {
                    tracing::error!("the watch of ConfigMaps and Secrets has ended; volumes are no longer refreshed");
                    references = futures::stream::pending().boxed();
                }
                Wake::Observed(observation) => self.handle(Input::Observed(observation)),
                Wake::Request(input) => self.handle(input),
                Wake::Task(ended) => self.task_ended(ended),
                Wake::Chore => {}
                Wake::Timeout => self.timeout(),
            }
        }
        self.wind_up().await;
    }

    async fn wake(
        &mut self,
        pods: &mut BoxStream<'static, PodChange>,
        references: &mut BoxStream<'static, ReferenceChange>,
    ) -> Wake {
        let timeout = self.next_timeout();
        tokio::select! {
            () = self.stop.cancelled() => Wake::Stop,
            Some(ended) = self.tasks.join_next_with_id() => Wake::Task(ended),
            observation = self.observations.next() => Wake::Observed(observation),
            change = pods.next() => Wake::Pod(change),
            change = references.next() => Wake::Reference(change),
            Some(input) = self.requests.recv() => Wake::Request(input),
            Some(_) = self.chores.join_next() => Wake::Chore,
            () = sleep_until(timeout) => Wake::Timeout,
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(Timestamp::now(), input);
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        self.engine.poll_timeout().into_iter().chain(self.world.next_token_renewal()).min()
    }

    fn timeout(&mut self) {
        let now = Timestamp::now();
        self.engine.handle_timeout(now);
        for pod in self.world.take_due_renewals(now) {
            let (world, reference) = (Arc::clone(&self.world), pod_ref(&pod));
            self.chores.spawn(async move { effects::renew_tokens(&world, &reference, pod).await });
        }
    }

    fn pod_changed(&mut self, change: PodChange) {
        match change {
            PodChange::Applied(pod) => self.pod_applied(pod),
            PodChange::Deleted(uid) => {
                if let Some(pod) = self.pods.applied.remove(&uid) {
                    self.pods.deleted.insert(uid.clone(), pod);
                }
                self.handle(Input::PodDeleted(uid.clone()));
                // A pod that never came to anything is not torn down.
                if !self.engine.pods().any(|pod| pod.uid == uid) {
                    self.pods.torn_down.insert(uid.clone());
                }
                self.remove_logs_if_over(&uid);
            }
            PodChange::Synced => {
                self.handle(Input::Synced);
                self.sweep();
            }
        }
    }

    fn pod_applied(&mut self, pod: Arc<Pod>) {
        let reference = pod_ref(&pod);
        // They become names of directories; a sound API never gives others.
        if ![&reference.uid.0, &reference.namespace, &reference.name].into_iter().all(|text| is_file_name(text)) {
            tracing::error!(?reference, "a pod whose names cannot be used is passed over");
            return;
        }
        self.pods.torn_down.remove(&reference.uid);
        self.pods.applied.insert(reference.uid.clone(), reference);
        self.handle(Input::PodApplied(pod));
    }

    /// Spawns a task for each effect, and does what needs none.
    fn carry_out(&mut self) {
        while let Some(effect) = self.engine.poll_effect() {
            match effect.action {
                Action::Cancel(target) => {
                    if let Some(cancellation) = self.cancellations.get(&target) {
                        cancellation.cancel();
                    }
                    self.answer(effect.id, Outcome::Done);
                }
                Action::RecordEvent(event) => {
                    self.world.recorder.record(&effect.pod, event);
                    self.answer(effect.id, Outcome::Done);
                }
                _ => self.spawn(effect),
            }
        }
    }

    fn spawn(&mut self, effect: Effect) {
        let cancellation = CancellationToken::new();
        let in_flight = InFlight {
            effect: effect.id,
            pod: effect.pod.clone(),
            is_probe: matches!(effect.action, Action::Probe { .. }),
            is_tear_down: matches!(effect.action, Action::TearDownPod),
        };
        let id = effect.id;
        tracing::debug!(effect = id.0, pod = effect.pod.name, action = ?Brief(&effect.action), "begins");
        let (world, cancelled) = (Arc::clone(&self.world), cancellation.clone());
        let task = self.tasks.spawn(async move { (id, effects::perform(world, effect, cancelled).await) });
        self.in_flight.insert(task.id(), in_flight);
        self.cancellations.insert(id, cancellation);
    }

    fn task_ended(&mut self, ended: Result<(Id, (EffectId, Outcome)), JoinError>) {
        let (task, outcome) = match ended {
            Ok((task, (_, outcome))) => (task, Some(outcome)),
            Err(error) => {
                tracing::error!(%error, "a task of the agent has failed");
                (error.id(), None)
            }
        };
        let Some(in_flight) = self.in_flight.remove(&task) else { return };
        let outcome = outcome.unwrap_or_else(|| of_panic(in_flight.is_probe));
        tracing::debug!(effect = in_flight.effect.0, pod = in_flight.pod.name, ?outcome, "ends");
        self.cancellations.remove(&in_flight.effect);
        let is_torn_down = in_flight.is_tear_down && matches!(outcome, Outcome::Done);
        self.answer(in_flight.effect, outcome);
        if is_torn_down {
            let uid = in_flight.pod.uid.clone();
            if !self.pods.applied.contains_key(&uid) {
                self.pods.deleted.entry(uid.clone()).or_insert(in_flight.pod);
            }
            self.pods.torn_down.insert(uid.clone());
            self.remove_logs_if_over(&uid);
        }
    }

    fn answer(&mut self, effect: EffectId, outcome: Outcome) {
        self.handle(Input::EffectDone { effect, outcome });
    }

    fn remove_logs_if_over(&mut self, uid: &PodUid) {
        if !self.pods.torn_down.contains(uid) {
            return;
        }
        let Some(pod) = self.pods.deleted.remove(uid) else { return };
        self.pods.torn_down.remove(uid);
        let world = Arc::clone(&self.world);
        self.chores.spawn(async move {
            tokio::time::sleep(LOGS_LINGER).await;
            leftovers::remove_logs(&world, &pod).await;
        });
    }

    /// Removes what agents before this one have left of pods that nobody knows.
    fn sweep(&mut self) {
        let known: BTreeSet<PodRef> = self.pods.applied.values().chain(self.engine.pods()).cloned().collect();
        let world = Arc::clone(&self.world);
        self.chores.spawn(async move { leftovers::sweep(&world, &known).await });
    }

    /// Lets tasks that change something end; others are cut off.
    async fn wind_up(mut self) {
        self.chores.shutdown().await;
        self.cancellations.values().for_each(CancellationToken::cancel);
        let ended = tokio::time::timeout(STOP_PATIENCE, async {
            // What they came to does not matter: the next agent looks for itself.
            while self.tasks.join_next().await.is_some() {}
        });
        if ended.await.is_err() {
            tracing::warn!("some tasks did not end in time and are cut off");
            self.tasks.shutdown().await;
        }
    }
}

/// The kind of an action, for logs: pods are too long for a line.
struct Brief<'a>(&'a Action);

impl std::fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            Action::SetUpPod(_) => "SetUpPod",
            Action::RefreshVolumes(_) => "RefreshVolumes",
            Action::TearDownPod => "TearDownPod",
            Action::RunSandbox { .. } => "RunSandbox",
            Action::StopSandbox(_) => "StopSandbox",
            Action::RemoveSandbox(_) => "RemoveSandbox",
            Action::InspectImage { .. } => "InspectImage",
            Action::PullImage { .. } => "PullImage",
            Action::CreateContainer(request) => return write!(f, "CreateContainer({})", request.name),
            Action::StartContainer(_) => "StartContainer",
            Action::SignalContainer { .. } => "SignalContainer",
            Action::RemoveContainer { .. } => "RemoveContainer",
            Action::RunHook { name, .. } => return write!(f, "RunHook({name})"),
            Action::Probe { name, .. } => return write!(f, "Probe({name})"),
            Action::Cancel(_) => "Cancel",
            Action::WriteStatus(_) => "WriteStatus",
            Action::RecordEvent(_) => "RecordEvent",
            Action::DeletePodObject(_) => "DeletePodObject",
        };
        f.write_str(name)
    }
}

fn pod_ref(pod: &Pod) -> PodRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    PodRef {
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        uid: PodUid(text(&pod.metadata.uid)),
    }
}

/// Sleeps until a moment of the wall clock; for ever if there is none.
async fn sleep_until(moment: Option<Timestamp>) {
    match moment {
        Some(moment) => {
            let left = moment.duration_since(Timestamp::now());
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => futures::future::pending().await,
    }
}
