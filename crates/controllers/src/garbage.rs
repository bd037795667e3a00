//! The garbage collector: what becomes of objects whose owners go (A-130, J-121 to J-125).
//!
//! It looks at metadata alone, and at one object at a time: an object whose owners are all gone goes,
//! an owner that is deleted in the foreground waits for what blocks it, one that is deleted as orphaning lets its dependents go.
//! Owners are known by uid, kind, name and namespace; what is owned by a kind that is not served is left alone.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::cache::{Cache, Change};
use crate::config::ServedKind;
use crate::object::{Object, Target, has_finalizer, is_being_deleted};
use crate::runner::{Reconcile, Step};
use crate::write::{Action, EventRecord, MetadataChange, Outcome, Propagation};

/// The finalizer of an owner that goes after its dependents.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents stay.
const ORPHAN: &str = "orphan";
const COMPONENT: &str = "garbage-collector-controller";

/// Decides for objects; keyed by their uid.
#[derive(Debug)]
pub(crate) struct GarbageCollector {
    served: Vec<ServedKind>,
    /// Uids that were looked up and are not there; a uid never comes back.
    absent: BTreeSet<String>,
    /// Objects and owners whose mismatch has been told.
    told: BTreeSet<(String, String)>,
}

impl GarbageCollector {
    /// A collector that knows which kinds there are.
    pub(crate) fn new(served: &[ServedKind]) -> GarbageCollector {
        GarbageCollector { served: served.to_vec(), absent: BTreeSet::new(), told: BTreeSet::new() }
    }
}

impl Reconcile for GarbageCollector {
    type Key = String;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let object = change.object();
        let mut keys = BTreeSet::new();
        if let Change::Applied { old: Some(old), new } = change
            && shape(old) == shape(new)
        {
            return Vec::new();
        }
        let is_gone = matches!(change, Change::Deleted { .. });
        let is_owned = object.metadata().owner_references.is_some();
        if !is_gone && (is_owned || is_being_deleted(object.metadata())) {
            keys.insert(object.uid().to_owned());
        }
        // An owner may wait for this object; dependents may be waited for by it, or have lost it.
        for one in [Some(object), change.old()].into_iter().flatten() {
            let owners = one.metadata().owner_references.iter().flatten();
            keys.extend(owners.map(|owner| owner.uid.clone()));
        }
        if is_gone || is_being_deleted(object.metadata()) {
            keys.extend(cache.dependents(object.uid()).map(|dependent| dependent.uid().to_owned()));
        }
        keys.into_iter().map(|key| (key, now)).collect()
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, _: Timestamp) -> Step {
        let Some(object) = cache.get(key) else {
            self.told.retain(|(uid, _)| uid != key);
            if cache.dependents(key).next().is_none() {
                self.absent.remove(key);
            }
            return Step::rest();
        };
        let metadata = object.metadata();
        if is_being_deleted(metadata) {
            if has_finalizer(metadata, ORPHAN) {
                return orphan_dependents(cache, object);
            }
            let may_go = has_finalizer(metadata, FOREGROUND) && !is_blocked(cache, object);
            return Step::write(may_go.then(|| edit(object, vec![remove_finalizer(FOREGROUND)])));
        }
        let unseen = self.unseen_owners(cache, object);
        if !unseen.is_empty() {
            return Step::write(unseen.into_iter().map(Action::Read));
        }
        let owners = self.classify(cache, object);
        let mut step = owners.map_or_else(Step::rest, |owners| collect(cache, object, &owners));
        step.events = self.tell_mismatches(cache, object);
        step
    }

    fn answered(
        &mut self,
        _: &Cache,
        _: &String,
        action: &Action,
        outcome: &Outcome,
        _: Timestamp,
    ) -> Vec<EventRecord> {
        if let (Action::Read(owner), Outcome::Gone) = (action, outcome) {
            self.absent.insert(owner.uid.clone());
        }
        Vec::new()
    }
}

/// All of an object that matters here.
fn shape(object: &Object) -> (Option<&Vec<OwnerReference>>, Option<&Vec<String>>, bool) {
    let metadata = object.metadata();
    (metadata.owner_references.as_ref(), metadata.finalizers.as_ref(), is_being_deleted(metadata))
}

/// The owners of an object by what they are up to; uids.
#[derive(Debug, Default)]
struct Owners {
    solid: Vec<String>,
    /// Gone, or never there.
    dangling: Vec<String>,
    /// Deleted in the foreground: they wait for their dependents.
    waiting: Vec<String>,
}

impl GarbageCollector {
    /// Owners that are not known: they may have been made a moment ago, and are looked up before they are taken for gone.
    fn unseen_owners(&self, cache: &Cache, object: &Object) -> Vec<Target> {
        let references = object.metadata().owner_references.iter().flatten();
        let unseen = references.filter(|one| cache.get(&one.uid).is_none() && !self.absent.contains(&one.uid));
        unseen
            .filter_map(|reference| {
                let served = self.served_kind(reference)?;
                let namespace = if served.is_namespaced { object.namespace() } else { "" };
                let is_in_reach = !served.is_namespaced || !namespace.is_empty();
                is_in_reach.then(|| Target {
                    kind: served.kind.clone(),
                    namespace: namespace.to_owned(),
                    name: reference.name.clone(),
                    uid: reference.uid.clone(),
                })
            })
            .collect()
    }

    fn served_kind(&self, reference: &OwnerReference) -> Option<&ServedKind> {
        let mut served = self.served.iter();
        served.find(|served| served.kind.is_named_by(&reference.api_version, &reference.kind))
    }

