//! Section 6: termination.

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
fn l601_a_pod_removed_by_force_keeps_its_own_grace_on_the_node() {
    let mut world = World::with(with_sidecars(6, &["s"]));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| world.delete("p", Some(0)));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "11 signal s", "11 kill a", "11 exit s 0", "11 exit a 137"]);
    // There is no object to write to.
    assert!(world.written.iter().all(|(time, _)| time.as_secs() < 5));
    assert_eq!(world.effects_of(&["tear-down", "delete", "remove-sandbox"]), ["11 tear-down", "11 remove-sandbox"]);
    assert_eq!(world.engine.pods().count(), 0);
}

#[test]
fn l601_records_without_an_object_are_ended_with_grace_1_and_removed() {
    let mut world = World::with(with_sidecars(30, &["s"]));
    world.behave("a", &[Behavior::stubborn()]);
    world.run_until(5.0);
    world.objects.clear();
    world.restart_agent();
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "5 signal s", "5 exit s 0", "7 kill a", "7 exit a 137"]);
    assert_eq!(
        world.effects_of(&["stop-sandbox", "tear-down", "remove", "remove-sandbox"]),
        ["7 stop-sandbox", "7 tear-down", "7 remove", "7 remove", "7 remove-sandbox"]
    );
    assert_eq!(world.engine.pods().count(), 0);
}

#[test]
fn l602_the_grace_is_the_deletions_at_least_one_second_and_never_raised() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| world.delete("p", Some(4)));
    world.at(6.0, |world| world.delete("p", Some(60)));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "9 kill a", "9 exit a 137"]);
}

#[test]
fn l602_better_a_shorter_grace_counts_for_the_signal_that_is_out() {
    let mut world = World::with(with_sidecars(600, &["s"]));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| world.delete("p", None));
    world.at(20.0, |world| world.delete("p", Some(3)));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "23 signal s", "23 kill a", "23 exit s 0", "23 exit a 137"]);
}

