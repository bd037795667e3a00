//! Section 2: the start of one container, agent restarts, references.

use std::time::Duration;

use lifecycle::Input;
use lifecycle::input::ReferenceKind;
use serde_json::json;

use crate::world::{Behavior, World};

#[test]
fn l220_the_steps_of_a_start_and_l221_its_count() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1), Behavior::runs()]);
    world.run_until(5.0);
    let attempts: Vec<(u32, String)> = world
        .sent
        .iter()
        .filter_map(|(_, effect)| match &effect.action {
            lifecycle::Action::CreateContainer(request) => Some((request.attempt, request.image_id.clone())),
            _ => None,
        })
        .collect();
    let image = "busybox:1.36@sha256:0".to_owned();
    assert_eq!(attempts, [(0, image.clone()), (1, image)]);
}

#[test]
fn l221_the_count_goes_on_when_the_record_is_gone() {
    let mut world = World::with(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1), Behavior::exits(3.0, 1), Behavior::runs()]);
    world.at(2.0, |world| {
        world.forget_record("p", "a-1");
        world.restart_agent();
    });
    world.run_until(5.0);
    assert_eq!(world.newest(), "Running a=running+started+ready#2 b=running+started+ready");
}

#[test]
fn l222_a_failed_post_start_kills_the_container_with_the_pods_grace_and_pre_stop() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "containers": [{"name": "a", "lifecycle": {
            "postStart": {"exec": {"command": ["boom", "now"]}},
            "preStop": {"exec": {"command": ["bye"]}}}}],
    }));
    world.behave(
        "a",
        &[Behavior::runs().stops(1.0, 0).post_start(2.0, Some("exit 1, message: \"no\"")).pre_stop(1.0, None)],
    );
    world.run_until(30.0);
    assert_eq!(
        world.trace_of(&["start", "postStart", "preStop", "signal", "exit"]),
        ["0 start a", "0 postStart a", "2 preStop a", "3 signal a", "4 exit a 0"]
    );
    assert_eq!(
        world.told_of(&["FailedPostStartHook", "Killing"]),
        ["2 a Warning FailedPostStartHook PostStartHook failed", "2 a Normal Killing FailedPostStartHook"]
    );
    // While the hook runs users see what they saw before.
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "4 Pending a=Completed/0",
            "4 Succeeded a=Completed/0",
        ]
    );
}

#[test]
fn l222_a_failed_post_start_shows_its_reason_until_the_next_start() {
    let mut world = World::with(json!({
        "containers": [{"name": "a", "lifecycle": {"postStart": {"exec": {"command": ["boom"]}}}}],
    }));
    let fails = Behavior::runs().post_start(1.0, Some("exit 1"));
    world.behave("a", &[fails.clone(), fails, Behavior::runs()]);
    world.run_until(30.0);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "1 Running a=PostStartHookError",
            "2 Running a=PostStartHookError#1",
            "2 Running a=CrashLoopBackOff#1",
            "12 Running a=running+started+ready#2",
        ]
    );
    let waiting: Vec<String> = world.written[2]
        .1
        .container_statuses
        .iter()
        .flatten()
        .filter_map(|status| status.state.clone()?.waiting?.message)
        .collect();
    assert_eq!(
        waiting,
        ["Exec lifecycle hook ([boom]) for Container \"a\" in Pod \"p_default(p)\" failed - error: exit 1"]
    );
}

#[test]
fn l223_only_the_newest_ended_instance_of_a_container_is_kept() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1), Behavior::exits(1.0, 1), Behavior::runs()]);
    world.run_until(30.0);
    let ids: Vec<String> =
        world.runtime.values().flat_map(|runtime| &runtime.containers).map(|record| record.id.to_string()).collect();
    assert_eq!(ids, ["a-1", "a-2"]);
    assert_eq!(world.effects_of(&["remove"]), ["2 remove"]);
}

#[test]
fn l224_pull_policies() {
    for (policy, missing, expected) in [
        ("Always", false, vec!["pull", "create"]),
        ("IfNotPresent", false, vec!["inspect", "create"]),
        ("IfNotPresent", true, vec!["inspect", "pull", "create"]),
        ("Never", false, vec!["inspect", "create"]),
        ("Never", true, vec!["inspect"]),
    ] {
        let mut world = World::new();
        if missing {
            world.images.missing.insert("busybox:1.36".to_owned());
        }
        world.create("p", json!({"containers": [{"name": "a", "imagePullPolicy": policy}]}));
        world.run_until(1.0);
        let expected: Vec<String> = expected.into_iter().map(|name| format!("0 {name}")).collect();
        assert_eq!(world.effects_of(&["inspect", "pull", "create"]), expected, "{policy} {missing}");
    }
}

