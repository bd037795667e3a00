//! A store with the API server's manners, as far as the controllers can tell: revisions, uids, generated names, graceful deletion, finalizers, and checks of Job statuses.

use std::collections::BTreeMap;

use controllers::{Action, Kind, MetadataChange, Object, Outcome, Propagation, Refusal, RefusalCause, Target};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::dice::Dice;

/// What a watch would tell.
#[derive(Clone, Debug)]
pub enum Told {
    Applied(Object),
    Deleted(Target),
}

impl Told {
    fn uid(&self) -> &str {
        match self {
            Told::Applied(object) => object.uid(),
            Told::Deleted(target) => &target.uid,
        }
    }
}

#[derive(Default)]
pub struct Store {
    pub objects: BTreeMap<String, Object>,
    pub revision: u64,
    uids: u64,
    /// What the watch has yet to tell.
    pub told: std::collections::VecDeque<Told>,
    /// Every event recorded: `Normal|Warning Reason Message`.
    pub events: Vec<String>,
    /// Every version of every Job, in order.
    pub job_history: Vec<Job>,
    /// Names of created pods in order.
    pub created_pods: Vec<String>,
}

pub fn second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap())
}

pub fn metadata(object: &mut Object) -> &mut ObjectMeta {
    use std::sync::Arc;
    match object {
        Object::Pod(o) => &mut Arc::make_mut(o).metadata,
        Object::Job(o) => &mut Arc::make_mut(o).metadata,
        Object::CronJob(o) => &mut Arc::make_mut(o).metadata,
        Object::Namespace(o) => &mut Arc::make_mut(o).metadata,
        Object::Node(o) => &mut Arc::make_mut(o).metadata,
        Object::Service(o) => &mut Arc::make_mut(o).metadata,
        Object::Endpoints(o) => &mut Arc::make_mut(o).metadata,
        Object::EndpointSlice(o) => &mut Arc::make_mut(o).metadata,
        Object::ServiceAccount(o) => &mut Arc::make_mut(o).metadata,
        Object::ConfigMap(o) => &mut Arc::make_mut(o).metadata,
        Object::Other(o) => &mut Arc::make_mut(o).metadata,
    }
}

impl Store {
    pub fn find(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Object> {
        self.objects
            .values()
            .find(|object| object.kind() == *kind && object.namespace() == namespace && object.name() == name)
    }

    /// Something that the watches have yet to tell: of one object all in order, of different objects in any order.
    pub fn take_told(&mut self, dice: &mut Dice) -> Option<Told> {
        let uids: Vec<&str> = self.told.iter().map(Told::uid).collect();
        let is_next = |place: &usize| !uids[..*place].contains(&uids[*place]);
        let next: Vec<usize> = (0..uids.len()).filter(is_next).collect();
        let place = *dice.pick(&next)?;
        self.told.remove(place)
    }

    pub fn pods(&self) -> Vec<Pod> {
        let pods = self.objects.values().filter_map(|object| match object {
            Object::Pod(pod) => Some(pod.as_ref().clone()),
            _ => None,
        });
        pods.collect()
    }

    /// Creates or replaces, as a user or the node would.
    pub fn put(&mut self, mut object: Object) -> Object {
        self.revision += 1;
        metadata(&mut object).resource_version = Some(self.revision.to_string());
        self.objects.insert(object.uid().to_owned(), object.clone());
        if let Object::Job(job) = &object {
            self.job_history.push(job.as_ref().clone());
        }
        self.told.push_back(Told::Applied(object.clone()));
        object
    }

    pub fn create(&mut self, mut object: Object, now: Timestamp) -> Result<Object, Refusal> {
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        let suffix = format!("{:05}", self.uids);
        let kind = object.kind();
        let meta = metadata(&mut object);
        if meta.name.is_none() {
            meta.name = Some(format!("{}{suffix}", meta.generate_name.clone().unwrap()));
        }
        meta.uid = Some(uid);
        meta.creation_timestamp = Some(second(now));
        meta.generation = Some(1);
        let (namespace, name) = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap());
        if self.find(&kind, &namespace, &name).is_some() {
            return Err(refusal(RefusalCause::AlreadyExists, &format!("{name:?} already exists")));
        }
        if is_terminating(self.find(&Kind::NAMESPACE, "", &namespace)) {
            return Err(refusal(RefusalCause::NamespaceTerminating, "the namespace is being terminated"));
        }
        if let Object::Namespace(namespace) = &mut object {
            let spec = std::sync::Arc::make_mut(namespace).spec.get_or_insert_default();
            spec.finalizers = Some(vec!["kubernetes".into()]);
        }
        if let Object::Pod(pod) = &mut object {
            let pod = std::sync::Arc::make_mut(pod);
            pod.status = Some(PodStatus { phase: Some("Pending".into()), ..Default::default() });
            self.created_pods.push(name);
        }
        Ok(self.put(object))
    }

