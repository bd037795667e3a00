//! Takes the tracking finalizer from pods whose Job is gone or finished, so that they can go (J-121 to J-126).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::claim::{adopters, owned};
use super::manage::release;
use super::pods::{controller_of, is_tracked};
use super::{is_finished, is_managed_elsewhere};
use crate::cache::{Cache, Change};
use crate::object::{Kind, Object, is_being_deleted, uid_of};
use crate::runner::{Reconcile, Step};

/// Decides for pods; keyed by their uid.
#[derive(Debug)]
pub(crate) struct OrphanPods;

impl Reconcile for OrphanPods {
    type Key = String;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        let object = change.object();
        match object {
            Object::Pod(pod) if is_tracked(pod) => vec![(object.uid().to_owned(), now)],
            Object::Job(job) if is_finished(job) || is_going(change) => owned(cache, object.uid())
                .chain(cache.orphan_pods(object.namespace()).map(AsRef::as_ref))
                .filter(|pod| is_tracked(pod))
                .map(|pod| (uid_of(&pod.metadata).to_owned(), now))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, _now: Timestamp) -> Step {
        match cache.pod_by_uid(key) {
            Some(pod) if is_tracked(pod) && is_orphan(cache, pod) => Step::write([release(pod)]),
            _ => Step::rest(),
        }
    }
}

fn is_going(change: &Change) -> bool {
    matches!(change, Change::Deleted { .. }) || is_being_deleted(change.object().metadata())
}

/// True if no Job will count the pod.
fn is_orphan(cache: &Cache, pod: &Pod) -> bool {
    let Some(owner) = controller_of(pod) else {
        // What a Job is about to adopt keeps the finalizer, or the adopted pod would never be counted.
        let adoptable = !is_being_deleted(&pod.metadata);
        let mut adopters = adopters(cache, pod);
        return !(adoptable && adopters.any(|job| !is_being_deleted(&job.metadata)));
    };
    if !Kind::JOB.is_named_by(&owner.api_version, &owner.kind) {
        return false;
    }
    match cache.job_by_uid(&owner.uid) {
        Some(job) => is_finished(job) && !is_managed_elsewhere(job),
        None => true,
    }
}
