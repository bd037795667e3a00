//! Section 1: roles, restart policies, rules.

use serde_json::json;

use crate::world::{Behavior, World};

/// The newest status after so many seconds, in a pod whose containers all behave as told.
fn after(seconds: f64, spec: serde_json::Value, behaviors: &[(&str, Behavior)]) -> World {
    let mut world = World::with(spec);
    for (name, behavior) in behaviors {
        world.behave(name, std::slice::from_ref(behavior));
    }
    world.run_until(seconds);
    world
}

#[test]
fn l101_an_init_container_with_own_policy_on_failure_is_a_plain_one() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "i", "restartPolicy": "OnFailure"}],
        "containers": [{"name": "a"}],
    });
    let mut world = World::with(spec);
    world.behave("i", &[Behavior::exits(1.0, 1), Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    assert_eq!(world.trace_of(&["start", "exit"]), ["0 start i", "1 exit i 1", "1 start i", "2 exit i 0", "2 start a"]);
}

#[test]
fn l102_a_sidecar_is_told_of_as_an_init_container_and_does_not_count_for_completion() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    });
    let world = after(5.0, spec, &[("a", Behavior::exits(1.0, 0)), ("s", Behavior::runs().stops(0.0, 9))]);
    assert_eq!(world.newest(), "Succeeded s=Error/9 a=Completed/0");
    let (_, event) = &world.events[0];
    assert_eq!(event.field_path, "spec.initContainers{s}");
}

#[test]
fn l103_an_ephemeral_container_starts_at_once_and_never_again() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}],
    }));
    world.at(5.0, |world| {
        world.update("p", |pod| {
            let spec = pod.spec.as_mut().expect("a spec");
            let debug = json!([{"name": "debug", "image": "busybox:1.36"}]);
            spec.ephemeral_containers = Some(serde_json::from_value(debug).expect("containers"));
        });
    });
    world.behave("debug", &[Behavior::exits(2.0, 3)]);
    world.run_until(20.0);
    assert_eq!(world.trace_of(&["start", "exit"]), ["0 start i", "5 start debug", "7 exit debug 3"]);
    assert_eq!(world.newest(), "Pending i=running+started a=PodInitializing debug=Error/3");
    let status = world.stored().ephemeral_container_statuses.unwrap_or_default();
    assert_eq!(status.first().map(|status| status.started), Some(None));
}

#[test]
fn l103_an_ephemeral_container_ends_with_its_pod() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "containers": [{"name": "a"}],
        "ephemeralContainers": [{"name": "debug"}],
    }));
    world.behave("a", &[Behavior::exits(3.0, 0)]);
    world.run_until(20.0);
    assert_eq!(
        world.trace_of(&["start", "signal", "exit"]),
        ["0 start debug", "0 start a", "3 exit a 0", "3 signal debug", "3 exit debug 0"]
    );
}

#[test]
fn l104_an_ephemeral_container_needs_its_target() {
    let world = after(
        5.0,
        json!({
            "initContainers": [{"name": "i"}],
            "containers": [{"name": "a"}],
            "ephemeralContainers": [{"name": "debug", "targetContainerName": "a"}],
        }),
        &[],
    );
    assert_eq!(world.newest(), "Pending i=running+started a=PodInitializing debug=CreateContainerConfigError");
    assert_eq!(world.told_of(&["Failed"]), ["0 debug Warning Failed Error: unable to find target container a"]);
}

#[test]
fn l104_the_target_is_joined_only_where_pids_are_not_shared() {
    for (shares, joins) in [(false, true), (true, false)] {
        let mut world = World::with(json!({
            "shareProcessNamespace": shares,
            "containers": [{"name": "a"}],
        }));
        world.run_until(1.0);
        world.update("p", |pod| {
            let spec = pod.spec.as_mut().expect("a spec");
            let debug = json!([{"name": "debug", "image": "b", "targetContainerName": "a"}]);
            spec.ephemeral_containers = Some(serde_json::from_value(debug).expect("containers"));
        });
        world.run_until(2.0);
        let target = world.sent.iter().rev().find_map(|(_, effect)| match &effect.action {
            lifecycle::Action::CreateContainer(request) => Some(request.target.is_some()),
            _ => None,
        });
        assert_eq!(target, Some(joins));
    }
}

#[test]
fn l105_rules_come_first_then_the_own_policy_then_the_pods() {
    let rules = json!([
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
        {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 1, 42]}},
        {"action": "Restart"},
    ]);
    // Own policy, rules, pod policy, exit code, restarts.
    let cases = [
        (Some("Never"), true, "Always", 42, true),
        (Some("Never"), true, "Always", 7, true),
        (Some("Never"), true, "Always", 1, false),
        (Some("OnFailure"), true, "Never", 1, true),
        (Some("OnFailure"), false, "Always", 0, false),
        (Some("Always"), false, "Never", 0, true),
        (None, true, "Never", 42, false),
        (None, false, "OnFailure", 0, false),
        (None, false, "OnFailure", 1, true),
        (None, false, "Always", 0, true),
    ];
    for (own, has_rules, pod, code, restarts) in cases {
        let mut container = json!({"name": "a"});
        if let Some(own) = own {
            container["restartPolicy"] = json!(own);
        }
        if has_rules {
            container["restartPolicyRules"] = rules.clone();
        }
        let mut world = World::with(json!({"restartPolicy": pod, "containers": [container]}));
        world.behave("a", &[Behavior::exits(1.0, code), Behavior::runs()]);
        world.run_until(5.0);
        let starts = world.trace_of(&["start"]).len();
        assert_eq!(starts, if restarts { 2 } else { 1 }, "{own:?} {has_rules} {pod} {code}");
    }
}

