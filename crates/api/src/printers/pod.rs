//! The columns of a pod (L-1101 to L-1113).

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus};

use crate::absent::{items, text};
use crate::containers::is_sidecar;
use crate::time;

/// One line of `kubectl get pods -o wide`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRow {
    /// NAME.
    pub name: String,
    /// READY: `ready/total`.
    pub ready: String,
    /// STATUS.
    pub status: String,
    /// RESTARTS: a number, and how long ago the last one was.
    pub restarts: String,
    /// AGE.
    pub age: String,
    /// IP, for wide output.
    pub ip: String,
    /// NODE, for wide output.
    pub node: String,
    /// NOMINATED NODE, for wide output.
    pub nominated_node: String,
    /// READINESS GATES, for wide output.
    pub readiness_gates: String,
    /// The reason of the row's condition `Completed`: `Succeeded`, `Failed`, or empty for a pod that goes on (L-1113).
    pub completed: &'static str,
}

/// The line of a pod.
pub fn pod_row(pod: &Pod, now: Timestamp) -> PodRow {
    let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref().unwrap_or(&no_status);
    let mut tally = Tally { status: initial_status(status), ..Tally::default() };
    let initializing = tally.init_containers(spec, status);
    if !initializing || is_condition_true(status, "Initialized") {
        tally.containers(spec, status);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        tally.deleting(status);
    }
    let sidecars = items(&spec.init_containers).iter().filter(|container| is_sidecar(container)).count();
    PodRow {
        name: pod.metadata.name.clone().unwrap_or_default(),
        ready: format!("{}/{}", tally.ready, spec.containers.len() + sidecars),
        restarts: tally.restarts_text(now),
        status: tally.status,
        age: time::age(pod.metadata.creation_timestamp.as_ref().map(|created| created.0), now),
        ip: or_none(
            status.pod_ips.iter().flatten().map(|address| address.ip.as_str()).next().or(status.pod_ip.as_deref()),
        ),
        node: or_none(spec.node_name.as_deref()),
        nominated_node: or_none(status.nominated_node_name.as_deref()),
        readiness_gates: readiness_gates(spec, status),
        completed: match text(&status.phase) {
            "Succeeded" => "Succeeded",
            "Failed" => "Failed",
            _ => "",
        },
    }
}

/// What the passes over the statuses come to.
#[derive(Debug, Default)]
struct Tally {
    status: String,
    ready: usize,
    restarts: i64,
    sidecar_restarts: i64,
    last_restart: Option<Timestamp>,
    last_sidecar_restart: Option<Timestamp>,
}

impl Tally {
    /// The pass over the init containers; says whether one of them stopped it (L-1103).
    fn init_containers(&mut self, spec: &PodSpec, status: &PodStatus) -> bool {
        let declared = items(&spec.init_containers);
        for (index, container_status) in items(&status.init_container_statuses).iter().enumerate() {
            let container = declared.iter().find(|container| container.name == container_status.name);
            let sidecar = container.is_some_and(is_sidecar);
            self.count_init_restarts(container_status, sidecar);
            if terminated(container_status).is_some_and(|ended| ended.exit_code == 0) {
                continue;
            }
            if sidecar && container_status.started == Some(true) {
                self.ready += usize::from(container_status.ready);
                continue;
            }
            self.status = init_status(container_status, index, declared);
            return true;
        }
        false
    }

    fn count_init_restarts(&mut self, status: &ContainerStatus, sidecar: bool) {
        let restarts = i64::from(status.restart_count);
        let last = last_finished(status);
        self.restarts += restarts;
        self.last_restart = self.last_restart.max(last);
        if sidecar {
            self.sidecar_restarts += restarts;
            self.last_sidecar_restart = self.last_sidecar_restart.max(last);
        }
    }

