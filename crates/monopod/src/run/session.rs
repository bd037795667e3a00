//! What a run is waiting for, and what its end means: pods and Jobs in, decisions out.
//!
//! Holds no clock and prints nothing, so that each rule can be tested with objects alone.

use std::collections::{BTreeMap, BTreeSet};

use advice::explain::{NeverEnding, never_ending_helpers};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// How long a helper may outlive its app before the run speaks of it: it may be told to stop by a flag file or a quit endpoint.
const PATIENCE: SignedDuration = SignedDuration::from_millis(3500);

/// The exit code of a failure that has no exit code of its own.
const EXIT_FAILED: u8 = 1;

/// The pods and Jobs of a run.
#[derive(Debug, Default)]
pub(crate) struct Session {
    jobs: BTreeMap<String, Job>,
    pods: BTreeMap<String, Pod>,
    /// The last of pods that belonged to no Job.
    gone: Vec<Pod>,
    /// The first app container that failed of each owner: when, and with which code.
    first_failures: BTreeMap<String, (Timestamp, i32)>,
    /// Jobs and bare pods that the manifests hold; the run can't be over before it has seen as many.
    expected: usize,
    /// Pods that the run has spoken about.
    explained: BTreeSet<String>,
}

impl Session {
    /// A session that waits for so many Jobs and bare pods.
    pub(crate) fn expecting(expected: usize) -> Session {
        Session { expected, ..Session::default() }
    }

    /// A Job was created or changed.
    pub(crate) fn apply_job(&mut self, job: Job) {
        self.jobs.insert(key(&job.metadata), job);
    }

    /// A Job is gone.
    pub(crate) fn delete_job(&mut self, job: &Job) {
        self.jobs.remove(&key(&job.metadata));
    }

    /// A pod was created or changed.
    pub(crate) fn apply_pod(&mut self, pod: Pod) {
        self.note_failures(&pod);
        self.pods.insert(key(&pod.metadata), pod);
    }

    /// A pod is gone. One that belongs to no Job counts with the last that was seen of it.
    pub(crate) fn delete_pod(&mut self, pod: &Pod) {
        self.note_failures(pod);
        self.pods.remove(&key(&pod.metadata));
        if controller_uid(&pod.metadata).is_none() {
            self.gone.push(pod.clone());
        }
    }

    /// True when no pod is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// True when every Job has finished and every other pod has ended.
    pub(crate) fn is_over(&self) -> bool {
        let seen = self.jobs.len() + self.bare_pods().count();
        seen >= self.expected
            && self.jobs.values().all(|job| job_result(job).is_some())
            && self.bare_pods().all(|pod| has_ended(pod) || self.gone.contains(pod))
    }

    /// 0 if all succeeded; else the code of the app container that failed first, or 1.
    pub(crate) fn exit_code(&self) -> u8 {
        let failed_jobs = self.jobs.values().filter(|job| job_result(job) != Some(true)).map(|job| &job.metadata);
        let failed_pods = self.bare_pods().filter(|pod| phase(pod) != "Succeeded").map(|pod| &pod.metadata);
        let failed: Vec<&str> = failed_jobs.chain(failed_pods).filter_map(|metadata| metadata.uid.as_deref()).collect();
        if failed.is_empty() {
            return 0;
        }
        let first = failed.iter().filter_map(|uid| self.first_failures.get(*uid)).min();
        first.map_or(EXIT_FAILED, |(_, code)| u8::try_from(*code).unwrap_or(EXIT_FAILED))
    }

    /// Pods that can't end, each told once: its name and why.
    pub(crate) fn take_findings(&mut self, now: Timestamp) -> Vec<(String, NeverEnding)> {
        let mut found = Vec::new();
        for (key, pod) in &self.pods {
            if self.explained.contains(key) {
                continue;
            }
            if let Some(finding) = never_ending_helpers(pod, now, PATIENCE) {
                found.push((key.clone(), finding));
            }
        }
        self.explained.extend(found.iter().map(|(key, _)| key.clone()));
        found.into_iter().map(|(key, finding)| (self.pods.get(&key).map_or_else(String::new, blame), finding)).collect()
    }

    /// When to ask for findings again, if nothing changes until then.
    pub(crate) fn next_finding_at(&self) -> Option<Timestamp> {
        let open = self.pods.iter().filter(|(key, _)| !self.explained.contains(*key));
        open.filter_map(|(_, pod)| never_ending_helpers(pod, Timestamp::MAX, SignedDuration::ZERO))
            .filter_map(|finding| finding.last_ended.2.checked_add(PATIENCE).ok())
            .min()
    }

    fn bare_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().chain(&self.gone).filter(|pod| controller_uid(&pod.metadata).is_none())
    }

    fn note_failures(&mut self, pod: &Pod) {
        let owner = controller_uid(&pod.metadata).or(pod.metadata.uid.as_deref()).unwrap_or_default().to_owned();
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        for failure in statuses.flat_map(failures) {
            let first = self.first_failures.entry(owner.clone()).or_insert(failure);
            *first = failure.min(*first);
        }
    }
}

