//! What is stored, as far as it is known: the informer's cache.
//!
//! It holds the newest version of each object that an event or the answer to an own write has shown,
//! so that a controller always sees what it wrote itself, however late the watch brings it.
//! An older version never replaces a newer one, and what is deleted does not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::object::{Kind, Object};
use crate::write::WriteId;

/// What an input changed in the cache.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The object is new or different.
    Applied { old: Option<Object>, new: Object },
    /// The object is gone; this is its last known version.
    Deleted { old: Object },
}

impl Change {
    /// The newest version known.
    pub(crate) fn object(&self) -> &Object {
        match self {
            Change::Applied { new, .. } => new,
            Change::Deleted { old } => old,
        }
    }

    /// The version before, if there was one.
    pub(crate) fn old(&self) -> Option<&Object> {
        match self {
            Change::Applied { old, .. } => old.as_ref(),
            Change::Deleted { old } => Some(old),
        }
    }
}

type NameKey = (Kind, String, String);

/// The newest known version of every object.
#[derive(Debug, Default)]
pub struct Cache {
    by_uid: BTreeMap<String, Object>,
    by_name: BTreeMap<NameKey, String>,
    by_owner: BTreeMap<String, BTreeSet<String>>,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
    /// Pods without a controller, by namespace.
    orphan_pods: BTreeMap<String, BTreeSet<String>>,
    buried: BTreeMap<String, Tombstone>,
}

/// Remembers a deleted uid for as long as something older about it may still arrive.
#[derive(Debug)]
struct Tombstone {
    /// The deletion is known from the answer to a write; the watch has yet to tell it.
    watch_is_behind: bool,
    /// Answers to writes up to this one may still carry the object.
    last_write: Option<WriteId>,
}

impl Cache {
    /// The object with this uid.
    pub fn get(&self, uid: &str) -> Option<&Object> {
        self.by_uid.get(uid)
    }

    /// The object of this kind and name.
    pub fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Object> {
        let key = (kind.clone(), namespace.to_owned(), name.to_owned());
        self.by_uid.get(self.by_name.get(&key)?)
    }