    /// The pass over the app containers, from the last to the first (L-1104, L-1105).
    fn containers(&mut self, _spec: &PodSpec, status: &PodStatus) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.last_sidecar_restart;
        let mut has_running = false;
        let mut error_reason = String::new();
        for container_status in items(&status.container_statuses).iter().rev() {
            self.restarts += i64::from(container_status.restart_count);
            self.last_restart = self.last_restart.max(last_finished(container_status));
            if let Some(reason) = waiting_reason(container_status) {
                self.status = reason.to_owned();
            } else if let Some(ended) = terminated(container_status) {
                self.status = ended_reason(ended, "");
                if ended.exit_code != 0 {
                    error_reason.clone_from(&self.status);
                }
            } else if container_status.ready && is_running(container_status) {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" {
            if has_running && is_condition_true(status, "Ready") {
                self.status = "Running".to_owned();
            } else if !error_reason.is_empty() {
                self.status = error_reason;
            } else if has_running {
                self.status = "NotReady".to_owned();
            }
        }
    }

    /// L-1106.
    fn deleting(&mut self, status: &PodStatus) {
        if text(&status.reason) == "NodeLost" {
            self.status = "Unknown".to_owned();
        } else if !matches!(text(&status.phase), "Succeeded" | "Failed") {
            self.status = "Terminating".to_owned();
        }
    }

