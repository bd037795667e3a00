//! The registry as the node sees it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use apiserver::{
    ApiError, DeleteOptions, Part, Registry, ResourceType, Selection, Watch, WatchEvent, WatchOptions, WriteOptions,
};
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, PodCondition, PodStatus, Secret, Service};
use lifecycle::input::ReferenceKind;
use lifecycle::{PodRef, PodUid};
use node::cluster::{Answer, Cluster, ClusterError, PodChange, ReferenceChange, Token, TokenRequest};
use serde::Deserialize as _;
use serde_json::Value;

use super::events::EventSink;

/// The conditions that belong to the node (L-720); others are kept as their owners wrote them.
const NODE_CONDITIONS: [&str; 9] = [
    "PodResizePending",
    "PodResizeInProgress",
    "DisruptionTarget",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "AllContainersRestarting",
];

/// The API of the process itself.
pub(crate) struct LocalCluster {
    registry: Registry,
    events: Arc<EventSink>,
    node_name: String,
}

impl LocalCluster {
    pub(crate) fn new(registry: Registry, events: Arc<EventSink>, node_name: &str) -> Self {
        LocalCluster { registry, events, node_name: node_name.to_owned() }
    }

    fn get<K: apiserver::registry::Object>(&self, namespace: &str, name: &str) -> Result<Option<Arc<K>>, ClusterError> {
        Ok(self.registry.get_typed::<K>(namespace, name).map_err(refused)?.map(Arc::new))
    }

    async fn put_status(&self, pod: &PodRef, status: &PodStatus) -> Result<(), ClusterError> {
        let pods = resource("pods").map_err(refused)?;
        let options = WriteOptions::default();
        self.registry
            .patch_with(pods, &pod.namespace, &pod.name, Part::Status, &options, |old| {
                check_uid(pods, old, pod)?;
                with_status(old, status)
            })
            .await
            .map(drop)
            .map_err(|error| from_api(error, pod))
    }

    async fn remove(&self, pod: &PodRef) -> Result<(), ClusterError> {
        let options = DeleteOptions::now(pod.uid.as_str());
        let removed = self.registry.delete_typed::<Pod>(&pod.namespace, &pod.name, &options).await;
        removed.map(drop).map_err(|error| from_api(error, pod))
    }
}

impl Cluster for LocalCluster {
    fn watch_pods(&self) -> BoxStream<'static, PodChange> {
        let selector = format!("spec.nodeName={}", self.node_name);
        let changes = PodChanges {
            registry: self.registry.clone(),
            selector,
            watch: None,
            known: BTreeMap::new(),
            listed: Vec::new(),
            ready: VecDeque::new(),
        };
        stream::unfold(changes, |mut changes| async move { Some((changes.next().await?, changes)) }).boxed()
    }

    fn watch_references(&self) -> BoxStream<'static, ReferenceChange> {
        let config_maps = reference_changes(self.registry.clone(), "configmaps", ReferenceKind::ConfigMap);
        let secrets = reference_changes(self.registry.clone(), "secrets", ReferenceKind::Secret);
        stream::select(config_maps, secrets).boxed()
    }

    fn config_map<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, Option<Arc<ConfigMap>>> {
        async move { self.get(namespace, name) }.boxed()
    }

    fn secret<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, Option<Arc<Secret>>> {
        async move { self.get(namespace, name) }.boxed()
    }

    fn services<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<Arc<Service>>> {
        async move {
            let services = self.registry.list_typed::<Service>(Some(namespace), Selection::all()).map_err(refused)?;
            Ok(services.into_iter().map(Arc::new).collect())
        }
        .boxed()
    }

    fn service_account_token(&self, request: TokenRequest) -> Answer<'_, Token> {
        let message = format!("no tokens are issued for service account \"{}\" here", request.service_account);
        async move { Err(ClusterError::Refused { message }) }.boxed()
    }

    fn write_pod_status<'a>(&'a self, pod: &'a PodRef, status: &'a PodStatus) -> Answer<'a, ()> {
        self.put_status(pod, status).boxed()
    }

    fn record_event(&self, event: Event) -> Answer<'_, ()> {
        async move { self.events.submit(event).await.map_err(refused) }.boxed()
    }

    fn delete_pod<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, ()> {
        self.remove(pod).boxed()
    }
}

/// The node's pods as they change, over breaks of the watch.
struct PodChanges {
    registry: Registry,
    selector: String,
    watch: Option<Watch>,
    /// Pods that the node knows of.
    known: BTreeMap<String, PodUid>,
    /// Pods told since the watch began, until its initial list has ended.
    listed: Vec<String>,
    ready: VecDeque<PodChange>,
}