#[test]
fn l225_an_agent_that_starts_anew_touches_nothing_that_runs() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5});
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always", "startupProbe": probe}],
        "containers": [{"name": "a", "startupProbe": probe, "readinessProbe": {"exec": {"command": ["y"]}}}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.at(60.0, World::restart_agent);
    world.run_until(59.0);
    let before = world.written.len();
    world.run_until(120.0);
    assert_eq!(world.trace_of(&["start"]).len(), 3);
    // Nothing has changed, so nothing is written.
    assert_eq!(world.story().split_off(before), Vec::<String>::new());
    assert_eq!(world.newest(), "Running i=Completed/0+ready s=running+started+ready a=running+started+ready");
}

#[test]
fn l225_better_started_is_kept_for_the_same_container_only() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5, "failureThreshold": 100});
    let mut world = World::with(json!({"containers": [{"name": "a", "startupProbe": probe}]}));
    world.behave("a", &[Behavior::exits(20.0, 1), Behavior::runs().starts_up(None)]);
    // The container is replaced while the agent is down: its status still tells of the one before.
    world.at(19.0, |world| {
        world.delay_answers = true;
    });
    world.at(25.0, |world| {
        world.delay_answers = false;
        world.replace_record("p", "a-0", "a-1");
        world.restart_agent();
    });
    world.run_until(40.0);
    assert_eq!(world.newest(), "Running a=running#1");
}

#[test]
fn l226_a_lost_init_record_counts_as_done() {
    let mut world = World::with(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    world.forget_record("p", "i-0");
    world.update("p", |pod| pod.status = None);
    world.restart_agent();
    world.run_until(10.0);
    assert_eq!(world.newest(), "Running i=Completed/0+ready a=running+started+ready");
    let message =
        world.stored().init_container_statuses.and_then(|list| list.first()?.state.clone()?.terminated?.message);
    assert_eq!(
        message.as_deref(),
        Some(
            "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
        )
    );
    assert_eq!(world.trace_of(&["start"]), ["0 start i", "1 start a"]);
}

#[test]
fn l228_better_deletion_ends_a_pull_and_nothing_is_started() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.images.pull_time = Duration::from_secs(600);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(10.0);
    assert_eq!(world.effects_of(&["pull", "cancel", "create", "delete"]), ["0 pull", "5 cancel", "5 delete"]);
    assert!(world.objects.is_empty());
}

#[test]
fn l228_better_deletion_ends_a_post_start_hook() {
    let mut world = World::with(json!({
        "containers": [{"name": "a", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}, {"name": "b"}],
    }));
    world.behave("a", &[Behavior::runs().post_start(600.0, None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start", "signal", "exit"]), ["0 start a", "5 signal a", "5 exit a 0"]);
    assert!(world.objects.is_empty());
}

#[test]
fn l905_a_missing_reference_is_waited_for_and_tried_at_once_when_it_comes() {
    let mut world = World::new();
    let failure = ("CreateContainerConfigError".to_owned(), "configmap \"late\" not found".to_owned());
    world.faults.insert("create".to_owned(), vec![failure]);
    world.create("p", json!({
        "containers": [{"name": "a", "env": [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]}],
    }));
    world.at(8.0, |world| {
        world.tell(Input::ReferenceChanged {
            kind: ReferenceKind::ConfigMap,
            namespace: "default".to_owned(),
            name: "late".to_owned(),
        });
    });
    world.run_until(9.0);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Pending a=CreateContainerConfigError",
            "8 Running a=running+started+ready",
        ]
    );
    assert_eq!(world.told_of(&["Failed"]), ["0 a Warning Failed Error: configmap \"late\" not found"]);
}

#[test]
fn l922_volumes_follow_the_objects_they_are_made_of() {
    let mut world = World::with(json!({
        "containers": [{"name": "a"}],
        "volumes": [{"name": "v", "secret": {"secretName": "keys"}}],
    }));
    world.at(5.0, |world| {
        for name in ["keys", "other"] {
            world.tell(Input::ReferenceChanged {
                kind: ReferenceKind::Secret,
                namespace: "default".to_owned(),
                name: name.to_owned(),
            });
        }
    });
    world.run_until(9.0);
    assert_eq!(world.effects_of(&["refresh"]), ["5 refresh"]);
}

#[test]
fn what_runs_is_looked_after_while_volumes_cannot_be_set_up() {
    // The agent has started anew and a Secret is gone: the sidecar must still be stopped when the app has ended.
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("a", &[Behavior::exits(20.0, 0)]);
    world.run_until(10.0);
    world.faults.insert("set-up".to_owned(), vec![(String::new(), "secret \"s\" not found".to_owned()); 1000]);
    world.restart_agent();
    world.run_until(30.0);
    assert_eq!(world.trace_of(&["exit", "signal"]), ["20 exit a 0", "20 signal s", "20 exit s 0"]);
    assert_eq!(world.newest(), "Succeeded s=Completed/0 a=Completed/0");
}