#[test]
fn l602_better_a_shorter_grace_ends_a_hook() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 600,
        "containers": [{"name": "a", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}],
    }));
    world.behave("a", &[Behavior::stubborn().pre_stop(500.0, None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.at(20.0, |world| world.delete("p", Some(3)));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 preStop a", "23 signal a", "25 kill a", "25 exit a 137"]);
}

#[test]
fn l603_l604_apps_end_together_then_sidecars_one_by_one_from_the_last() {
    let mut world = World::with(json!({
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always"},
            {"name": "s2", "restartPolicy": "Always"},
            {"name": "s3", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    for (name, seconds) in [("a", 2.0), ("b", 3.0), ("s1", 1.0), ("s2", 1.0), ("s3", 1.0)] {
        world.behave(name, &[Behavior::runs().stops(seconds, 0)]);
    }
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        ends(&world),
        [
            "5 signal a",
            "5 signal b",
            "7 exit a 0",
            "8 exit b 0",
            "8 signal s3",
            "9 exit s3 0",
            "9 signal s2",
            "10 exit s2 0",
            "10 signal s1",
            "11 exit s1 0",
        ]
    );
}

#[test]
fn l604_a_sidecar_that_is_down_holds_up_nobody() {
    // s2 is down when the pod ends: s1 waits for it no more, and nobody tells it to wait for s3.
    let mut world = World::with(with_sidecars(30, &["s1", "s2", "s3"]));
    world.behave("s2", &[Behavior::exits(1.0, 1)]);
    world.behave("s3", &[Behavior::runs().stops(4.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        ends(&world)[2..],
        ["5 signal a", "5 exit a 0", "5 signal s1", "5 signal s3", "5 exit s1 0", "9 exit s3 0"]
    );
}

#[test]
fn l604_a_sidecar_that_exits_while_it_waits_still_keeps_its_turn() {
    let mut world = World::with(with_sidecars(30, &["s1", "s2", "s3"]));
    world.behave("s2", &[Behavior::exits(6.0, 1)]);
    world.behave("s3", &[Behavior::runs().stops(4.0, 0)]);
    world.behave("a", &[Behavior::runs().stops(2.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        ends(&world),
        ["5 signal a", "6 exit s2 1", "7 exit a 0", "7 signal s3", "11 exit s3 0", "11 signal s1", "11 exit s1 0"]
    );
}

#[test]
fn l605_every_pre_stop_begins_at_once_and_only_signals_are_ordered() {
    let hook = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": hook}],
        "containers": [{"name": "a", "lifecycle": hook}],
    }));
    world.behave("s", &[Behavior::runs().pre_stop(1.0, None)]);
    world.behave("a", &[Behavior::runs().pre_stop(2.0, None).stops(3.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 preStop s", "5 preStop a", "7 signal a", "10 exit a 0", "10 signal s", "10 exit s 0"]);
}

#[test]
fn l606_two_seconds_between_the_signals_even_when_the_grace_is_over() {
    let mut world = World::with(with_sidecars(30, &[]));
    world.behave("a", &[Behavior::stubborn()]);
    world.at(5.0, |world| world.delete("p", Some(1)));
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "7 kill a", "7 exit a 137"]);
}

#[test]
fn l607_an_app_that_ignores_its_signal_takes_the_whole_grace_and_the_sidecars_two_seconds_more() {
    let mut world = World::with(with_sidecars(30, &["s1", "s2"]));
    world.behave("a", &[Behavior::stubborn()]);
    world.behave("s1", &[Behavior::stubborn()]);
    world.behave("s2", &[Behavior::runs().stops(1.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        ends(&world),
        [
            "5 signal a",
            "35 signal s1",
            "35 signal s2",
            "35 kill a",
            "35 exit a 137",
            "36 exit s2 0",
            "37 kill s1",
            "37 exit s1 137",
        ]
    );
}

#[test]
fn l607_hooks_that_never_end_are_abandoned_and_all_end_by_force() {
    let hook = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": hook}],
        "containers": [{"name": "a", "lifecycle": hook}],
    }));
    for name in ["s", "a"] {
        world.behave(name, &[Behavior::stubborn().pre_stop(1e6, None)]);
    }
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    let mut all = ends(&world);
    all.sort();
    assert_eq!(
        all,
        [
            "35 signal a",
            "35 signal s",
            "37 exit a 137",
            "37 exit s 137",
            "37 kill a",
            "37 kill s",
            "5 preStop a",
            "5 preStop s",
        ]
    );
}

#[test]
fn l607_what_is_left_of_the_grace_goes_to_the_next_in_turn() {
    // Grace 8: the app takes 5, the second sidecar would need 10, the first one.
    let mut world = World::with(with_sidecars(8, &["s1", "s2"]));
    world.behave("a", &[Behavior::runs().stops(5.0, 0)]);
    world.behave("s2", &[Behavior::runs().stops(10.0, 0)]);
    world.behave("s1", &[Behavior::runs().stops(1.0, 0)]);
    world.at(10.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        ends(&world),
        ["10 signal a", "15 exit a 0", "15 signal s2", "18 signal s1", "18 kill s2", "18 exit s2 137", "19 exit s1 0",]
    );
}

#[test]
fn l607_l622_deletion_during_init() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 3,
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}, {"name": "j"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::stubborn()]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    // The sidecar is not held up by a plain init container.
    assert_eq!(ends(&world), ["5 signal s", "5 signal i", "5 exit s 0", "8 kill i", "8 exit i 137"]);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "0 start i"]);
    assert_eq!(world.newest(), "Failed s=Completed/0 i=Error/137 j=PodInitializing a=PodInitializing");
}

#[test]
fn l608_a_signal_that_fails_is_told_and_sigkill_still_comes() {
    let mut world = World::with(with_sidecars(4, &[]));
    world.run_until(1.0);
    world.faults.insert("signal".to_owned(), vec![(String::new(), "no such shim".to_owned())]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.told_of(&["FailedKillPod"]), ["5 Warning FailedKillPod error killing pod: no such shim"]);
    assert_eq!(ends(&world), ["9 kill a", "9 exit a 137"]);
}

#[test]
fn l608_sigkill_is_sent_again_until_the_container_is_gone() {
    let mut world = World::with(with_sidecars(4, &[]));
    world.run_until(1.0);
    world.faults.insert("signal".to_owned(), vec![(String::new(), "no such shim".to_owned()); 3]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.effects_of(&["signal"]), ["5 signal", "9 signal", "19 signal", "29 signal"]);
    assert!(world.objects.is_empty());
}

#[test]
fn l609_the_sandbox_is_stopped_after_the_containers_and_tried_again() {
    let mut world = World::with(with_sidecars(4, &[]));
    world.run_until(1.0);
    world.faults.insert("stop-sandbox".to_owned(), vec![(String::new(), "busy".to_owned())]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.effects_of(&["stop-sandbox", "tear-down"]), ["5 stop-sandbox", "15 stop-sandbox", "15 tear-down"]);
}

#[test]
fn l610_a_sidecar_that_dies_early_is_not_restarted_while_the_pod_ends() {
    let mut world = World::with(with_sidecars(30, &["s"]));
    world.behave("s", &[Behavior::exits(6.0, 1)]);
    world.behave("a", &[Behavior::runs().stops(8.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "0 start a"]);
}

#[test]
fn l611_a_kill_by_a_probe_goes_on_within_the_pods_end() {
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 60,
        "containers": [{"name": "a", "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1},
            "lifecycle": {"preStop": {"exec": {"command": ["y"]}}}}],
    }));
    world.behave("a", &[Behavior::stubborn().dies(2.5).pre_stop(1000.0, None)]);
    world.at(10.0, |world| world.delete("p", Some(5)));
    world.run_until(100.0);
    // Not a second preStop, and not a new life.
    assert_eq!(ends(&world), ["3 preStop a", "15 signal a", "17 kill a", "17 exit a 137"]);
    assert_eq!(world.trace_of(&["start"]), ["0 start a"]);
}