impl PodChanges {
    async fn next(&mut self) -> Option<PodChange> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            if self.watch.is_none() {
                self.begin()?;
            }
            match self.watch.as_mut()?.next().await {
                Ok(event) => self.take(event),
                // It fell behind what the store keeps: everything is told again.
                Err(error) if error.is_expired() => self.watch = None,
                Err(error) => {
                    tracing::error!(%error, "the watch of pods has ended");
                    return None;
                }
            }
        }
    }

    fn begin(&mut self) -> Option<()> {
        let begun = resource("pods").and_then(|pods| {
            let selection = Selection::parse(pods, "", &self.selector)?;
            let options = WatchOptions { selection, resource_version: None, send_initial_events: true };
            self.registry.watch(pods, None, options)
        });
        match begun {
            Ok(watch) => {
                self.listed.clear();
                self.watch = Some(watch);
                Some(())
            }
            Err(error) => {
                tracing::error!(%error, "pods can't be watched");
                None
            }
        }
    }

    fn take(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.applied(&object),
            WatchEvent::Deleted(object) => {
                let uid = uid(&object).to_owned();
                self.known.remove(&uid);
                self.ready.push_back(PodChange::Deleted(PodUid(uid)));
            }
            WatchEvent::InitialEnd(_) => self.initial_end(),
        }
    }

    fn applied(&mut self, object: &Value) {
        match Pod::deserialize(object) {
            Ok(pod) => {
                let uid = uid(object).to_owned();
                self.listed.push(uid.clone());
                self.known.insert(uid.clone(), PodUid(uid));
                self.ready.push_back(PodChange::Applied(Arc::new(pod)));
            }
            Err(error) => tracing::error!(%error, "a stored pod can't be read"),
        }
    }

    /// Whatever was known and has not been told again is gone.
    fn initial_end(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<String> = self.known.keys().filter(|uid| !listed.contains(uid)).cloned().collect();
        for uid in gone {
            self.known.remove(&uid);
            self.ready.push_back(PodChange::Deleted(PodUid(uid)));
        }
        self.ready.push_back(PodChange::Synced);
    }
}

/// Every write of a resource that pods refer to, from this moment on.
fn reference_changes(
    registry: Registry,
    plural: &'static str,
    kind: ReferenceKind,
) -> impl stream::Stream<Item = ReferenceChange> + Send + 'static {
    let begin = move |registry: &Registry| -> Result<Watch, ApiError> {
        let options = WatchOptions { resource_version: Some(registry.revision()), ..WatchOptions::default() };
        registry.watch(resource(plural)?, None, options)
    };
    stream::unfold((registry, None::<Watch>), move |(registry, mut watch)| async move {
        loop {
            if watch.is_none() {
                watch = Some(begin(&registry).map_err(|error| tracing::error!(%error, plural, "no watch")).ok()?);
            }
            match watch.as_mut()?.next().await {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                    return Some((reference_change(kind, &object), (registry, watch)));
                }
                Ok(WatchEvent::InitialEnd(_)) => {}
                Err(error) if error.is_expired() => watch = None,
                Err(error) => {
                    tracing::error!(%error, plural, "a watch has ended");
                    return None;
                }
            }
        }
    })
}

fn reference_change(kind: ReferenceKind, object: &Value) -> ReferenceChange {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    ReferenceChange { kind, namespace: text("/metadata/namespace"), name: text("/metadata/name") }
}

/// The pod with the node's part of its status replaced.
fn with_status(old: &Value, status: &PodStatus) -> Result<Value, ApiError> {
    let stored = match old.get("status") {
        Some(stored) => PodStatus::deserialize(stored).map_err(ApiError::internal)?,
        None => PodStatus::default(),
    };
    let of_others = |condition: &PodCondition| !NODE_CONDITIONS.contains(&condition.type_.as_str());
    let kept = stored.conditions.unwrap_or_default().into_iter().filter(of_others);
    let own = status.conditions.iter().flatten().filter(|condition| !of_others(condition)).cloned();
    let conditions: Vec<PodCondition> = kept.chain(own).collect();
    let merged = PodStatus {
        conditions: Some(conditions).filter(|conditions| !conditions.is_empty()),
        qos_class: stored.qos_class.or_else(|| status.qos_class.clone()),
        nominated_node_name: stored.nominated_node_name,
        resource_claim_statuses: stored.resource_claim_statuses,
        extended_resource_claim_status: stored.extended_resource_claim_status,
        ..status.clone()
    };
    let mut object = old.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), serde_json::to_value(merged).map_err(ApiError::internal)?);
    }
    Ok(object)
}

fn resource(plural: &str) -> Result<&'static ResourceType, ApiError> {
    ResourceType::find("", "v1", plural).ok_or_else(|| ApiError::internal(format!("{plural} are not served")))
}

fn check_uid(pods: &ResourceType, object: &Value, pod: &PodRef) -> Result<(), ApiError> {
    if uid(object) == pod.uid.as_str() { Ok(()) } else { Err(ApiError::not_found(pods, &pod.name)) }
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn from_api(error: ApiError, pod: &PodRef) -> ClusterError {
    if error.is_not_found() || error.is_conflict() {
        return ClusterError::Gone { what: format!("Pod {}/{}", pod.namespace, pod.name) };
    }
    refused(error)
}

fn refused(error: ApiError) -> ClusterError {
    ClusterError::Refused { message: error.to_string() }
}
