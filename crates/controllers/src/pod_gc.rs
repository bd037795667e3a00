//! Pod garbage collection: ends pods that no node will ever end, and bounds how many ended ones are kept.
//!
//! It does not follow owner references; that is the garbage collector's.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::cache::{Cache, Change};
use crate::job::{is_terminal, pod_target};
use crate::object::{Kind, Object, is_being_deleted, uid_of};
use crate::runner::{Reconcile, Step};
use crate::time::{after, api_time};
use crate::write::{Action, PodStatusPatch, Propagation};

/// How long a node has to be missing before its pods are ended.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How often ended pods are counted.
const COUNT_PERIOD: Duration = Duration::from_secs(20);
/// Decides for pods.
#[derive(Debug)]
pub(crate) struct PodCollector {
    /// How many ended pods are kept.
    ended_max: usize,
    /// Since when nodes that pods name are missing.
    missing_since: BTreeMap<String, Timestamp>,
}

/// What is looked at as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PodKey {
    /// The pod with this uid.
    Pod(String),
    /// All pods that have ended.
    Ended,
}

impl PodCollector {
    pub(crate) fn new(ended_max: usize) -> PodCollector {
        PodCollector { ended_max, missing_since: BTreeMap::new() }
    }
}

impl Reconcile for PodCollector {
    type Key = PodKey;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(PodKey, Timestamp)> {
        match change {
            Change::Applied { new, .. } => match new {
                Object::Pod(pod) if is_terminal(pod) && !is_being_deleted(&pod.metadata) => {
                    vec![(PodKey::Pod(new.uid().to_owned()), now), (PodKey::Ended, after(now, COUNT_PERIOD))]
                }
                Object::Pod(_) => vec![(PodKey::Pod(new.uid().to_owned()), now)],
                _ => Vec::new(),
            },
            Change::Deleted { old: Object::Node(_) } => {
                cache.all_pods().map(|pod| (PodKey::Pod(uid_of(&pod.metadata).to_owned()), now)).collect()
            }
            Change::Deleted { .. } => Vec::new(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, key: &PodKey, now: Timestamp) -> Step {
        let uid = match key {
            PodKey::Pod(uid) => uid,
            PodKey::Ended => {
                let surplus = surplus(cache, self.ended_max);
                return Step::write(surplus.into_iter().map(delete));
            }
        };
        let Some(pod) = cache.pod_by_uid(uid) else {
            return Step::rest();
        };
        if is_terminal(pod) {
            return Step::write(lost_its_node(pod).then(|| delete(pod)));
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let node = node.unwrap_or_default();
        if node.is_empty() {
            let is_over = is_being_deleted(&pod.metadata);
            return Step::write(is_over.then(|| fail(pod, None)));
        }
        if cache.find(&Kind::NODE, "", node).is_some() {
            self.missing_since.remove(node);
            return Step::rest();
        }
        let since = self.missing_since.entry(node.to_owned()).or_insert(now);
        let end = after(*since, QUARANTINE);
        if now < end {
            return Step::rest().again(Some(end));
        }
        Step::write([fail(pod, Some(node_is_gone(pod, now)))])
    }
}

/// The ended pods beyond those that are kept: evicted ones first, then the oldest.
fn surplus(cache: &Cache, ended_max: usize) -> Vec<&Pod> {
    let pods = cache.all_pods().map(AsRef::as_ref);
    let mut ended: Vec<&Pod> = pods.filter(|pod| is_terminal(pod)).collect();
    let count = ended.len().saturating_sub(ended_max);
    if count > 0 {
        let was_evicted =
            |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.reason.as_deref() == Some("Evicted"));
        ended.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!was_evicted(pod), created, pod.metadata.name.clone())
        });
    }
    ended.truncate(count);
    ended.retain(|pod| !is_being_deleted(&pod.metadata));
    ended
}

fn fail(pod: &Pod, condition: Option<PodCondition>) -> Action {
    Action::PatchPodStatus {
        pod: pod_target(pod),
        patch: Box::new(PodStatusPatch {
            // Only what has not ended by itself in the meantime fails.
            if_version: pod.metadata.resource_version.clone(),
            phase: Some("Failed".to_owned()),
            conditions: condition.into_iter().collect(),
            ..PodStatusPatch::default()
        }),
    }
}

/// True for a pod that was failed for its missing node and has not been deleted yet.
fn lost_its_node(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.flatten();
    let is_marked =
        conditions.any(|one| one.type_ == "DisruptionTarget" && one.reason.as_deref() == Some("DeletionByPodGC"));
    is_marked && !is_being_deleted(&pod.metadata)
}

fn node_is_gone(pod: &Pod, now: Timestamp) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some("DeletionByPodGC".to_owned()),
        message: Some("PodGC: node no longer exists".to_owned()),
        last_transition_time: Some(api_time(now)),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}

fn delete(pod: &Pod) -> Action {
    Action::Delete {
        target: pod_target(pod),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: Some(0),
    }
}