    /// Changes an object in place; panics if it isn't there.
    pub fn change(&mut self, uid: &str, change: impl FnOnce(&mut Object)) {
        let mut object = self.objects[uid].clone();
        change(&mut object);
        // A write that changes nothing makes no new version.
        if object != self.objects[uid] {
            self.put(object);
            self.reap(uid);
        }
    }

    pub fn change_pod(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) {
        self.change(uid, |object| match object {
            Object::Pod(pod) => change(std::sync::Arc::make_mut(pod)),
            other => panic!("not a pod: {other:?}"),
        });
    }

    pub fn change_job(&mut self, uid: &str, change: impl FnOnce(&mut Job)) {
        self.change(uid, |object| match object {
            Object::Job(job) => {
                let job = std::sync::Arc::make_mut(job);
                let spec = job.spec.clone();
                change(job);
                if job.spec != spec {
                    job.metadata.generation = job.metadata.generation.map(|g| g + 1);
                }
            }
            other => panic!("not a job: {other:?}"),
        });
    }

    /// DELETE, as a user would send it.
    pub fn delete(
        &mut self,
        uid: &str,
        propagation: Propagation,
        grace_seconds: Option<i64>,
        now: Timestamp,
    ) -> Outcome {
        let Some(object) = self.objects.get(uid).cloned() else {
            return Outcome::Refused(refusal(RefusalCause::NotFound, "not found"));
        };
        let mut grace = 0;
        if let Object::Pod(pod) = &object {
            let spec = pod.spec.as_ref().unwrap();
            let phase = pod.status.as_ref().and_then(|s| s.phase.clone()).unwrap_or_default();
            let is_bound = spec.node_name.is_some();
            if is_bound && !matches!(phase.as_str(), "Succeeded" | "Failed") {
                grace = grace_seconds.or(spec.termination_grace_period_seconds).unwrap_or(30);
            }
        }
        let finalizer = match propagation {
            Propagation::Foreground => Some("foregroundDeletion"),
            Propagation::Orphan => Some("orphan"),
            Propagation::Background => None,
        };
        self.change(uid, |object| {
            let meta = metadata(object);
            if let Some(finalizer) = finalizer {
                MetadataChange::AddFinalizer(finalizer.into()).apply(meta);
            }
            let earlier = meta.deletion_grace_period_seconds;
            if meta.deletion_timestamp.is_none() || earlier.is_some_and(|earlier| grace < earlier) {
                let end = now.checked_add(SignedDuration::from_secs(grace)).unwrap();
                meta.deletion_timestamp = Some(second(end));
                meta.deletion_grace_period_seconds = Some(grace);
            }
        });
        self.shown(uid)
    }

    /// Removes what is being deleted, has no grace left and no finalizer.
    fn reap(&mut self, uid: &str) {
        let Some(object) = self.objects.get(uid) else { return };
        let meta = object.metadata();
        let is_over = meta.deletion_timestamp.is_some()
            && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
            && meta.finalizers.iter().flatten().next().is_none()
            && !matches!(object, Object::Namespace(namespace) if has_spec_finalizers(namespace));
        if is_over {
            self.remove(uid);
        }
    }

    /// Takes an object out whatever it carries.
    pub fn remove(&mut self, uid: &str) {
        if let Some(object) = self.objects.remove(uid) {
            self.revision += 1;
            self.told.push_back(Told::Deleted(object.target()));
        }
    }

    fn shown(&self, uid: &str) -> Outcome {
        match self.objects.get(uid) {
            Some(object) => Outcome::Stored(object.clone()),
            None => Outcome::Gone,
        }
    }

