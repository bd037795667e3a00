//! Runs a case and reduces what came of it to what a recording keeps.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use lifecycle::Input;
use lifecycle::input::ReferenceKind;
use serde_json::{Value, json};

use crate::world::{Behavior, World};

/// What came of a case.
pub(crate) struct Trace {
    /// Reduced objects, one for each change.
    pub(crate) snapshots: Vec<Value>,
    /// READY, STATUS, RESTARTS.
    pub(crate) table: Vec<[String; 3]>,
    /// Container, type, reason, message.
    pub(crate) events: Vec<[String; 4]>,
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Runs the pod of a case, until the time of the recording if it was cut.
pub(crate) fn run(data: &Path, case: &str, golden: &Value) -> Trace {
    let script = json(&data.join("behaviors.json"))[case].clone();
    let mut world = World::new();
    // A fast machine; nothing in a recording hangs on it.
    world.latency = Duration::from_millis(20);
    prepare(&mut world, &script);
    world.put(pod(&data.join("cases").join(format!("{case}.yaml"))));
    let until = golden["until"].as_str().unwrap_or_default();
    let end = until.strip_prefix("seconds:").and_then(|seconds| seconds.parse().ok()).unwrap_or(100.0);
    world.run_until(end);
    reduce(&world)
}

fn pod(path: &Path) -> Pod {
    let text = std::fs::read_to_string(path).unwrap();
    let (objects, diagnostics) = api::manifest::read("case.yaml", &text);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let object = &objects[0];
    let mut pod: Pod = match object.kind.as_str() {
        "Pod" => serde_json::from_value(object.value.clone()).unwrap(),
        _ => {
            let job: Job = serde_json::from_value(object.value.clone()).unwrap();
            Pod { spec: job.spec.unwrap().template.spec, ..Pod::default() }
        }
    };
    api::defaults::pod(&mut pod);
    pod.metadata.name = Some("p".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.uid = Some("p".to_owned());
    pod.metadata.generation = Some(1);
    let class = api::qos::compute_qos_class(&pod).as_str().to_owned();
    let status = pod.status.get_or_insert_default();
    status.phase = Some("Pending".to_owned());
    status.qos_class = Some(class);
    pod
}

/// What the containers do, and what else happens.
fn prepare(world: &mut World, script: &Value) {
    for (name, instances) in script["containers"].as_object().into_iter().flatten() {
        let instances: Vec<Behavior> = instances.as_array().unwrap().iter().map(behavior).collect();
        world.behave(name, &instances);
    }
    for image in script["missing_images"].as_array().into_iter().flatten() {
        world.images.missing.insert(image.as_str().unwrap().to_owned());
    }
    for action in script["at"].as_array().into_iter().flatten() {
        assert_eq!(action[1], "delete", "the only thing that users do in a recording");
        world.at(action[0].as_f64().unwrap(), |world| world.delete("p", None));
    }
    if let Some(missing) = script["missing_configmap"].as_array() {
        let name = missing[0].as_str().unwrap().to_owned();
        let failure = ("CreateContainerConfigError".to_owned(), format!("configmap \"{name}\" not found"));
        world.faults.insert("create".to_owned(), vec![failure; 100]);
        world.at(missing[1].as_f64().unwrap(), move |world| {
            world.faults.clear();
            world.tell(Input::ReferenceChanged {
                kind: ReferenceKind::ConfigMap,
                namespace: "default".to_owned(),
                name,
            });
        });
    }
}

fn behavior(script: &Value) -> Behavior {
    let pair = |value: &Value| -> Option<(Duration, i32)> {
        let seconds = value[0].as_f64()?;
        Some((Duration::from_secs_f64(seconds), i32::try_from(value[1].as_i64()?).unwrap()))
    };
    let moment = |key: &str, default: Option<Duration>| match script.get(key) {
        None => default,
        Some(value) => value.as_f64().map(Duration::from_secs_f64),
    };
    let mut behavior = Behavior::runs();
    behavior.exits = pair(&script["exits"]);
    behavior.on_stop =
        if script["stubborn"] == json!(true) { None } else { pair(&script["stops"]).or(behavior.on_stop) };
    behavior.starts_up = moment("starts_up", behavior.starts_up);
    behavior.ready = moment("ready", behavior.ready);
    behavior.dies = moment("dies", None);
    behavior.message = script["message"].as_str().unwrap_or_default().to_owned();
    behavior
}

fn reduce(world: &World) -> Trace {
    let mut table: Vec<[String; 3]> = Vec::new();
    for (now, pod) in &world.snapshots {
        let row = api::printers::pod_row(pod, *now);
        let restarts = row.restarts.split(' ').next().unwrap_or_default().to_owned();
        let row = [row.ready, row.status, restarts];
        if table.last() != Some(&row) {
            table.push(row);
        }
    }
    let events = world.events.iter().map(|(_, event)| {
        let container = event.field_path.split_once('{').map_or("", |(_, name)| name.trim_end_matches('}'));
        let kind = if event.warning { "Warning" } else { "Normal" };
        [container.to_owned(), kind.to_owned(), event.reason.clone(), event.message.clone()]
    });
    Trace {
        snapshots: world.snapshots.iter().map(|(_, pod)| reduce_pod(pod)).collect(),
        table,
        events: events.collect(),
    }
}

/// As the recorder reduces a pod.
fn reduce_pod(pod: &Pod) -> Value {
    let status = pod.status.clone().unwrap_or_default();
    let base = status.start_time.as_ref().map(|time| time.0.as_second());
    let mut containers = serde_json::Map::new();
    for list in [&status.init_container_statuses, &status.container_statuses] {
        for container in list.iter().flatten() {
            containers.insert(container.name.clone(), reduce_container(container, base));
        }
    }
    let conditions: serde_json::Map<String, Value> = status
        .conditions
        .iter()
        .flatten()
        .map(|condition| {
            (condition.type_.clone(), json!([condition.status, condition.reason.clone().unwrap_or_default()]))
        })
        .collect();
    json!({
        "phase": status.phase.unwrap_or_default(), "reason": status.reason.unwrap_or_default(),
        "qos": status.qos_class.unwrap_or_default(), "conditions": conditions, "containers": containers,
    })
}

fn reduce_container(container: &ContainerStatus, base: Option<i64>) -> Value {
    let state = container.state.clone().unwrap_or_default();
    let seconds = |time: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.zip(base).map(|(time, base)| time.0.as_second() - base)
    };
    let terminated = state.terminated.clone().unwrap_or_default();
    let started = state.running.clone().and_then(|running| running.started_at).or(terminated.started_at);
    json!({
        "state": state_of(Some(&state)), "last": state_of(container.last_state.as_ref()),
        "ready": container.ready, "started": container.started, "restarts": container.restart_count,
        "startedAt": seconds(started), "finishedAt": seconds(terminated.finished_at),
        "message": terminated.message.unwrap_or_default(),
    })
}

fn state_of(state: Option<&ContainerState>) -> Value {
    let state = state.cloned().unwrap_or_default();
    if let Some(terminated) = state.terminated {
        return json!(["terminated", terminated.reason.unwrap_or_default(), terminated.exit_code]);
    }
    if let Some(waiting) = state.waiting {
        return json!(["waiting", waiting.reason.unwrap_or_default(), null]);
    }
    if state.running.is_some() { json!(["running", "", null]) } else { json!(["none", "", null]) }
}
