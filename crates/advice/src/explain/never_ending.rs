//! A pod that can't complete because an app container is left that never ends by itself.
//!
//! The rule behind it (Kubernetes: pod-lifecycle, "pod phase"): a pod is complete when every entry of `spec.containers` has ended for good.
//! Native sidecars stand in `spec.initContainers` and are not waited for.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod};

use crate::knowledge::helper_by_image;

/// The finding: which containers keep a pod from completing, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverEnding {
    /// The containers that still run, in the order of the spec: name and image.
    pub waiting_for: Vec<(String, String)>,
    /// The app container that ended last: name, exit code, and when.
    pub last_ended: (String, i32, Timestamp),
    /// What they all are, if every one of them is known never to end by itself.
    pub known_as: Option<String>,
}

/// Finds the containers that a pod waits for although its work is done.
///
/// Answers `Some` if the pod restarts nothing that ended, at least one app container has ended for good, at least one still runs, and `patience` has passed since the last one ended.
/// A helper that is told to stop by its neighbour's end (a flag file, a quit endpoint) needs that patience.
pub fn never_ending_helpers(pod: &Pod, now: Timestamp, patience: SignedDuration) -> Option<NeverEnding> {
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref()?;
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let pod_policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    let status_of = |container: &Container| statuses.iter().find(|status| status.name == container.name);
    let mut running = Vec::new();
    let mut last_ended: Option<(String, i32, Timestamp)> = None;
    for container in &spec.containers {
        let container_status = status_of(container)?;
        if let Some(ended) = terminated(container_status) {
            if is_restarted(container.restart_policy.as_deref().unwrap_or(pod_policy), ended.exit_code) {
                return None;
            }
            let at = ended.finished_at.as_ref().map(|time| time.0)?;
            if last_ended.as_ref().is_none_or(|(_, _, before)| *before <= at) {
                last_ended = Some((container.name.clone(), ended.exit_code, at));
            }
        } else if is_running(container_status) {
            running.push(container);
        } else {
            // Something is yet to start or to be restarted: the pod goes on.
            return None;
        }
    }
    let last_ended = last_ended?;
    if running.is_empty() || now.duration_since(last_ended.2) < patience {
        return None;
    }
    Some(NeverEnding {
        known_as: describe(&running),
        waiting_for: running
            .iter()
            .map(|container| (container.name.clone(), container.image.clone().unwrap_or_default()))
            .collect(),
        last_ended,
    })
}

fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// Kubernetes: pod-lifecycle, "restart policy", without restart rules (a pod that has them is in its author's hands).
fn is_restarted(policy: &str, exit_code: i32) -> bool {
    policy == "Always" || (policy == "OnFailure" && exit_code != 0)
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// What the containers are, if all are known never to end: by image, or by a command that says so.
fn describe(running: &[&Container]) -> Option<String> {
    let descriptions = running.iter().map(|container| describe_one(container)).collect::<Option<Vec<_>>>()?;
    Some(descriptions.join(" and "))
}

fn describe_one(container: &Container) -> Option<&'static str> {
    if let Some(helper) = container.image.as_deref().and_then(helper_by_image) {
        return Some(helper.description);
    }
    let words: Vec<&str> = container
        .command
        .iter()
        .chain(container.args.iter())
        .flatten()
        .flat_map(|argument| argument.split_whitespace())
        .collect();
    let has = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    if has("sleep", "infinity") {
        Some("a container that sleeps for ever")
    } else if has("tail", "-f") || has("tail", "-F") {
        Some("a container that follows a file for ever")
    } else {
        None
    }
}

impl NeverEnding {
    /// The three lines of YAML that make a native sidecar of each container that is waited for.
    pub fn remedy(&self) -> String {
        let mut yaml = String::from("initContainers:\n");
        for (name, _) in &self.waiting_for {
            yaml.push_str(&format!("  - name: {name}\n    restartPolicy: Always\n"));
        }
        yaml
    }
}

impl fmt::Display for NeverEnding {
    /// One sentence: what is waited for, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> =
            self.waiting_for.iter().map(|(name, image)| format!("`{name}` (image {image})")).collect();
        let (verb, each) = if names.len() == 1 { ("runs", "it stands") } else { ("run", "they stand") };
        let (ended, code, _) = &self.last_ended;
        write!(
            f,
            "`{ended}` has ended with exit code {code}, but {} still {verb}: Kubernetes waits for every entry of `containers` to end, and {each} there",
            names.join(" and ")
        )?;
        match &self.known_as {
            Some(known_as) => write!(f, ", though {known_as} never ends by itself"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: SignedDuration = SignedDuration::from_secs(3);

    fn pod(restart_policy: &str, proxy_state: serde_json::Value) -> Result<Pod, serde_json::Error> {
        serde_json::from_value(json!({
            "metadata": {"name": "export"},
            "spec": {"restartPolicy": restart_policy, "containers": [
                {"name": "exporter", "image": "exporter:1.0"},
                {"name": "db-proxy", "image": "cloud-sql-proxy"},
            ]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "db-proxy", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": proxy_state},
                {"name": "exporter", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                 "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:10Z"}}},
            ]},
        }))
    }

    fn at(second: u32) -> Result<Timestamp, jiff::Error> {
        format!("2026-01-01T00:00:{second:02}Z").parse()
    }

    #[test]
    fn a_running_proxy_beside_an_ended_app_is_named_after_the_patience() -> Result<(), Box<dyn std::error::Error>> {
        let pod = pod("Never", json!({"running": {}}))?;
        assert_eq!(never_ending_helpers(&pod, at(12)?, PATIENCE), None);
        let finding = never_ending_helpers(&pod, at(13)?, PATIENCE).ok_or("no finding")?;
        assert_eq!(
            finding.to_string(),
            "`exporter` has ended with exit code 0, but `db-proxy` (image cloud-sql-proxy) still runs: Kubernetes waits for every entry of `containers` to end, and it stands there, though a database proxy never ends by itself"
        );
        assert_eq!(finding.remedy(), "initContainers:\n  - name: db-proxy\n    restartPolicy: Always\n");
        Ok(())
    }

    #[test]
    fn a_pod_that_goes_on_is_left_alone() -> Result<(), Box<dyn std::error::Error>> {
        let restarting = pod("Always", json!({"running": {}}))?;
        assert_eq!(never_ending_helpers(&restarting, at(59)?, PATIENCE), None);
        let mut retrying = pod("OnFailure", json!({"running": {}}))?;
        assert!(never_ending_helpers(&retrying, at(59)?, PATIENCE).is_some());
        let statuses = retrying.status.as_mut().and_then(|status| status.container_statuses.as_mut());
        let ended = statuses.into_iter().flatten().filter_map(|status| status.state.as_mut()?.terminated.as_mut());
        ended.for_each(|ended| ended.exit_code = 1);
        assert_eq!(never_ending_helpers(&retrying, at(59)?, PATIENCE), None);
        let starting = pod("Never", json!({"waiting": {"reason": "ContainerCreating"}}))?;
        assert_eq!(never_ending_helpers(&starting, at(59)?, PATIENCE), None);
        let ended = pod("Never", json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:11Z"}}))?;
        assert_eq!(never_ending_helpers(&ended, at(59)?, PATIENCE), None);
        Ok(())
    }
}