/// The failed runs that a status tells of: the state and the last one.
fn failures(status: &ContainerStatus) -> impl Iterator<Item = (Timestamp, i32)> {
    let states = [&status.last_state, &status.state];
    states
        .into_iter()
        .filter_map(|state| state.as_ref()?.terminated.as_ref())
        .filter(|ended| ended.exit_code != 0)
        .map(|ended| (ended.finished_at.as_ref().map_or(Timestamp::MAX, |time| time.0), ended.exit_code))
}

/// `Some(true)` for a Job that is complete, `Some(false)` for a failed one.
fn job_result(job: &Job) -> Option<bool> {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.status == "True").find_map(|condition| match condition.type_.as_str() {
        "Complete" => Some(true),
        "Failed" => Some(false),
        _ => None,
    })
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn controller_uid(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// Who is said not to end: the Job that owns the pod, or the pod.
fn blame(pod: &Pod) -> String {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    match owners.iter().find(|owner| owner.controller == Some(true)) {
        Some(owner) => format!("{} `{}`", owner.kind, owner.name),
        None => format!("Pod `{}`", pod.metadata.name.as_deref().unwrap_or_default()),
    }
}

fn key(metadata: &ObjectMeta) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}/{}", part(&metadata.namespace), part(&metadata.name), part(&metadata.uid))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn terminated(code: i32, second: u32) -> Value {
        json!({"terminated": {"exitCode": code, "finishedAt": format!("2026-01-01T00:00:{second:02}Z")}})
    }

    fn pod(name: &str, owner: Option<&str>, phase: &str, states: &[(&str, Value)]) -> serde_json::Result<Pod> {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"apiVersion": "batch/v1", "kind": "Job", "name": "export", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let status = |(name, state): &(&str, Value)| json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "ownerReferences": owners},
            "spec": {"restartPolicy": "Never",
                     "containers": states.iter().map(|(name, _)| json!({"name": name})).collect::<Vec<_>>()},
            "status": {"phase": phase, "containerStatuses": states.iter().map(status).collect::<Vec<_>>()},
        }))
    }

    fn job(condition: Option<&str>) -> serde_json::Result<Job> {
        let conditions: Vec<Value> =
            condition.map(|kind| json!({"type": kind, "status": "True"})).into_iter().collect();
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "export", "uid": "job"}, "status": {"conditions": conditions},
        }))
    }

    #[test]
    fn a_run_is_over_when_every_job_has_finished_and_every_bare_pod_has_ended() -> Result {
        let mut session = Session::expecting(2);
        session.apply_job(job(Some("Complete"))?);
        assert!(!session.is_over());
        session.apply_job(job(None)?);
        session.apply_pod(pod("alone", None, "Running", &[])?);
        assert!(!session.is_over());
        session.apply_job(job(Some("Complete"))?);
        assert!(!session.is_over());
        session.apply_pod(pod("alone", None, "Succeeded", &[])?);
        assert!(session.is_over());
        assert_eq!(session.exit_code(), 0);
        Ok(())
    }

    #[test]
    fn the_exit_code_is_that_of_the_first_failed_app_container() -> Result {
        let mut session = Session::default();
        session.apply_job(job(Some("Failed"))?);
        session.delete_pod(&pod("export-2", Some("job"), "Failed", &[("main", terminated(4, 20))])?);
        session.delete_pod(&pod("export-1", Some("job"), "Failed", &[("main", terminated(3, 10))])?);
        assert_eq!(session.exit_code(), 3);
        Ok(())
    }

    #[test]
    fn a_retried_failure_of_a_complete_job_is_no_failure() -> Result {
        let mut session = Session::default();
        session.delete_pod(&pod("export-1", Some("job"), "Failed", &[("main", terminated(3, 10))])?);
        session.apply_job(job(Some("Complete"))?);
        assert_eq!(session.exit_code(), 0);
        Ok(())
    }

    #[test]
    fn a_failure_without_a_code_is_1() -> Result {
        let mut session = Session::default();
        session.apply_pod(pod("alone", None, "Failed", &[])?);
        assert_eq!(session.exit_code(), 1);
        Ok(())
    }

    #[test]
    fn what_never_ends_is_told_once_and_within_five_seconds() -> Result {
        let mut session = Session::default();
        let states = [("main", terminated(0, 10)), ("proxy", json!({"running": {}}))];
        session.apply_pod(pod("export-1", Some("job"), "Running", &states)?);
        let due = session.next_finding_at().ok_or("nothing is due")?;
        assert_eq!(due, "2026-01-01T00:00:13.5Z".parse::<Timestamp>()?);
        let found = session.take_findings(due);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["Job `export`"]);
        assert_eq!((session.take_findings(due), session.next_finding_at()), (Vec::new(), None));
        Ok(())
    }
}
