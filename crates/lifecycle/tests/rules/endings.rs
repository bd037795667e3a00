//! Section 6: why pods end, their last status, and what is taken away.

use std::time::Duration;

use lifecycle::{Input, PodUid};
use serde_json::{Value, json};

use crate::world::{Behavior, World};

fn ends(world: &World) -> Vec<String> {
    world.trace_of(&["signal", "kill", "exit", "preStop"])
}

fn with_sidecars(grace: i64, names: &[&str]) -> Value {
    let init: Vec<Value> = names.iter().map(|name| json!({"name": name, "restartPolicy": "Always"})).collect();
    json!({"terminationGracePeriodSeconds": grace, "initContainers": init, "containers": [{"name": "a"}]})
}

#[test]
fn l615_the_active_deadline_counts_from_the_start_time_and_can_be_lowered() {
    let spec = json!({
        "activeDeadlineSeconds": 600,
        "terminationGracePeriodSeconds": 2,
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    });
    let mut world = World::with(spec);
    world.behave("a", &[Behavior::stubborn()]);
    world.at(3.0, |world| {
        world.update("p", |pod| {
            let spec = pod.spec.as_mut().expect("a spec");
            spec.active_deadline_seconds = Some(6);
        })
    });
    world.run_until(60.0);
    assert_eq!(
        world.told_of(&["DeadlineExceeded"]),
        ["6 Normal DeadlineExceeded Pod was active on the node longer than the specified deadline"]
    );
    assert_eq!(ends(&world), ["6 signal a", "8 signal s", "8 kill a", "8 exit s 0", "8 exit a 137"]);
    assert_eq!(world.newest(), "Failed DeadlineExceeded s=Completed/0 a=Error/137");
    let message = world.stored().message;
    assert_eq!(message.as_deref(), Some("Pod was active on the node longer than the specified deadline"));
    // Phase and reason are told when all is down, not before.
    let early: Vec<String> = world.story().into_iter().filter(|line| line.starts_with("6 ")).collect();
    assert_eq!(early, ["6 Running s=running+started+ready a=running+started+ready"]);
}

#[test]
fn l615_the_deadline_counts_init_too() {
    let mut world = World::with(json!({
        "activeDeadlineSeconds": 4, "initContainers": [{"name": "i"}], "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::runs().stops(0.0, 143)]);
    world.run_until(60.0);
    assert_eq!(world.newest(), "Failed DeadlineExceeded i=Error/143 a=PodInitializing");
}

#[test]
fn l616_eviction() {
    let mut world = World::with(with_sidecars(30, &["s"]));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| {
        world.tell(Input::Evict {
            pod: PodUid("p".to_owned()),
            message: "The node was low on resource: memory. ".to_owned(),
            grace: Duration::from_secs(1),
            disruption: true,
        });
    });
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "6 signal s", "6 exit s 0", "7 kill a", "7 exit a 137"]);
    assert_eq!(world.told_of(&["Evicted"]), ["5 Warning Evicted The node was low on resource: memory. "]);
    assert_eq!(world.newest(), "Failed Evicted s=Completed/0 a=Error/137");
    assert_eq!(world.condition("DisruptionTarget"), "True TerminationByKubelet The node was low on resource: memory. ");
    let early =
        world.written.iter().filter(|(time, _)| time.as_secs() == 5).flat_map(|(_, status)| status.conditions.clone());
    assert!(early.flatten().all(|condition| condition.type_ != "DisruptionTarget"), "it is told when all is down");
}

#[test]
fn l616_a_pod_over_its_own_limits_is_evicted_without_a_disruption() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.at(5.0, |world| {
        world.tell(Input::Evict {
            pod: PodUid("p".to_owned()),
            message: "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ".to_owned(),
            grace: Duration::from_secs(1),
            disruption: false,
        });
    });
    world.run_until(60.0);
    assert_eq!(world.newest(), "Failed Evicted a=Completed/0");
    assert_eq!(world.condition("DisruptionTarget"), "missing");
}

#[test]
fn l617_the_nodes_shutdown_ends_ordinary_pods_first_and_refuses_new_ones() {
    let mut world = World::new();
    world.create("p", json!({"terminationGracePeriodSeconds": 60, "containers": [{"name": "a"}]}));
    world.create("q", json!({"priority": 2_000_001_000, "containers": [{"name": "b"}]}));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| {
        world.tell(Input::Shutdown { grace: Duration::from_secs(4), critical_grace: Duration::from_secs(3) });
    });
    world.at(6.0, |world| world.create("r", json!({"containers": [{"name": "c"}]})));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "9 kill a", "9 signal b", "9 exit a 137", "9 exit b 0"]);
    assert_eq!(world.trace_of(&["start"]), ["0 start a", "0 start b"]);
    let reasons: Vec<String> = world
        .objects
        .values()
        .filter_map(|pod| {
            let status = pod.status.as_ref()?;
            Some(format!("{} {} {}", status.phase.clone()?, status.reason.clone()?, status.message.clone()?))
        })
        .collect();
    let terminated = "Failed Terminated Pod was terminated in response to imminent node shutdown.";
    assert_eq!(reasons, [terminated, terminated, "Failed NodeShutdown Pod was rejected as the node is shutting down."]);
}

#[test]
fn l618_the_final_phase_is_held_back_until_everything_is_down() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(2.0, 1)]);
    world.behave("s", &[Behavior::runs().stops(5.0, 0)]);
    world.run_until(60.0);
    assert_eq!(
        world.story()[3..],
        [
            "0 Pending s=running+started+ready i=running+started a=PodInitializing",
            "2 Pending s=running+started+ready i=Error/1 a=PodInitializing",
            "7 Pending s=Completed/0 i=Error/1 a=PodInitializing",
            "7 Failed s=Completed/0 i=Error/1 a=PodInitializing",
        ]
    );
}

