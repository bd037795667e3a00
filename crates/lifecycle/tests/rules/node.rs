//! What concerns the node: admission, the engine's contract with its drivers.

use std::sync::Arc;

use lifecycle::{EffectId, Input, NodeConfig, Outcome, Violation};
use serde_json::json;

use crate::world::{Behavior, World, pod};

#[test]
fn l617_a_pod_for_another_operating_system_is_refused() {
    let mut world = World::with(json!({"os": {"name": "windows"}, "containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(world.newest(), "Failed PodOSNotSupported");
    assert_eq!(
        world.stored().message.as_deref(),
        Some("Pod was rejected: Failed to admit pod as the OS field doesn't match node OS")
    );
    assert_eq!(world.told(), ["0 Warning PodOSNotSupported Failed to admit pod as the OS field doesn't match node OS"]);
    assert_eq!(world.effects_of(&["set-up", "sandbox"]), Vec::<String>::new());
}

#[test]
fn nothing_is_done_before_everything_is_known() {
    let mut world = World::unsynced(NodeConfig::new("node"));
    world.put(pod("p", json!({"containers": [{"name": "a"}]})));
    world.tell(Input::Shutdown { grace: std::time::Duration::ZERO, critical_grace: std::time::Duration::ZERO });
    assert_eq!(world.sent.len(), 0);
    assert_eq!(world.engine.poll_timeout(), None);
}

#[test]
fn an_answer_that_nobody_waits_for_is_the_drivers_fault_and_is_told() {
    let mut world = World::new();
    world.engine.handle(world.now, Input::EffectDone { effect: EffectId(9), outcome: Outcome::Done });
    assert_eq!(world.engine.check_invariants(), [Violation::UnexpectedAnswer { effect: EffectId(9) }]);
}

#[test]
fn an_object_that_comes_again_unchanged_changes_nothing() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    let before = world.sent.len();
    for _ in 0..3 {
        let object = world.objects.values().next().cloned().expect("an object");
        world.tell(Input::PodApplied(Arc::new(object)));
    }
    world.run_until(100.0);
    assert_eq!(world.sent.len(), before);
}

#[test]
fn pods_do_not_disturb_each_other() {
    let mut world = World::new();
    for name in ["p", "q", "r"] {
        world.create(name, json!({"restartPolicy": "Never", "containers": [{"name": name}]}));
    }
    world.behave("q", &[Behavior::exits(3.0, 1)]);
    world.at(5.0, |world| world.delete("r", None));
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "exit", "signal"]),
        ["0 start p", "0 start q", "0 start r", "3 exit q 1", "5 signal r", "5 exit r 0"]
    );
}

fn node_of(resources: &[(&str, &str)]) -> World {
    let mut config = NodeConfig::new("node");
    for (name, amount) in resources {
        let quantity = k8s_openapi::apimachinery::pkg::api::resource::Quantity((*amount).to_owned());
        config.allocatable.insert((*name).to_owned(), quantity);
    }
    let mut world = World::unsynced(config);
    world.tell(Input::Synced);
    world
}

fn asking(name: &str, cpu: &str) -> serde_json::Value {
    json!({"containers": [{"name": name, "resources": {"requests": {"cpu": cpu}}}]})
}

fn outcome(world: &World, name: &str) -> String {
    let status = world.objects.get(&lifecycle::PodUid(name.to_owned())).and_then(|pod| pod.status.clone());
    let status = status.unwrap_or_default();
    [status.phase, status.reason, status.message].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[test]
fn l617_l801_a_pod_that_asks_for_more_than_is_left_is_refused() {
    let mut world = node_of(&[("cpu", "1"), ("memory", "1Gi"), ("pods", "3")]);
    world.create("p", asking("a", "700m"));
    // A plain init container is charged with the sidecars before it.
    world.create(
        "q",
        json!({
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "i", "resources": {"requests": {"cpu": "250m"}}}],
            "containers": [{"name": "b"}],
        }),
    );
    world.create("r", json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "2Gi"}}}]}));
    world.create("s", asking("d", "300m"));
    world.create("t", json!({"containers": [{"name": "e"}]}));
    world.create("u", json!({"containers": [{"name": "f"}]}));
    world.run_until(1.0);
    let told = |name: &str| outcome(&world, name);
    assert_eq!(told("p"), "Running");
    assert_eq!(
        told("q"),
        "Failed OutOfcpu Pod was rejected: Node didn't have enough resource: cpu, requested: 350, used: 700, capacity: 1000"
    );
    assert_eq!(
        told("r"),
        "Failed OutOfmemory Pod was rejected: Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"
    );
    assert_eq!(told("s"), "Running");
    assert_eq!(told("t"), "Running");
    assert_eq!(
        told("u"),
        "Failed OutOfpods Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    );
}

#[test]
fn l617_room_is_counted_again_once_a_pod_is_down_and_what_the_node_says_nothing_of_is_not_its_own() {
    let mut world = node_of(&[("cpu", "1")]);
    world.create(
        "p",
        json!({"restartPolicy": "Never", "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}),
    );
    world.behave("a", &[Behavior::exits(2.0, 0)]);
    world.at(3.0, |world| world.create("q", asking("b", "1")));
    world.at(4.0, |world| {
        world
            .create("r", json!({"containers": [{"name": "c", "resources": {"requests": {"example.org/thing": "1"}}}]}));
    });
    world.run_until(5.0);
    assert_eq!((outcome(&world, "q").as_str(), outcome(&world, "r").as_str()), ("Running", "Running"));
}

#[test]
fn l617_a_critical_pod_displaces_the_cheapest_that_are_enough() {
    let mut world = node_of(&[("cpu", "1")]);
    world.create("p", asking("a", "400m"));
    world.create("q", asking("b", "300m"));
    world.create("r", asking("c", "200m"));
    world.behave("b", &[Behavior::runs().stops(3.0, 0)]);
    world.run_until(1.0);
    let mut critical = asking("d", "350m");
    critical["priority"] = json!(2_000_000_000);
    world.create("x", critical);
    world.run_until(10.0);
    // 250m are missing: 300m are the nearest that are enough; 400m would be, too.
    assert_eq!(world.trace_of(&["signal"]), ["1 signal b"]);
    assert_eq!(world.trace_of(&["start"])[3..], ["4 start d"]);
    assert_eq!(outcome(&world, "q"), "Failed Preempting Preempted in order to admit critical pod");
    assert_eq!(world.told_of(&["Preempting"]), ["1 Warning Preempting Preempted in order to admit critical pod"]);
}

#[test]
fn l617_a_critical_pod_that_even_all_others_could_not_make_room_for_is_refused() {
    let mut world = node_of(&[("cpu", "1")]);
    world.create("p", asking("a", "400m"));
    let mut critical = asking("d", "2");
    critical["priority"] = json!(2_000_000_000);
    world.create("x", critical);
    world.run_until(10.0);
    assert!(outcome(&world, "x").starts_with("Failed UnexpectedAdmissionError"), "{}", outcome(&world, "x"));
    assert_eq!(outcome(&world, "p"), "Running");
}

#[test]
fn l617_pods_found_at_the_start_are_admitted_in_the_order_of_their_creation() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    let mut world = node_of(&[("cpu", "1")]);
    for (name, created) in [("a", 30), ("b", 10), ("c", 20)] {
        let mut pod = pod(name, asking(name, "600m"));
        pod.metadata.creation_timestamp = Some(Time(crate::world::start() + std::time::Duration::from_secs(created)));
        world.objects.insert(lifecycle::PodUid(name.to_owned()), pod);
    }
    world.restart_agent();
    world.run_until(5.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start b"]);
}