    /// Every object of a kind, in the order of namespaces and names.
    pub fn of_kind<'a>(&'a self, kind: &Kind) -> impl Iterator<Item = &'a Object> + use<'a> {
        let kind = kind.clone();
        let start = (kind.clone(), String::new(), String::new());
        self.by_name
            .range(start..)
            .take_while(move |((of, _, _), _)| *of == kind)
            .filter_map(|(_, uid)| self.by_uid.get(uid))
    }

    /// Every object of a kind in a namespace, in the order of names.
    pub fn in_namespace<'a>(&'a self, kind: &Kind, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        let key = (kind.clone(), namespace.to_owned());
        let start = (kind.clone(), namespace.to_owned(), String::new());
        self.by_name
            .range(start..)
            .take_while(move |((kind, namespace, _), _)| *kind == key.0 && *namespace == key.1)
            .filter_map(|(_, uid)| self.by_uid.get(uid))
    }

    /// Every object of any kind that is in a namespace, in the order of uids.
    pub fn contents<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        let uids = self.by_namespace.get(namespace).into_iter().flatten();
        uids.filter_map(|uid| self.by_uid.get(uid))
    }

    /// Every object that has an owner reference with this uid, in the order of uids.
    pub fn dependents<'a>(&'a self, owner_uid: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        self.by_owner.get(owner_uid).into_iter().flatten().filter_map(|uid| self.by_uid.get(uid))
    }

    /// Every object, in the order of kinds, namespaces and names.
    pub fn all(&self) -> impl Iterator<Item = &Object> {
        self.by_name.values().filter_map(|uid| self.by_uid.get(uid))
    }

    /// The pods of a namespace, in the order of names.
    pub fn pods<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        self.in_namespace(&Kind::POD, namespace).filter_map(as_pod)
    }

    /// The pods of a namespace that no controller owns, in the order of uids.
    pub(crate) fn orphan_pods<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let uids = self.orphan_pods.get(namespace).into_iter().flatten();
        uids.filter_map(|uid| self.pod_by_uid(uid))
    }

    /// Every pod.
    pub fn all_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.of_kind(&Kind::POD).filter_map(as_pod)
    }

    /// The pod with this uid.
    pub fn pod_by_uid(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.get(uid).and_then(as_pod)
    }

    /// The Job with this uid.
    pub fn job_by_uid(&self, uid: &str) -> Option<&Arc<Job>> {
        match self.get(uid) {
            Some(Object::Job(job)) => Some(job),
            _ => None,
        }
    }

    /// The CronJob with this uid.
    pub fn cron_job_by_uid(&self, uid: &str) -> Option<&Arc<CronJob>> {
        match self.get(uid) {
            Some(Object::CronJob(cron_job)) => Some(cron_job),
            _ => None,
        }
    }

    /// The namespace of this name.
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        match self.find(&Kind::NAMESPACE, "", name) {
            Some(Object::Namespace(namespace)) => Some(namespace),
            _ => None,
        }
    }

    /// Every node, in the order of names.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.of_kind(&Kind::NODE).filter_map(|object| match object {
            Object::Node(node) => Some(node),
            _ => None,
        })
    }

    /// Takes a version in; yields what changed, nothing if it is not newer than what is known.
    pub(crate) fn apply(&mut self, new: Object) -> Vec<Change> {
        let uid = new.uid().to_owned();
        if self.buried.contains_key(&uid) {
            return Vec::new();
        }
        let old = self.by_uid.get(&uid).cloned();
        if old.as_ref().is_some_and(|old| !is_newer(&new, old)) {
            return Vec::new();
        }
        let mut changes = Vec::new();
        let key = name_key(&new);
        if let Some(other) = self.by_name.get(&key).filter(|other| **other != uid) {
            // The name was taken by an object whose deletion has not been told.
            let other = other.clone();
            changes.extend(self.remove(&other));
        }
        if let Some(old) = &old {
            self.unlink_owners(old);
        }
        for owner in new.metadata().owner_references.iter().flatten() {
            let dependents = self.by_owner.entry(owner.uid.clone()).or_default();
            dependents.insert(uid.clone());
        }
        let namespace = new.namespace().to_owned();
        if !namespace.is_empty() {
            self.by_namespace.entry(namespace.clone()).or_default().insert(uid.clone());
        }
        if is_orphan_pod(&new) {
            self.orphan_pods.entry(namespace).or_default().insert(uid.clone());
        } else {
            take_out(&mut self.orphan_pods, &namespace, &uid);
        }
        self.by_name.insert(key, uid.clone());
        self.by_uid.insert(uid, new.clone());
        changes.push(Change::Applied { old, new });
        changes
    }

    /// Takes in that the watch says that an object is gone. Answers to writes up to `last_write` may still show it.
    pub(crate) fn delete(&mut self, uid: &str, last_write: Option<WriteId>) -> Option<Change> {
        self.bury(uid, false, last_write);
        self.remove(uid)
    }

    /// Takes in that the answer to a write says that an object is gone. The watch may still show it.
    pub(crate) fn delete_ahead_of_watch(&mut self, uid: &str, last_write: Option<WriteId>) -> Option<Change> {
        let known = self.by_uid.contains_key(uid);
        if known {
            self.bury(uid, true, last_write);
        }
        self.remove(uid)
    }

    /// Forgets the deleted that no answer can show any more; `oldest_write` is the oldest one that is not answered.
    pub(crate) fn settle(&mut self, oldest_write: Option<WriteId>) {
        self.buried.retain(|_, tombstone| {
            let answer_may_come = match (oldest_write, tombstone.last_write) {
                (Some(oldest), Some(last)) => oldest <= last,
                _ => false,
            };
            tombstone.watch_is_behind || answer_may_come
        });
    }

    fn bury(&mut self, uid: &str, watch_is_behind: bool, last_write: Option<WriteId>) {
        let tombstone = Tombstone { watch_is_behind, last_write };
        self.buried.insert(uid.to_owned(), tombstone);
    }

    fn remove(&mut self, uid: &str) -> Option<Change> {
        let old = self.by_uid.remove(uid)?;
        self.unlink_owners(&old);
        take_out(&mut self.by_namespace, old.namespace(), uid);
        take_out(&mut self.orphan_pods, old.namespace(), uid);
        let key = name_key(&old);
        if self.by_name.get(&key).is_some_and(|named| named == uid) {
            self.by_name.remove(&key);
        }
        Some(Change::Deleted { old })
    }

    fn unlink_owners(&mut self, object: &Object) {
        for owner in object.metadata().owner_references.iter().flatten() {
            take_out(&mut self.by_owner, &owner.uid, object.uid());
        }
    }
}

/// Takes a uid out of an index, which keeps no empty entries.
fn take_out(index: &mut BTreeMap<String, BTreeSet<String>>, key: &str, uid: &str) {
    if let Some(uids) = index.get_mut(key) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}

fn is_orphan_pod(object: &Object) -> bool {
    let mut owners = object.metadata().owner_references.iter().flatten();
    matches!(object, Object::Pod(_)) && !owners.any(|owner| owner.controller == Some(true))
}

fn as_pod(object: &Object) -> Option<&Arc<Pod>> {
    match object {
        Object::Pod(pod) => Some(pod),
        _ => None,
    }
}

fn name_key(object: &Object) -> NameKey {
    (object.kind(), object.namespace().to_owned(), object.name().to_owned())
}

