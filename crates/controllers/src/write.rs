//! All that the controllers can ask for, and the answers to it.
//!
//! A write names its object by uid, so that another object of the same name is never hit.
//! Writes are idempotent: to delete what is gone or to remove a finalizer that is not there is success.
//! The driver carries a write out and answers it with [`crate::Input::Answered`]; it decides nothing.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::object::{Object, Target};

/// Names one [`Write`]; the answer to it carries the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// One thing to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// Answer with this id.
    pub id: WriteId,
    /// What to write.
    pub action: Action,
}

/// What to write.
///
/// Writes that were yielded together don't depend on each other and can be carried out in any order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create the object (POST). `metadata.generateName` is the server's business.
    /// Answered `Stored` or `Refused`.
    Create(Object),
    /// Replace the object (PUT); refused as `Conflict` unless `metadata.resourceVersion` is still the stored one.
    /// Answered `Stored` or `Refused`.
    Update(Object),
    /// Replace the object's status (PUT `/status`); refused as `Conflict` unless `metadata.resourceVersion` is still the stored one.
    /// Answered `Stored` or `Refused`.
    UpdateStatus(Object),
    /// Set conditions of a pod, and its phase and reason where given, leaving the rest of its status alone (PATCH `/status`).
    /// Answered `Stored` or `Refused`.
    PatchPodStatus {
        /// Which pod.
        pod: Target,
        /// What to set.
        patch: Box<PodStatusPatch>,
    },
    /// Change finalizers and owner references of whatever is stored; [`MetadataChange::apply`] is the law.
    /// Answered `Stored`, `Gone` if the object went with its last finalizer, or `Refused`.
    EditMetadata {
        /// Which object.
        target: Target,
        /// If given, refused as `Conflict` unless this is still the stored resourceVersion.
        if_version: Option<String>,
        /// What to change, in this order.
        changes: Vec<MetadataChange>,
    },
    /// Look the object up (GET), because it is named by others and has not been seen.
    /// Answered `Stored` if it is there, `Gone` if it is not or another is in its place, or `Refused`.
    Read(Target),
    /// Delete the object (DELETE) with the uid as precondition.
    /// Answered `Stored` if it stays for now (grace, finalizers), `Gone` if not, or `Refused`.
    Delete {
        /// Which object.
        target: Target,
        /// If given, refused as `Conflict` unless this is still the stored resourceVersion.
        if_version: Option<String>,
        /// What becomes of its dependents.
        propagation: Propagation,
        /// `gracePeriodSeconds`; `None` for the object's own.
        grace_seconds: Option<i64>,
    },
    /// Bind a pod to a node (POST `/binding`).
    /// Answered `Stored` or `Refused`.
    Bind {
        /// Which pod.
        pod: Target,
        /// `metadata.name` of the node.
        node_name: String,
    },
    /// Take a finalizer out of `spec.finalizers` of a namespace (PUT `/finalize`).
    /// Answered `Stored`, `Gone` or `Refused`.
    FinalizeNamespace {
        /// Which namespace.
        namespace: Target,
        /// The finalizer to take out.
        finalizer: String,
    },
    /// Record an event. Equal ones are counted together by the recorder (J-114).
    /// Answered `Done` or `Refused`; nothing waits for it.
    RecordEvent(EventRecord),
}

impl Action {
    /// The stored object that the write is about; none for one that is to be created.
    pub fn target(&self) -> Option<Target> {
        match self {
            Action::Update(object) | Action::UpdateStatus(object) => Some(object.target()),
            Action::PatchPodStatus { pod, .. } | Action::Bind { pod, .. } => Some(pod.clone()),
            Action::EditMetadata { target, .. } | Action::Delete { target, .. } | Action::Read(target) => {
                Some(target.clone())
            }
            Action::FinalizeNamespace { namespace, .. } => Some(namespace.clone()),
            Action::Create(_) | Action::RecordEvent(_) => None,
        }
    }
}

/// What becomes of an object's dependents (`propagationPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object goes at once, its dependents after it.
    Background,
    /// The object goes when its blocking dependents are gone.
    Foreground,
    /// The dependents stay and lose their reference.
    Orphan,
}

impl Propagation {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// What [`Action::PatchPodStatus`] sets.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PodStatusPatch {
    /// If given, refused as `Conflict` unless this is still the stored resourceVersion.
    pub if_version: Option<String>,
    /// Conditions, each replacing the one of its type.
    pub conditions: Vec<PodCondition>,
    /// `status.phase`, if it is to change.
    pub phase: Option<String>,
    /// `status.reason`, if it is to change.
    pub reason: Option<String>,
    /// `status.message`, if it is to change.
    pub message: Option<String>,
    /// `status.nominatedNodeName`, if it is to change; empty takes it away.
    pub nominated_node_name: Option<String>,
}