#[test]
fn l618_what_nobody_saw_end_is_filled_in() {
    // A sidecar that waits in back-off when the pod completes.
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 3)]);
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.run_until(60.0);
    assert_eq!(world.newest(), "Succeeded s=ContainerStatusUnknown/137#1 a=Completed/0");

    // Init containers up to the last that ever ran; those behind it and the apps of a pod that never initialized stay.
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}, {"name": "j"}, {"name": "k"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("j", &[Behavior::exits(1.0, 1)]);
    world.at(10.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.newest(), "Failed i=Completed/0+ready j=Error/1#1 k=PodInitializing a=PodInitializing");
}

#[test]
fn l618_a_pending_pod_that_is_deleted_is_failed() {
    let mut world = World::new();
    world.faults.insert("sandbox".to_owned(), vec![(String::new(), "x".to_owned()); 100]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.newest(), "Failed a=ContainerStatusUnknown/137");
}

#[test]
fn l619_status_then_volumes_then_object_then_records() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.latency = Duration::from_millis(10);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    let order: Vec<String> = world
        .sent
        .iter()
        .filter(|(time, _)| time.as_secs() >= 5)
        .map(|(_, effect)| crate::world::carry_out::short_name(&effect.action).to_owned())
        .filter(|name| name != "event")
        .collect();
    assert_eq!(
        order,
        [
            // The generation has moved; the container has ended; everything is down.
            "signal",
            "status",
            "stop-sandbox",
            "status",
            "status",
            "tear-down",
            "delete",
            "remove",
            "remove-sandbox",
        ]
    );
}

#[test]
fn l619_the_object_stays_until_the_last_status_was_accepted() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.run_until(4.0);
    world.at(5.0, |world| {
        world.faults.insert("status".to_owned(), vec![(String::new(), "conflict".to_owned()); 4]);
        world.delete("p", None);
    });
    world.run_until(100.0);
    let effects = world.effects_of(&["status", "tear-down", "delete"]);
    let last: Vec<&str> = effects.iter().rev().take(3).rev().map(String::as_str).collect();
    assert_eq!(last, ["35 status", "45 status", "45 delete"]);
    assert!(effects.contains(&"5 tear-down".to_owned()), "what it had is taken away all the same");
}

#[test]
fn l619_a_pod_that_has_ended_keeps_its_records_until_its_object_goes() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.at(50.0, |world| world.delete("p", None));
    world.run_until(49.0);
    assert_eq!(world.effects_of(&["tear-down", "remove", "remove-sandbox", "delete"]), ["1 tear-down"]);
    world.run_until(60.0);
    assert_eq!(world.effects_of(&["remove", "remove-sandbox", "delete"]), ["50 remove", "50 remove-sandbox"]);
    assert_eq!(world.engine.pods().count(), 0);
}

#[test]
fn l621_during_the_grace_phase_stays_and_containers_are_shown_as_they_end() {
    let mut world = World::with(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.behave("a", &[Behavior::runs().stops(2.0, 0)]);
    world.behave("b", &[Behavior::runs().stops(4.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    let late: Vec<String> = world.story().into_iter().filter(|line| !line.starts_with("0 ")).collect();
    assert_eq!(
        late,
        [
            "5 Running a=running+started+ready b=running+started+ready",
            "7 Running a=Completed/0 b=running+started+ready",
            "9 Running a=Completed/0 b=Completed/0",
            "9 Succeeded a=Completed/0 b=Completed/0",
        ]
    );
}

#[test]
fn l623_a_sidecar_that_never_started_delays_nobody() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 180,
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always"},
            {"name": "s2", "restartPolicy": "Always",
             "startupProbe": {"exec": {"command": ["x"]}, "failureThreshold": 1000}},
            {"name": "s3", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "a"}],
    }));
    world.behave("s2", &[Behavior::runs().starts_up(None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(600.0);
    assert_eq!(ends(&world), ["5 signal s2", "5 exit s2 0", "5 signal s1", "5 exit s1 0"]);
    assert!(world.objects.is_empty());
}

#[test]
fn l620_a_pod_that_outlasts_the_nodes_patience_is_told() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.behave("a", &[Behavior::stubborn()]);
    world.run_until(1.0);
    // No signal arrives for a while.
    world.faults.insert("signal".to_owned(), vec![(String::new(), "no shim".to_owned()); 3]);
    world.at(5.0, |world| {
        world.tell(Input::Evict {
            pod: PodUid("p".to_owned()),
            message: "low".to_owned(),
            grace: Duration::from_secs(4),
            disruption: true,
        });
    });
    world.run_until(60.0);
    assert_eq!(
        world.told_of(&["ExceededGracePeriod"]),
        ["15 Warning ExceededGracePeriod Container runtime did not kill the pod within specified grace period."]
    );
    assert_eq!(world.newest(), "Failed Evicted a=Error/137");
}

#[test]
fn l619_an_agent_that_starts_anew_says_nothing_of_a_pod_that_has_ended() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 3)]);
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.run_until(20.0);
    let before = world.written.len();
    world.restart_agent();
    world.run_until(40.0);
    assert_eq!(world.written.len(), before);
    assert_eq!(world.newest(), "Succeeded s=ContainerStatusUnknown/137#1 a=Completed/0");
}