    /// Sorts the owners; `None` if nothing can be said, because one is of a kind that is not served.
    fn classify(&self, cache: &Cache, object: &Object) -> Option<Owners> {
        let mut owners = Owners::default();
        for reference in object.metadata().owner_references.iter().flatten() {
            let served = self.served_kind(reference)?;
            if served.is_namespaced && object.namespace().is_empty() {
                // An object of the whole cluster can't be owned by one of a namespace; such a reference means nothing.
                return None;
            }
            let uid = reference.uid.clone();
            match cache.get(&reference.uid).filter(|owner| is_meant(reference, owner, object)) {
                None => owners.dangling.push(uid),
                Some(owner) if waits_for_dependents(owner) => owners.waiting.push(uid),
                Some(_) => owners.solid.push(uid),
            }
        }
        Some(owners)
    }

    /// Tells once of each reference that names an object of another namespace.
    fn tell_mismatches(&mut self, cache: &Cache, object: &Object) -> Vec<EventRecord> {
        let mut events = Vec::new();
        for reference in object.metadata().owner_references.iter().flatten() {
            let owner = cache.get(&reference.uid);
            let elsewhere = owner.is_some_and(|owner| !is_meant(reference, owner, object));
            if elsewhere && self.told.insert((object.uid().to_owned(), reference.uid.clone())) {
                events.push(mismatch(reference, object));
            }
        }
        events
    }
}

fn mismatch(reference: &OwnerReference, object: &Object) -> EventRecord {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    let namespace = object.namespace();
    EventRecord {
        regarding: object.reference(),
        component: COMPONENT,
        warning: true,
        reason: "OwnerRefInvalidNamespace".to_owned(),
        message: format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        ),
    }
}

/// True if the object found by uid is the one that the reference describes.
fn is_meant(reference: &OwnerReference, owner: &Object, dependent: &Object) -> bool {
    let in_reach = owner.namespace().is_empty() || owner.namespace() == dependent.namespace();
    in_reach && owner.name() == reference.name && owner.kind().is_named_by(&reference.api_version, &reference.kind)
}

fn waits_for_dependents(owner: &Object) -> bool {
    is_being_deleted(owner.metadata()) && has_finalizer(owner.metadata(), FOREGROUND)
}

/// What becomes of an object that is not being deleted.
fn collect(cache: &Cache, object: &Object, owners: &Owners) -> Step {
    let lost = || owners.dangling.iter().chain(&owners.waiting);
    if lost().next().is_none() {
        return Step::rest();
    }
    if !owners.solid.is_empty() {
        // The waiting ones are let go too, or they would wait for ever.
        let changes = lost().map(|uid| MetadataChange::RemoveOwnerReference { uid: uid.clone() });
        return Step::write([edit(object, changes.collect())]);
    }
    let has_dependents = cache.dependents(object.uid()).next().is_some();
    if owners.waiting.is_empty() || !has_dependents {
        return Step::write([delete(object, propagation(object))]);
    }
    let mut dependents = cache.dependents(object.uid());
    let is_blocking = |reference: &&OwnerReference| reference.block_owner_deletion == Some(true);
    let references = object.metadata().owner_references.iter().flatten().filter(is_blocking);
    let unblock: Vec<MetadataChange> =
        references.map(|reference| MetadataChange::UnblockOwnerDeletion { uid: reference.uid.clone() }).collect();
    if dependents.any(waits_for_dependents) && !unblock.is_empty() {
        // It may be a circle of owners that all wait for each other.
        return Step::write([edit(object, unblock)]);
    }
    Step::write([delete(object, Propagation::Foreground)])
}

/// How an object goes that nobody owns any more: as it was going to go, if that was said before.
fn propagation(object: &Object) -> Propagation {
    if has_finalizer(object.metadata(), ORPHAN) {
        Propagation::Orphan
    } else if has_finalizer(object.metadata(), FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    }
}

/// True while a dependent that blocks the owner is there.
fn is_blocked(cache: &Cache, owner: &Object) -> bool {
    cache.dependents(owner.uid()).any(|dependent| {
        let mut references = dependent.metadata().owner_references.iter().flatten();
        references.any(|one| one.uid == owner.uid() && one.block_owner_deletion == Some(true))
    })
}

/// Takes the owner out of its dependents' references, then takes its finalizer.
fn orphan_dependents(cache: &Cache, owner: &Object) -> Step {
    let uid = owner.uid().to_owned();
    let remove = MetadataChange::RemoveOwnerReference { uid };
    let dependents = cache.dependents(owner.uid());
    let writes: Vec<Action> = dependents.map(|dependent| edit(dependent, vec![remove.clone()])).collect();
    if writes.is_empty() {
        return Step::write([edit(owner, vec![remove_finalizer(ORPHAN)])]);
    }
    Step::write(writes)
}

fn remove_finalizer(finalizer: &str) -> MetadataChange {
    MetadataChange::RemoveFinalizer(finalizer.to_owned())
}

fn edit(object: &Object, changes: Vec<MetadataChange>) -> Action {
    Action::EditMetadata { target: object.target(), if_version: None, changes }
}

/// Deletes the very version whose owners were looked at: another may have an owner.
fn delete(object: &Object, propagation: Propagation) -> Action {
    Action::Delete {
        target: object.target(),
        if_version: object.metadata().resource_version.clone(),
        propagation,
        grace_seconds: None,
    }
}