/// One change of an object's metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataChange {
    /// Add a finalizer, unless it is there.
    AddFinalizer(String),
    /// Remove a finalizer, if it is there.
    RemoveFinalizer(String),
    /// Add an owner reference; one with the same uid is replaced.
    AddOwnerReference(OwnerReference),
    /// Remove the owner reference with this uid.
    RemoveOwnerReference {
        /// The owner's uid.
        uid: String,
    },
    /// Set `blockOwnerDeletion: false` on the owner reference with this uid.
    UnblockOwnerDeletion {
        /// The owner's uid.
        uid: String,
    },
}

impl MetadataChange {
    /// Makes the change; says whether anything is different after it.
    pub fn apply(&self, metadata: &mut ObjectMeta) -> bool {
        match self {
            MetadataChange::AddFinalizer(finalizer) => {
                let finalizers = metadata.finalizers.get_or_insert_default();
                let missing = !finalizers.contains(finalizer);
                if missing {
                    finalizers.push(finalizer.clone());
                }
                missing
            }
            MetadataChange::RemoveFinalizer(finalizer) => retain(&mut metadata.finalizers, |one| one != finalizer),
            MetadataChange::AddOwnerReference(reference) => add_owner(metadata, reference),
            MetadataChange::RemoveOwnerReference { uid } => {
                retain(&mut metadata.owner_references, |one| &one.uid != uid)
            }
            MetadataChange::UnblockOwnerDeletion { uid } => {
                let mut changed = false;
                for owner in metadata.owner_references.iter_mut().flatten() {
                    if &owner.uid == uid && owner.block_owner_deletion == Some(true) {
                        owner.block_owner_deletion = Some(false);
                        changed = true;
                    }
                }
                changed
            }
        }
    }
}

fn add_owner(metadata: &mut ObjectMeta, reference: &OwnerReference) -> bool {
    let owners = metadata.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|owner| owner.uid == reference.uid) {
        Some(owner) if owner == reference => false,
        Some(owner) => {
            *owner = reference.clone();
            true
        }
        None => {
            owners.push(reference.clone());
            true
        }
    }
}

/// Keeps what the test says; an emptied list becomes absent, as the API server writes it.
fn retain<T>(list: &mut Option<Vec<T>>, keep: impl FnMut(&T) -> bool) -> bool {
    let Some(items) = list else { return false };
    let before = items.len();
    items.retain(keep);
    let changed = items.len() != before;
    if items.is_empty() {
        *list = None;
    }
    changed
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRecord {
    /// `involvedObject`.
    pub regarding: ObjectReference,
    /// `source.component`: `job-controller`, `cronjob-controller`, `default-scheduler`, ...
    pub component: &'static str,
    /// True for `Warning`, false for `Normal`.
    pub warning: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

impl From<EventRecord> for Event {
    /// The event with what is known here; name, times and count are the recorder's.
    fn from(record: EventRecord) -> Event {
        let type_ = if record.warning { "Warning" } else { "Normal" };
        Event {
            source: Some(EventSource { component: Some(record.component.to_owned()), host: None }),
            reporting_component: Some(record.component.to_owned()),
            type_: Some(type_.to_owned()),
            reason: Some(record.reason),
            message: Some(record.message),
            involved_object: record.regarding,
            ..Event::default()
        }
    }
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Done; this is the object as it is stored, with its new resourceVersion.
    Stored(Object),
    /// Done, and the object is gone from the store.
    Gone,
    /// Done; there is no object to show.
    Done,
    /// Not done.
    Refused(Refusal),
}

/// Why a write was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of refusal.
    pub cause: RefusalCause,
    /// The server's message, as users see it in events.
    pub message: String,
}

/// Kinds of refusal that the controllers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The object is not there, or one with another uid is there in its place.
    NotFound,
    /// The resourceVersion is not the stored one.
    Conflict,
    /// An object of that name is there.
    AlreadyExists,
    /// The namespace is being deleted (cause `NamespaceTerminating`).
    NamespaceTerminating,
    /// The server holds the object for wrong (422), or refuses for good in another way.
    Invalid,
    /// Anything that may be otherwise the next time.
    Unavailable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_changes_are_idempotent_and_say_if_they_changed_anything() {
        let owner = OwnerReference { uid: "u".into(), block_owner_deletion: Some(true), ..Default::default() };
        let changes = [
            MetadataChange::AddFinalizer("f".into()),
            MetadataChange::AddOwnerReference(owner),
            MetadataChange::UnblockOwnerDeletion { uid: "u".into() },
            MetadataChange::RemoveOwnerReference { uid: "u".into() },
            MetadataChange::RemoveFinalizer("f".into()),
        ];
        let mut metadata = ObjectMeta::default();
        for change in &changes {
            assert!(change.apply(&mut metadata), "{change:?}");
            assert!(!change.apply(&mut metadata), "{change:?} again");
        }
        assert_eq!(metadata, ObjectMeta::default());
    }
}