    /// L-1107.
    fn restarts_text(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, time::human_duration(now.duration_since(last)))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// L-1102.
fn initial_status(status: &PodStatus) -> String {
    let gated = items(&status.conditions)
        .iter()
        .any(|condition| condition.type_ == "PodScheduled" && text(&condition.reason) == "SchedulingGated");
    let reason = [text(&status.reason), text(&status.phase)].into_iter().find(|text| !text.is_empty());
    if gated { "SchedulingGated".to_owned() } else { reason.unwrap_or_default().to_owned() }
}

/// The STATUS of a pod whose initialization has come as far as this container (L-1103).
fn init_status(status: &ContainerStatus, index: usize, declared: &[Container]) -> String {
    if let Some(ended) = terminated(status) {
        return ended_reason(ended, "Init:");
    }
    match waiting_reason(status) {
        Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
        _ => format!("Init:{index}/{}", declared.len()),
    }
}

fn ended_reason(ended: &ContainerStateTerminated, prefix: &str) -> String {
    match (text(&ended.reason), ended.signal.unwrap_or(0)) {
        ("", 0) => format!("{prefix}ExitCode:{}", ended.exit_code),
        ("", signal) => format!("{prefix}Signal:{signal}"),
        (reason, _) => format!("{prefix}{reason}"),
    }
}

fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

fn waiting_reason(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref().filter(|reason| !reason.is_empty())
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn last_finished(status: &ContainerStatus) -> Option<Timestamp> {
    Some(status.last_state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
}

fn is_condition_true(status: &PodStatus, kind: &str) -> bool {
    items(&status.conditions).iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

fn readiness_gates(spec: &PodSpec, status: &PodStatus) -> String {
    let gates = items(&spec.readiness_gates);
    let passed = gates.iter().filter(|gate| is_condition_true(status, &gate.condition_type)).count();
    if gates.is_empty() { "<none>".to_owned() } else { format!("{passed}/{}", gates.len()) }
}

fn or_none(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("<none>").to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// One plain init container `i`, a sidecar `s` behind it, an app container `c`.
    fn row(status: Value, deleting: bool) -> (String, String) {
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        let pod = serde_json::from_value::<Pod>(json!({
            "metadata": {"name": "p", "deletionTimestamp": deleted},
            "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]},
            "status": status,
        }));
        let row = pod_row(&pod.unwrap_or_default(), Timestamp::UNIX_EPOCH);
        (row.ready, row.status)
    }

    fn container(name: &str, state: Value, ready: bool, started: bool) -> Value {
        json!({"name": name, "image": "", "imageID": "", "restartCount": 0, "state": state, "ready": ready, "started": started})
    }

    fn waiting(reason: &str) -> Value {
        json!({"waiting": {"reason": reason}})
    }

    fn ended(code: i32, reason: &str) -> Value {
        json!({"terminated": {"exitCode": code, "reason": reason}})
    }

    fn running() -> Value {
        json!({"running": {}})
    }

    fn status(phase: &str, i: Value, s: Value, c: Value, initialized: bool) -> Value {
        json!({"phase": phase, "initContainerStatuses": [i, s], "containerStatuses": [c],
               "conditions": [{"type": "Initialized", "status": if initialized { "True" } else { "False" }}]})
    }

    fn check(status: Value, ready: &str, wanted: &str) {
        assert_eq!(row(status, false), (ready.to_owned(), wanted.to_owned()));
    }

    #[test]
    fn l_1110_the_states_of_initialization() {
        let unstarted = |name| container(name, waiting("PodInitializing"), false, false);
        let (s, c) = (unstarted("s"), unstarted("c"));
        check(json!({"phase": "Pending"}), "0/2", "Pending");
        check(status("Pending", unstarted("i"), s.clone(), c.clone(), false), "0/2", "Init:0/2");
        let failed = container("i", ended(1, "Error"), false, false);
        check(status("Pending", failed, s.clone(), c.clone(), false), "0/2", "Init:Error");
        let back_off = container("i", waiting("CrashLoopBackOff"), false, false);
        check(status("Pending", back_off, s.clone(), c.clone(), false), "0/2", "Init:CrashLoopBackOff");
        let done = container("i", ended(0, "Completed"), true, false);
        check(status("Pending", done.clone(), s, c.clone(), false), "0/2", "Init:1/2");
        let started = container("s", running(), true, true);
        check(status("Pending", done, started, c, true), "1/2", "PodInitializing");
    }

    #[test]
    fn l_1110_the_states_after_initialization() {
        let i = container("i", ended(0, "Completed"), true, false);
        let s = container("s", running(), true, true);
        let c = container("c", running(), true, true);
        check(status("Running", i.clone(), s.clone(), c.clone(), true), "2/2", "Running");
        let unready = container("c", running(), false, true);
        check(status("Running", i.clone(), s.clone(), unready, true), "1/2", "Running");
        let crashed = container("s", waiting("CrashLoopBackOff"), false, false);
        check(status("Running", i.clone(), crashed, c.clone(), true), "1/2", "Init:CrashLoopBackOff");
        let ended_sidecar = container("s", ended(0, "Completed"), false, false);
        check(status("Running", i.clone(), ended_sidecar.clone(), c, true), "1/2", "Running");
        let finished = container("c", ended(0, "Completed"), false, false);
        check(status("Running", i.clone(), s, finished.clone(), true), "1/2", "Completed");
        check(status("Succeeded", i.clone(), ended_sidecar.clone(), finished, true), "0/2", "Completed");
        let failed = container("c", ended(1, "Error"), false, false);
        check(status("Failed", i, ended_sidecar, failed, true), "0/2", "Error");
    }

    #[test]
    fn l_1106_a_pod_that_is_deleted_terminates_unless_it_has_ended() {
        assert_eq!(row(json!({"phase": "Running"}), true).1, "Terminating");
        assert_eq!(row(json!({"phase": "Failed", "reason": "Evicted"}), true).1, "Evicted");
        assert_eq!(row(json!({"phase": "Running", "reason": "NodeLost"}), true).1, "Unknown");
    }

    #[test]
    fn l_1107_restarts_say_how_long_ago_the_last_one_was() -> Result<(), Box<dyn std::error::Error>> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "containerStatuses": [{
                "name": "c", "image": "", "imageID": "", "restartCount": 3, "ready": true, "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:01:00Z"}},
            }]},
        }))?;
        let row = pod_row(&pod, "2026-01-01T00:03:30Z".parse()?);
        assert_eq!((row.restarts.as_str(), row.age.as_str()), ("3 (2m30s ago)", "3m30s"));
        Ok(())
    }
}
