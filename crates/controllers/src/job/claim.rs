//! Which pods are a Job's: adoption and release (J-70).

use std::collections::BTreeSet;

use api::selector::LabelSelector;
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::Pod;

use super::pods::{TRACKING_FINALIZER, controller_of};
use super::template::owner_reference;
use super::{is_finished, is_managed_elsewhere, pod_target};
use crate::cache::{Cache, Change};
use crate::object::{Kind, Object, is_being_deleted, namespace_of, uid_of};
use crate::write::{Action, MetadataChange};

/// A Job's pods, and the writes that make the store say so.
#[derive(Debug)]
pub(crate) struct Claims<'a> {
    pub(crate) pods: Vec<&'a Pod>,
    pub(crate) writes: Vec<Action>,
}

/// Sorts the pods of the Job's namespace into those that are its own, those to adopt and those to let go.
pub(crate) fn claim<'a>(cache: &'a Cache, job: &Job, spec: &JobSpec) -> Claims<'a> {
    let selector = selector(spec);
    let job_goes = is_being_deleted(&job.metadata);
    let mut claims = Claims { pods: Vec::new(), writes: Vec::new() };
    let selects = |pod: &Pod| selector.as_ref().is_some_and(|selector| selects(selector, pod));
    for pod in owned(cache, uid_of(&job.metadata)) {
        if selects(pod) {
            claims.pods.push(pod);
        } else if !job_goes {
            claims.writes.push(let_go(pod, uid_of(&job.metadata)));
        }
    }
    let orphans = cache.orphan_pods(namespace_of(&job.metadata)).filter(|_| !job_goes);
    let adoptable = orphans.filter(|pod| selects(pod) && !is_being_deleted(&pod.metadata));
    claims.writes.extend(adoptable.map(|pod| adopt(pod, job)));
    claims
}

/// The pods whose controller has this uid.
pub(crate) fn owned<'a>(cache: &'a Cache, uid: &str) -> impl Iterator<Item = &'a Pod> {
    let dependents = cache.dependents(uid).filter_map(|object| match object {
        Object::Pod(pod) => Some(pod.as_ref()),
        _ => None,
    });
    dependents.filter(move |pod| controller_of(pod).is_some_and(|owner| owner.uid == uid))
}

/// The uids of the Jobs that a change of a pod concerns: its owners, before and after, and for an orphan those that select it.
pub(crate) fn jobs_of(cache: &Cache, change: &Change) -> BTreeSet<String> {
    let mut jobs = BTreeSet::new();
    for object in [Some(change.object()), change.old()].into_iter().flatten() {
        let Object::Pod(pod) = object else { continue };
        if let Some(owner) = controller_of(pod) {
            if owner.kind == "Job" {
                jobs.insert(owner.uid.clone());
            }
            continue;
        }
        jobs.extend(adopters(cache, pod).map(|job| uid_of(&job.metadata).to_owned()));
    }
    jobs
}

/// The unfinished Jobs that select the pod.
pub(crate) fn adopters<'a>(cache: &'a Cache, pod: &'a Pod) -> impl Iterator<Item = &'a Job> {
    let namespace = namespace_of(&pod.metadata);
    let jobs = cache.in_namespace(&Kind::JOB, namespace);
    let jobs = jobs.filter_map(|object| match object {
        Object::Job(job) => Some(job.as_ref()),
        _ => None,
    });
    jobs.filter(move |job| {
        let selector = job.spec.as_ref().and_then(selector);
        let wants = selector.is_some_and(|selector| selects(&selector, pod));
        wants && !is_finished(job) && !is_managed_elsewhere(job)
    })
}

/// The Job's selector; one that is absent, empty or can't be read selects nothing.
fn selector(spec: &JobSpec) -> Option<LabelSelector> {
    let selector = LabelSelector::from_spec(spec.selector.as_ref()).ok()?;
    Some(selector).filter(|selector| !selector.selects_everything())
}

fn selects(selector: &LabelSelector, pod: &Pod) -> bool {
    let none = Default::default();
    selector.matches(pod.metadata.labels.as_ref().unwrap_or(&none))
}

fn adopt(pod: &Pod, job: &Job) -> Action {
    Action::EditMetadata {
        target: pod_target(pod),
        if_version: None,
        changes: vec![
            MetadataChange::AddOwnerReference(owner_reference(job)),
            MetadataChange::AddFinalizer(TRACKING_FINALIZER.to_owned()),
        ],
    }
}

fn let_go(pod: &Pod, job_uid: &str) -> Action {
    Action::EditMetadata {
        target: pod_target(pod),
        if_version: None,
        changes: vec![
            MetadataChange::RemoveOwnerReference { uid: job_uid.to_owned() },
            MetadataChange::RemoveFinalizer(TRACKING_FINALIZER.to_owned()),
        ],
    }
}
