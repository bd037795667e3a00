//! Empties namespaces that are being deleted, then lets them go.
//!
//! Pods go first, then everything else; what is left and which finalizers hold it is told in conditions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};

use crate::cache::{Cache, Change};
use crate::object::{Kind, Object, is_being_deleted};
use crate::runner::{Reconcile, Step};
use crate::time::api_time;
use crate::write::{Action, EventRecord, Outcome, Propagation, RefusalCause};

/// The entry of `spec.finalizers` that stands for this controller.
const FINALIZER: &str = "kubernetes";

/// Decides for namespaces; keyed by their name.
#[derive(Debug, Default)]
pub(crate) struct NamespaceDeleter {
    /// Messages of refused deletions by namespace.
    refusals: BTreeMap<String, BTreeSet<String>>,
}

impl Reconcile for NamespaceDeleter {
    type Key = String;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let object = change.object();
        let name = match object {
            Object::Namespace(_) => object.name(),
            _ => object.namespace(),
        };
        let namespace = cache.namespace(name).filter(|namespace| is_being_deleted(&namespace.metadata));
        namespace.map(|_| (name.to_owned(), now)).into_iter().collect()
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, now: Timestamp) -> Step {
        let Some(namespace) = cache.namespace(key).filter(|one| is_being_deleted(&one.metadata)) else {
            self.refusals.remove(key);
            return Step::rest();
        };
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref());
        if !finalizers.unwrap_or_default().iter().any(|one| one == FINALIZER) {
            return Step::rest();
        }
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Terminating") {
            let mut status = namespace.status.clone().unwrap_or_default();
            status.phase = Some("Terminating".to_owned());
            return write_status(namespace, status);
        }
        let remaining = remaining(cache, key);
        let to_delete: Vec<Action> = remaining.iter().filter_map(|object| delete(object)).collect();
        let refusals = self.refusals.get(key).cloned().unwrap_or_default();
        // Refused deletions are told before they are tried again.
        let status = with_conditions(namespace, &remaining, &refusals, now);
        if (to_delete.is_empty() || !refusals.is_empty()) && namespace.status.as_ref() != Some(&status) {
            return write_status(namespace, status);
        }
        if !to_delete.is_empty() {
            self.refusals.remove(key);
            return Step::write(to_delete);
        }
        let is_empty = remaining.is_empty();
        Step::write(is_empty.then(|| Action::FinalizeNamespace {
            namespace: Object::from(namespace.clone()).target(),
            finalizer: FINALIZER.to_owned(),
        }))
    }

    fn answered(
        &mut self,
        _: &Cache,
        key: &String,
        action: &Action,
        outcome: &Outcome,
        _: Timestamp,
    ) -> Vec<EventRecord> {
        if let (Action::Delete { .. }, Outcome::Refused(refusal)) = (action, outcome)
            && refusal.cause != RefusalCause::NotFound
        {
            self.refusals.entry(key.clone()).or_default().insert(refusal.message.clone());
        }
        Vec::new()
    }
}

/// What is to go now: the pods, and when there are none, the rest.
fn remaining<'a>(cache: &'a Cache, namespace: &str) -> Vec<&'a Object> {
    let pods: Vec<&Object> = cache.in_namespace(&Kind::POD, namespace).collect();
    if pods.is_empty() { cache.contents(namespace).collect() } else { pods }
}

fn delete(object: &Object) -> Option<Action> {
    (!is_being_deleted(object.metadata())).then(|| Action::Delete {
        target: object.target(),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    })
}

fn write_status(namespace: &Namespace, status: NamespaceStatus) -> Step {
    let mut written = namespace.clone();
    written.status = Some(status);
    Step::write([Action::UpdateStatus(written.into())])
}

/// The status with its five conditions.
fn with_conditions(
    namespace: &Namespace,
    remaining: &[&Object],
    refusals: &BTreeSet<String>,
    now: Timestamp,
) -> NamespaceStatus {
    let mut status = namespace.status.clone().unwrap_or_default();
    for (type_, (value, reason, message)) in conditions(remaining, refusals) {
        let mut condition = NamespaceCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(api_time(now)),
        };
        let conditions = status.conditions.get_or_insert_default();
        match conditions.iter_mut().find(|one| one.type_ == type_) {
            Some(old) => {
                if old.status == condition.status {
                    condition.last_transition_time = old.last_transition_time.clone();
                }
                *old = condition;
            }
            None => conditions.push(condition),
        }
    }
    status
}

type Says = (&'static str, &'static str, String);

fn conditions(remaining: &[&Object], refusals: &BTreeSet<String>) -> [(&'static str, Says); 5] {
    let ok = |reason, message: &str| ("False", reason, message.to_owned());
    let failure = if refusals.is_empty() {
        ok("ContentDeleted", "All content successfully deleted, may be waiting on finalization")
    } else {
        let list: Vec<&str> = refusals.iter().map(String::as_str).collect();
        let message = format!("Failed to delete all resource types, {} remaining: {}", list.len(), list.join(", "));
        ("True", "ContentDeletionFailed", message)
    };
    let content = if remaining.is_empty() {
        ok("ContentRemoved", "All content successfully removed")
    } else {
        let kinds = remaining.iter().map(|object| format!("{}.{}", plural(&object.kind()), object.kind().group()));
        let list = tally(kinds, |resource, count| format!("{resource} has {count} resource instances"));
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {list}"))
    };
    let finalizers = remaining.iter().flat_map(|object| object.metadata().finalizers.iter().flatten());
    let finalizers: Vec<String> = finalizers.cloned().collect();
    let held = if finalizers.is_empty() {
        ok("ContentHasNoFinalizers", "All content-preserving finalizers finished")
    } else {
        let list = tally(finalizers, |finalizer, count| format!("{finalizer} in {count} resource instances"));
        let message = format!("Some content in the namespace has finalizers remaining: {list}");
        ("True", "SomeFinalizersRemain", message)
    };
    [
        ("NamespaceDeletionDiscoveryFailure", ok("ResourcesDiscovered", "All resources successfully discovered")),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            ok("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        ("NamespaceDeletionContentFailure", failure),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", held),
    ]
}

/// Counts equal words and lists them in order.
fn tally(words: impl IntoIterator<Item = String>, say: impl Fn(&str, usize) -> String) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let list: Vec<String> = counts.iter().map(|(word, count)| say(word, *count)).collect();
    list.join(", ")
}

/// The resource's name, guessed from the kind as Kubernetes guesses it.
fn plural(kind: &Kind) -> String {
    let name = kind.kind.to_lowercase();
    if name == "endpoints" {
        return name;
    }
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if name.ends_with('s') => format!("{name}es"),
        None => format!("{name}s"),
    }
}

/// True if the namespace is being deleted: nothing can be made in it.
pub(crate) fn is_going(cache: &Cache, name: &str) -> bool {
    cache.namespace(name).is_some_and(|namespace| is_being_deleted(&namespace.metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_named_as_kubernetes_guesses_them() {
        let names = ["Pod", "NetworkPolicy", "Endpoints", "EndpointSlice", "Ingress", "StorageClass"];
        let plurals = names.map(|name| plural(&Kind::new("v1", name)));
        assert_eq!(plurals, ["pods", "networkpolicies", "endpoints", "endpointslices", "ingresses", "storageclasses"]);
    }
}
