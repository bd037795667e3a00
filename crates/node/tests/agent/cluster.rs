//! An API of a few maps: what the node needs of one, and what a user does to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, PodStatus, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::input::ReferenceKind;
use lifecycle::{PodRef, PodUid, merge_status};
use node::cluster::{Answer, Cluster, ClusterError, PodChange, ReferenceChange, Token, TokenRequest};
use tokio::sync::{mpsc, watch};

use crate::world::Outcome;

/// The objects, and who watches them.
#[derive(Default)]
pub(crate) struct Objects {
    state: Mutex<State>,
    /// Counts changes, for those who wait for one.
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<String, Pod>,
    config_maps: BTreeMap<String, Arc<ConfigMap>>,
    secrets: BTreeMap<String, Arc<Secret>>,
    services: Vec<Arc<Service>>,
    events: Vec<Event>,
    /// Every status that was written, by the pod's name.
    history: Vec<(String, PodStatus)>,
    pod_watchers: Vec<mpsc::UnboundedSender<PodChange>>,
    reference_watchers: Vec<mpsc::UnboundedSender<ReferenceChange>>,
}

impl Objects {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Becomes ready at each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Stores a pod as a scheduler has bound it, and tells of it.
    pub(crate) fn apply(&self, pod: Pod) {
        let mut state = self.state();
        let name = pod.metadata.name.clone().unwrap_or_default();
        state.pods.insert(name, pod.clone());
        let pod = Arc::new(pod);
        state.pod_watchers.retain(|watcher| watcher.send(PodChange::Applied(Arc::clone(&pod))).is_ok());
        drop(state);
        self.changed();
    }

    /// Deletes a pod as `kubectl delete` does, with its own grace or another (L-601).
    pub(crate) fn delete(&self, name: &str, grace_seconds: Option<i64>) -> Outcome {
        let mut pod = self.pod(name).ok_or("there is no such pod")?;
        let spec_grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        let grace = grace_seconds.or(spec_grace).unwrap_or(30);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if grace == 0 || matches!(phase, Some("Succeeded" | "Failed")) {
            self.remove(name);
            return Ok(());
        }
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::now() + SignedDuration::from_secs(grace)));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.apply(pod);
        Ok(())
    }

    /// Takes a pod's object away.
    pub(crate) fn remove(&self, name: &str) {
        let mut state = self.state();
        if let Some(pod) = state.pods.remove(name) {
            let uid = PodUid(pod.metadata.uid.unwrap_or_default());
            state.pod_watchers.retain(|watcher| watcher.send(PodChange::Deleted(uid.clone())).is_ok());
        }
        drop(state);
        self.changed();
    }

    /// Stores a ConfigMap, and tells of it.
    pub(crate) fn apply_config_map(&self, config_map: ConfigMap) {
        let name = config_map.metadata.name.clone().unwrap_or_default();
        let mut state = self.state();
        state.config_maps.insert(name.clone(), Arc::new(config_map));
        let change = ReferenceChange { kind: ReferenceKind::ConfigMap, namespace: "default".to_owned(), name };
        state.reference_watchers.retain(|watcher| watcher.send(change.clone()).is_ok());
        drop(state);
        self.changed();
    }

    /// Stores a Secret.
    pub(crate) fn apply_secret(&self, secret: Secret) {
        let name = secret.metadata.name.clone().unwrap_or_default();
        self.state().secrets.insert(name, Arc::new(secret));
    }

    /// A pod as it is stored.
    pub(crate) fn pod(&self, name: &str) -> Option<Pod> {
        self.state().pods.get(name).cloned()
    }

    /// All pods as they are stored.
    pub(crate) fn pods(&self) -> Vec<Pod> {
        self.state().pods.values().cloned().collect()
    }

    /// `reason: message` of each event about a pod, in their order.
    pub(crate) fn events(&self, pod: &str) -> Vec<String> {
        let state = self.state();
        let about = state.events.iter().filter(|event| event.involved_object.name.as_deref() == Some(pod));
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        about.map(|event| format!("{}: {}", text(&event.reason), text(&event.message))).collect()
    }

    /// Every status of a pod that was written, in their order.
    pub(crate) fn history(&self, pod: &str) -> Vec<PodStatus> {
        self.state().history.iter().filter(|(name, _)| name == pod).map(|(_, status)| status.clone()).collect()
    }

    fn put_status(&self, reference: &PodRef, status: &PodStatus) -> Result<(), ClusterError> {
        let mut pod = self.same(reference)?;
        let stored = pod.status.unwrap_or_default();
        pod.status = Some(merge_status(&stored, status.clone()));
        self.state().history.push((reference.name.clone(), status.clone()));
        self.apply(pod);
        Ok(())
    }

    /// The stored pod, if it is the one that is meant.
    fn same(&self, reference: &PodRef) -> Result<Pod, ClusterError> {
        let what = format!("Pod {}/{}", reference.namespace, reference.name);
        let found = self.pod(&reference.name).filter(|pod| pod.metadata.uid.as_ref() == Some(&reference.uid.0));
        found.ok_or(ClusterError::Gone { what })
    }
}

impl Cluster for Objects {
    fn watch_pods(&self) -> BoxStream<'static, PodChange> {
        let mut state = self.state();
        let listed: Vec<PodChange> =
            state.pods.values().cloned().map(Arc::new).map(PodChange::Applied).chain([PodChange::Synced]).collect();
        let (sender, receiver) = mpsc::unbounded_channel();
        state.pod_watchers.push(sender);
        stream::iter(listed).chain(receive(receiver)).boxed()
    }

    fn watch_references(&self) -> BoxStream<'static, ReferenceChange> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state().reference_watchers.push(sender);
        receive(receiver).boxed()
    }

    fn config_map<'a>(&'a self, _: &'a str, name: &'a str) -> Answer<'a, Option<Arc<ConfigMap>>> {
        let found = self.state().config_maps.get(name).cloned();
        async move { Ok(found) }.boxed()
    }

    fn secret<'a>(&'a self, _: &'a str, name: &'a str) -> Answer<'a, Option<Arc<Secret>>> {
        let found = self.state().secrets.get(name).cloned();
        async move { Ok(found) }.boxed()
    }

    fn services<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<Arc<Service>>> {
        let services = self.state().services.clone();
        async move { Ok(services) }.boxed()
    }

    fn service_account_token(&self, request: TokenRequest) -> Answer<'_, Token> {
        let expires_at = Timestamp::now() + SignedDuration::from_secs(request.expiration_seconds);
        async move { Ok(Token { token: format!("token of {}", request.service_account), expires_at }) }.boxed()
    }

    fn write_pod_status<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> Answer<'a, ()> {
        async move { self.put_status(pod, status) }.boxed()
    }

    fn record_event(&self, event: Event) -> Answer<'_, ()> {
        async move {
            self.state().events.push(event);
            self.changed();
            Ok(())
        }
        .boxed()
    }

    fn delete_pod<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, ()> {
        async move {
            self.same(pod)?;
            self.remove(&pod.name);
            Ok(())
        }
        .boxed()
    }
}

fn receive<T: Send + 'static>(receiver: mpsc::UnboundedReceiver<T>) -> impl stream::Stream<Item = T> + Send {
    stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}