    /// Carries a write out as the API server would.
    pub fn carry_out(&mut self, action: &Action, now: Timestamp) -> Outcome {
        match action {
            Action::Create(object) => match self.create(object.clone(), now) {
                Ok(object) => Outcome::Stored(object),
                Err(refusal) => Outcome::Refused(refusal),
            },
            Action::UpdateStatus(object) | Action::Update(object) => {
                self.update(object, matches!(action, Action::UpdateStatus(_)))
            }
            Action::PatchPodStatus { pod, patch } if !self.is_at(pod, patch.if_version.as_deref()) => {
                Outcome::Refused(refusal(RefusalCause::Conflict, "modified"))
            }
            Action::PatchPodStatus { pod, patch } => self.edit(&pod.uid, |object| {
                let Object::Pod(pod) = object else { panic!("not a pod") };
                let status = std::sync::Arc::make_mut(pod).status.get_or_insert_default();
                for condition in &patch.conditions {
                    let conditions = status.conditions.get_or_insert_default();
                    conditions.retain(|one| one.type_ != condition.type_);
                    conditions.push(condition.clone());
                }
                if patch.phase.is_some() {
                    status.phase.clone_from(&patch.phase);
                }
                if patch.reason.is_some() {
                    status.reason.clone_from(&patch.reason);
                }
                if patch.message.is_some() {
                    status.message.clone_from(&patch.message);
                }
                if patch.nominated_node_name.is_some() {
                    status.nominated_node_name.clone_from(&patch.nominated_node_name);
                }
            }),
            Action::EditMetadata { target, changes, if_version } => {
                if !self.is_at(target, if_version.as_deref()) {
                    return Outcome::Refused(refusal(RefusalCause::Conflict, "modified"));
                }
                self.edit(&target.uid, |object| {
                    for change in changes {
                        change.apply(metadata(object));
                    }
                })
            }
            Action::Read(target) => self.shown(&target.uid),
            Action::Delete { target, if_version, .. } if !self.is_at(target, if_version.as_deref()) => {
                Outcome::Refused(refusal(RefusalCause::Conflict, "modified"))
            }
            Action::Delete { target, propagation, grace_seconds, .. } => {
                self.delete(&target.uid, *propagation, *grace_seconds, now)
            }
            Action::Bind { pod, node_name } => self.edit(&pod.uid, |object| {
                let Object::Pod(pod) = object else { panic!("not a pod") };
                let pod = std::sync::Arc::make_mut(pod);
                pod.spec.get_or_insert_default().node_name = Some(node_name.clone());
            }),
            Action::FinalizeNamespace { namespace, finalizer } => self.edit(&namespace.uid, |object| {
                let Object::Namespace(namespace) = object else { panic!("not a namespace") };
                let spec = std::sync::Arc::make_mut(namespace).spec.get_or_insert_default();
                spec.finalizers.get_or_insert_default().retain(|one| one != finalizer);
            }),
            Action::RecordEvent(event) => {
                let type_ = if event.warning { "Warning" } else { "Normal" };
                self.events.push(format!("{type_} {} {}", event.reason, event.message));
                Outcome::Done
            }
        }
    }

    /// True unless the object is stored in another version than the one asked for.
    fn is_at(&self, target: &Target, version: Option<&str>) -> bool {
        let stored = self.objects.get(&target.uid);
        let stored = stored.and_then(|object| object.metadata().resource_version.as_deref());
        stored.is_none() || version.is_none() || stored == version
    }

    fn edit(&mut self, uid: &str, change: impl FnOnce(&mut Object)) -> Outcome {
        if !self.objects.contains_key(uid) {
            return Outcome::Refused(refusal(RefusalCause::NotFound, "not found"));
        }
        self.change(uid, change);
        self.shown(uid)
    }

    fn update(&mut self, object: &Object, only_status: bool) -> Outcome {
        let Some(stored) = self.objects.get(object.uid()).cloned() else {
            return Outcome::Refused(refusal(RefusalCause::NotFound, "not found"));
        };
        if stored.metadata().resource_version != object.metadata().resource_version {
            return Outcome::Refused(refusal(RefusalCause::Conflict, "the object has been modified"));
        }
        let mut new = stored.clone();
        match (&mut new, object) {
            (Object::Job(new), Object::Job(wanted)) if only_status => {
                check_job_status(new, wanted);
                std::sync::Arc::make_mut(new).status = through_json(&wanted.status);
            }
            (Object::CronJob(new), Object::CronJob(wanted)) if only_status => {
                std::sync::Arc::make_mut(new).status = through_json(&wanted.status);
            }
            (Object::Namespace(new), Object::Namespace(wanted)) if only_status => {
                std::sync::Arc::make_mut(new).status = through_json(&wanted.status);
            }
            (new, _) if !only_status => *new = object.clone(),
            (new, _) => panic!("status of {new:?}"),
        }
        if new == stored {
            panic!("a write that changes nothing: {object:?}");
        }
        Outcome::Stored(self.put(new))
    }
}