#[test]
fn l612_l614_at_natural_completion_sidecars_are_stopped_with_hooks_in_reverse_order() {
    let hook = json!({"preStop": {"exec": {"command": ["x"]}}});
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "s1", "restartPolicy": "Always", "lifecycle": hook},
            {"name": "s2", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "a"}],
    }));
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.behave("s1", &[Behavior::runs().pre_stop(1.0, None)]);
    world.behave("s2", &[Behavior::runs().stops(3.0, 0)]);
    world.run_until(60.0);
    assert_eq!(
        ends(&world),
        ["5 exit a 0", "5 preStop s1", "5 signal s2", "8 exit s2 0", "8 signal s1", "8 exit s1 0"]
    );
    assert_eq!(
        world.story()[5..],
        [
            "5 Running s1=running+started+ready s2=running+started+ready a=Completed/0",
            "8 Running s1=running+started+ready s2=Completed/0 a=Completed/0",
            "8 Running s1=Completed/0 s2=Completed/0 a=Completed/0",
            "8 Succeeded s1=Completed/0 s2=Completed/0 a=Completed/0",
        ]
    );
    assert_eq!(
        world.told_of(&["Killing"]),
        ["5 s1 Normal Killing Stopping container s1", "5 s2 Normal Killing Stopping container s2"]
    );
}

#[test]
fn l613_sidecars_exit_codes_do_not_count_and_an_apps_sigkill_does() {
    for (sidecar, app, phase) in [
        (Behavior::runs().stops(0.0, 9), Behavior::runs(), "Succeeded"),
        (Behavior::stubborn(), Behavior::runs(), "Succeeded"),
        (Behavior::runs().pre_stop(1.0, Some("x")), Behavior::runs(), "Succeeded"),
        (Behavior::runs(), Behavior::stubborn(), "Failed"),
        (Behavior::runs(), Behavior::runs().stops(0.0, 143), "Failed"),
    ] {
        let mut world = World::with(json!({
            "terminationGracePeriodSeconds": 3,
            "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}],
            "containers": [{"name": "a"}],
        }));
        world.behave("s", &[sidecar]);
        world.behave("a", &[app]);
        world.at(5.0, |world| world.delete("p", None));
        world.run_until(60.0);
        let last = world.written.last().and_then(|(_, status)| status.phase.clone());
        assert_eq!(last.as_deref(), Some(phase));
    }
}

#[test]
fn an_image_change_while_the_pod_ends_restarts_nothing() {
    let mut world = World::with(with_sidecars(30, &["s"]));
    world.behave("a", &[Behavior::runs().stops(5.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.at(6.0, |world| {
        world.update("p", |pod| {
            let spec = pod.spec.as_mut().expect("a spec");
            for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
                container.image = Some("busybox:2".to_owned());
            }
        })
    });
    world.run_until(60.0);
    assert_eq!(ends(&world), ["5 signal a", "10 exit a 0", "10 signal s", "10 exit s 0"]);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "0 start a"]);
}
