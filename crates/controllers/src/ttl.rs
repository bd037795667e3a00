//! Deletes finished Jobs when their `ttlSecondsAfterFinished` have passed (J-105).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use crate::cache::{Cache, Change};
use crate::job::finished_condition;
use crate::object::{Object, is_being_deleted};
use crate::runner::{Reconcile, Step};
use crate::time::after_seconds;
use crate::write::{Action, Propagation};

/// Decides for Jobs; keyed by their uid.
#[derive(Debug)]
pub(crate) struct TtlAfterFinished;

impl Reconcile for TtlAfterFinished {
    type Key = String;

    fn affected(&self, _: &Cache, change: &Change, now: Timestamp) -> Vec<(String, Timestamp)> {
        match change {
            Change::Applied { new: Object::Job(job), .. } if expiry(job).is_some() => {
                vec![(change.object().uid().to_owned(), now)]
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, cache: &Cache, key: &String, now: Timestamp) -> Step {
        let Some((job, expiry)) = cache.job_by_uid(key).and_then(|job| Some((job, expiry(job)?))) else {
            return Step::rest();
        };
        if now < expiry {
            return Step::rest().again(Some(expiry));
        }
        Step::write([Action::Delete {
            target: Object::Job(job.clone()).target(),
            if_version: None,
            propagation: Propagation::Foreground,
            grace_seconds: None,
        }])
    }
}

/// When the Job is to go; `None` if it has no such time, or is going already.
fn expiry(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let finish = finished_condition(job)?.last_transition_time.as_ref()?.0;
    (!is_being_deleted(&job.metadata)).then(|| after_seconds(finish, i64::from(seconds)))
}