#[test]
fn l106_the_phase_is_decided_by_each_containers_own_policy() {
    let never_in_always = json!({"restartPolicy": "Always", "containers": [{"name": "a", "restartPolicy": "Never"}]});
    let world = after(5.0, never_in_always, &[("a", Behavior::exits(1.0, 0))]);
    assert_eq!(world.newest(), "Succeeded a=Completed/0");

    let always_in_never = json!({
        "restartPolicy": "Never",
        "containers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
    });
    let world = after(5.0, always_in_never, &[("a", Behavior::exits(1.0, 0))]);
    assert_eq!(world.newest(), "Running a=Completed/0 b=running+started+ready");
}

#[test]
fn l108_a_kill_asks_the_policy_and_the_exit_asks_the_rules() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "containers": [
            {"name": "a", "restartPolicy": "Never",
             "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [137]}}],
             "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1}},
            {"name": "b"},
        ],
    }));
    world.behave("a", &[Behavior::stubborn().dies(2.5), Behavior::runs()]);
    world.run_until(20.0);
    assert_eq!(world.told_of(&["Killing"]), ["3 a Normal Killing Container a failed liveness probe"]);
    assert_eq!(world.trace_of(&["start", "exit"]), ["0 start a", "0 start b", "5 exit a 137", "5 start a"]);
}

#[test]
fn l112_one_exit_restarts_all_containers_in_place() {
    let mut world = World::with(json!({
        "restartPolicy": "Always",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [
            {"name": "a", "restartPolicy": "Never",
             "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]},
            {"name": "b", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}},
        ],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[Behavior::exits(4.0, 42), Behavior::runs()]);
    world.behave("b", &[Behavior::stubborn()]);
    world.run_until(30.0);
    assert_eq!(
        world.trace_of(&["start", "exit", "signal", "kill", "preStop"]),
        [
            "0 start i",
            "1 exit i 0",
            "1 start s",
            "1 start a",
            "1 start b",
            "5 exit a 42",
            // Neither order nor hooks; the floor of two seconds holds.
            "5 signal b",
            "5 signal s",
            "5 exit s 0",
            "7 kill b",
            "7 exit b 137",
            "7 start i",
            "8 exit i 0",
            "8 start s",
            "8 start a",
            "8 start b",
        ]
    );
    assert_eq!(world.told_of(&["Killing"]), ["5 b Normal Killing killing", "5 s Normal Killing killing"]);
    assert_eq!(world.effects_of(&["sandbox"]), ["0 sandbox"]);
    assert_eq!(
        world.newest(),
        "Running i=Completed/0+ready#1 s=running+started+ready#1 a=running+started+ready#1 b=running+started+ready#1"
    );
    assert_eq!(world.condition("AllContainersRestarting"), "False");
    assert_eq!(world.condition("Initialized"), "True");
}

#[test]
fn l112_the_restart_of_all_is_told_and_shown() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "containers": [{"name": "a", "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]}],
    }));
    world.behave("a", &[Behavior::exits(1.0, 42), Behavior::exits(1.0, 0)]);
    world.run_until(30.0);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Running a=running+started+ready",
            "1 Running a=Error/42",
            "1 Running a=RestartingAllContainers#1",
            "1 Running a=running+started+ready#1",
            "2 Running a=Completed/0#1",
            "2 Succeeded a=Completed/0#1",
        ]
    );
    let conditions: Vec<String> = world
        .written
        .iter()
        .flat_map(|(_, status)| status.conditions.clone().unwrap_or_default())
        .filter(|condition| condition.type_ == "AllContainersRestarting")
        .map(|condition| format!("{} {}", condition.status, condition.reason.unwrap_or_default()))
        .collect();
    assert_eq!(
        conditions,
        [
            "False ",
            "False ",
            "False ",
            "True RestartAllContainersStarted",
            "False ",
            "False ",
            "False PodCompleted",
            "False PodCompleted",
        ]
    );
    let last = world.stored().container_statuses.unwrap_or_default();
    let last = last.first().and_then(|status| status.last_state.clone()).and_then(|state| state.terminated);
    let last = last.map(|last| (last.reason.unwrap_or_default(), last.exit_code));
    assert_eq!(last, Some(("RestartingAllContainers".to_owned(), 137)));
}

#[test]
fn l113_an_init_container_may_restart_all_before_any_app_container_ran() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "i"},
            {"name": "s", "restartPolicy": "Always"},
            {"name": "j", "restartPolicy": "Never",
             "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]},
        ],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("j", &[Behavior::exits(1.0, 42), Behavior::exits(1.0, 0)]);
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        [
            "0 start i",
            "1 exit i 0",
            "1 start s",
            "1 start j",
            "2 exit j 42",
            "2 exit s 0",
            "2 start i",
            "3 exit i 0",
            "3 start s",
            "3 start j",
            "4 exit j 0",
            "4 start a",
        ]
    );
    assert_eq!(world.condition("Initialized"), "True");
}

#[test]
fn l112_a_restart_of_all_survives_an_agent_restart() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "containers": [
            {"name": "a", "restartPolicy": "Never",
             "restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]},
            {"name": "b"},
        ],
    }));
    world.behave("a", &[Behavior::exits(1.0, 42), Behavior::runs()]);
    world.behave("b", &[Behavior::stubborn()]);
    world.at(2.0, World::restart_agent);
    world.run_until(20.0);
    assert_eq!(world.newest(), "Running a=running+started+ready#1 b=running+started+ready#1");
}