/// Resource versions are decimal numbers that grow; where one can't be read, what comes later is taken as newer.
fn is_newer(new: &Object, old: &Object) -> bool {
    match (version(new.metadata()), version(old.metadata())) {
        (Some(new), Some(old)) => new > old,
        _ => new != old,
    }
}

fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    fn pod(name: &str, uid: &str, version: &str, owner: Option<&str>) -> Object {
        let owner = owner.map(|uid| OwnerReference { uid: uid.into(), ..Default::default() });
        Pod {
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("n".into()),
                uid: Some(uid.into()),
                resource_version: Some(version.into()),
                owner_references: owner.map(|owner| vec![owner]),
                ..Default::default()
            },
            ..Default::default()
        }
        .into()
    }

    fn dependents(cache: &Cache, uid: &str) -> Vec<String> {
        let dependents = cache.dependents(uid);
        dependents.map(|object| object.uid().to_owned()).collect()
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let mut cache = Cache::default();
        assert_eq!(cache.apply(pod("a", "1", "9", None)).len(), 1);
        assert_eq!(cache.apply(pod("a", "1", "10", Some("o"))).len(), 1);
        assert_eq!(cache.apply(pod("a", "1", "9", None)).len(), 0);
        assert_eq!(cache.apply(pod("a", "1", "10", None)).len(), 0);
        assert_eq!(cache.get("1"), Some(&pod("a", "1", "10", Some("o"))));
        assert_eq!(dependents(&cache, "o"), ["1"]);
    }

    #[test]
    fn owners_are_followed_when_references_change_and_objects_go() {
        let mut cache = Cache::default();
        cache.apply(pod("a", "1", "1", Some("o")));
        cache.apply(pod("b", "2", "2", Some("o")));
        cache.apply(pod("a", "1", "3", Some("p")));
        assert_eq!(dependents(&cache, "o"), ["2"]);
        assert_eq!(dependents(&cache, "p"), ["1"]);
        cache.delete("2", None);
        cache.delete("1", None);
        assert!(cache.by_owner.is_empty());
        assert!(cache.by_namespace.is_empty());
        assert!(cache.orphan_pods.is_empty());
        assert!(cache.by_name.is_empty());
    }

    #[test]
    fn what_an_answer_told_gone_stays_gone_until_the_watch_has_told_it_too() {
        let mut cache = Cache::default();
        cache.apply(pod("a", "1", "1", None));
        assert!(cache.delete_ahead_of_watch("1", None).is_some());
        assert!(cache.apply(pod("a", "1", "2", None)).is_empty());
        cache.settle(None);
        assert!(cache.apply(pod("a", "1", "3", None)).is_empty());
        assert!(cache.delete("1", None).is_none());
        cache.settle(None);
        assert!(cache.buried.is_empty());
    }

    #[test]
    fn what_the_watch_told_gone_is_not_brought_back_by_a_late_answer() {
        let mut cache = Cache::default();
        cache.apply(pod("a", "1", "1", None));
        cache.delete("1", Some(WriteId(7)));
        cache.settle(Some(WriteId(5)));
        assert!(cache.apply(pod("a", "1", "2", None)).is_empty());
        cache.settle(Some(WriteId(8)));
        assert!(cache.buried.is_empty());
    }

    #[test]
    fn a_new_object_of_the_same_name_ends_the_old_one() {
        let mut cache = Cache::default();
        cache.apply(pod("a", "1", "1", None));
        let changes = cache.apply(pod("a", "2", "5", None));
        assert!(matches!(changes.as_slice(), [Change::Deleted { .. }, Change::Applied { old: None, .. }]));
        assert!(cache.get("1").is_none());
        assert!(cache.delete("1", None).is_none());
        assert_eq!(cache.find(&Kind::POD, "n", "a").map(Object::uid), Some("2"));
    }

    #[test]
    fn kinds_and_namespaces_are_listed_apart() {
        let mut cache = Cache::default();
        cache.apply(pod("b", "2", "1", None));
        cache.apply(pod("a", "1", "2", None));
        cache.apply(Object::from(Job {
            metadata: ObjectMeta {
                name: Some("a".into()),
                namespace: Some("n".into()),
                uid: Some("3".into()),
                ..Default::default()
            },
            ..Default::default()
        }));
        let names = |objects: Vec<&Object>| -> Vec<String> { objects.iter().map(|o| o.uid().to_owned()).collect() };
        assert_eq!(names(cache.of_kind(&Kind::POD).collect()), ["1", "2"]);
        assert_eq!(names(cache.in_namespace(&Kind::JOB, "n").collect()), ["3"]);
        assert!(cache.in_namespace(&Kind::POD, "m").next().is_none());
        assert_eq!(cache.all().count(), 3);
    }
}