/// What is written goes through JSON, as it does on its way to a real store: times lose their fractions.
fn through_json<T: serde_json_bounds::Both>(value: &T) -> T {
    serde_json::from_value(serde_json::to_value(value).unwrap()).unwrap()
}

mod serde_json_bounds {
    pub trait Both: k8s_openapi::serde::Serialize + k8s_openapi::serde::de::DeserializeOwned {}
    impl<T: k8s_openapi::serde::Serialize + k8s_openapi::serde::de::DeserializeOwned> Both for T {}
}

fn is_terminating(namespace: Option<&Object>) -> bool {
    namespace.is_some_and(|namespace| namespace.metadata().deletion_timestamp.is_some())
}

fn has_spec_finalizers(namespace: &k8s_openapi::api::core::v1::Namespace) -> bool {
    let spec = namespace.spec.as_ref();
    spec.and_then(|spec| spec.finalizers.as_ref()).is_some_and(|finalizers| !finalizers.is_empty())
}

pub fn refusal(cause: RefusalCause, message: &str) -> Refusal {
    Refusal { cause, message: message.to_owned() }
}

/// J-25: what the API server refuses in a Job's status; a controller that asks for it is wrong.
fn check_job_status(old: &Job, new: &Job) {
    let (before, after) = (old.status.clone().unwrap_or_default(), new.status.clone().unwrap());
    let is_true = |conditions: &Option<Vec<JobCondition>>, type_: &str| {
        let mut conditions = conditions.iter().flatten();
        conditions.any(|one| one.type_ == type_ && one.status == "True")
    };
    let says = |type_: &str| is_true(&after.conditions, type_);
    let said = |type_: &str| is_true(&before.conditions, type_);
    let spec = new.spec.as_ref().unwrap();
    let uncounted = after.uncounted_terminated_pods.clone().unwrap();
    let finished = says("Complete") || says("Failed");
    assert!(!said("Complete") && !said("Failed"), "a finished Job is written: {after:?}");
    if finished {
        assert!(after.start_time.is_some() || spec.suspend == Some(true), "finished without startTime");
        assert!(after.active.is_none(), "finished with active pods: {after:?}");
        assert_eq!(after.terminating, Some(0), "finished with terminating pods");
        assert_eq!(uncounted, Default::default(), "finished with uncounted pods");
    }
    assert_eq!(says("Complete"), after.completion_time.is_some(), "completionTime");
    if says("Complete") {
        assert!(said("SuccessCriteriaMet"), "Complete without SuccessCriteriaMet");
        assert!(after.completion_time >= after.start_time, "completionTime before startTime");
    }
    if says("Failed") {
        assert!(said("FailureTarget"), "Failed without FailureTarget");
    }
    assert!(!(says("Complete") && says("Failed")));
    assert!(!(says("SuccessCriteriaMet") && says("FailureTarget")));
    for type_ in ["SuccessCriteriaMet", "FailureTarget"] {
        assert!(!said(type_) || says(type_), "{type_} was taken back");
    }
    assert!(after.failed.unwrap_or(0) >= before.failed.unwrap_or(0), "failed fell");
    if spec.completion_mode.as_deref() != Some("Indexed") {
        assert!(after.succeeded.unwrap_or(0) >= before.succeeded.unwrap_or(0), "succeeded fell");
        assert!(after.completed_indexes.is_none() && after.failed_indexes.is_none());
    }
    assert!(after.ready.unwrap() <= after.active.unwrap_or(0), "ready above active: {after:?}");
    assert!(after.terminating.is_some());
    if before.start_time.is_some() && after.start_time != before.start_time {
        let resumes = said("Suspended") || spec.suspend == Some(true);
        assert!(resumes, "startTime changed while not suspended");
    }
    assert!(
        after.active != Some(0) && after.succeeded != Some(0) && after.failed != Some(0),
        "J-106: zeros are left out"
    );
}
