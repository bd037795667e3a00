//! Section 3: restart rules and crash-loop back-off.

use std::time::Duration;

use lifecycle::{Exit, Input, NodeConfig, PodUid, RuntimeState};
use serde_json::json;

use crate::world::{Behavior, World};

fn starts(world: &World) -> Vec<String> {
    world.trace_of(&["start"])
}

#[test]
fn l301_the_master_table() {
    // Role, own policy, pod policy, exit code: is it restarted, and the pod's phase then.
    let cases = [
        ("app", None, "Always", 0, true, "Running"),
        ("app", None, "Always", 1, true, "Running"),
        ("app", None, "OnFailure", 0, false, "Succeeded"),
        ("app", None, "OnFailure", 1, true, "Running"),
        ("app", None, "Never", 0, false, "Succeeded"),
        ("app", None, "Never", 1, false, "Failed"),
        ("app", Some("Always"), "Never", 0, true, "Running"),
        ("app", Some("OnFailure"), "Never", 1, true, "Running"),
        ("app", Some("Never"), "Always", 1, false, "Failed"),
        ("init", None, "Always", 1, true, "Pending"),
        ("init", None, "OnFailure", 1, true, "Pending"),
        ("init", None, "Never", 1, false, "Failed"),
        ("init", Some("OnFailure"), "Never", 1, true, "Pending"),
        ("init", Some("Never"), "Always", 1, false, "Failed"),
        ("side", Some("Always"), "Always", 1, true, "Running"),
        ("side", Some("Always"), "OnFailure", 1, true, "Running"),
        ("side", Some("Always"), "Never", 0, true, "Running"),
    ];
    for (role, own, pod, code, restarts, phase) in cases {
        let mut container = json!({"name": "x"});
        if let Some(own) = own {
            container["restartPolicy"] = json!(own);
        }
        let spec = match role {
            "app" => json!({"restartPolicy": pod, "containers": [container]}),
            _ => json!({"restartPolicy": pod, "initContainers": [container], "containers": [{"name": "a"}]}),
        };
        let mut world = World::with(spec);
        world.behave("x", &[Behavior::exits(1.0, code), Behavior::runs()]);
        world.run_until(5.0);
        let count = world.trace_of(&["start"]).iter().filter(|line| line.ends_with("start x")).count();
        assert_eq!(count, if restarts { 2 } else { 1 }, "{role} {own:?} {pod} {code}");
        assert_eq!(world.stored().phase.as_deref(), Some(phase), "{role} {own:?} {pod} {code}");
    }
}

#[test]
fn l301_a_completed_init_container_passes_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = World::with(json!({
            "restartPolicy": policy, "initContainers": [{"name": "i"}], "containers": [{"name": "a"}],
        }));
        world.behave("i", &[Behavior::exits(1.0, 0)]);
        world.run_until(5.0);
        assert_eq!(starts(&world), ["0 start i", "1 start a"]);
    }
}

#[test]
fn l302_success_of_an_init_container_is_looked_at_before_its_rules() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [0, 3]}}]);
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "i", "restartPolicy": "Never", "restartPolicyRules": rules}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 3), Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    assert_eq!(starts(&world), ["0 start i", "1 start i", "2 start a"]);
}

#[test]
fn l303_better_an_oom_killed_init_container_has_failed_whatever_its_code() {
    let mut world = World::with(json!({
        "restartPolicy": "Never", "initContainers": [{"name": "i"}], "containers": [{"name": "a"}],
    }));
    world.run_until(1.0);
    let uid = PodUid("p".to_owned());
    let now = world.now;
    let record = world.runtime.get_mut(&uid).and_then(|runtime| runtime.containers.first_mut()).expect("a record");
    record.state = RuntimeState::Exited(Exit {
        exit_code: 0,
        reason: Some("OOMKilled".to_owned()),
        message: String::new(),
        started_at: None,
        finished_at: now,
    });
    world.observe(&uid);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Failed i=OOMKilled/137 a=PodInitializing");
}

#[test]
fn l304_a_failed_init_container_under_never_ends_the_whole_pod() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}, {"name": "j"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 7)]);
    world.run_until(5.0);
    assert_eq!(
        world.trace_of(&["start", "signal", "exit"]),
        ["0 start s", "0 start i", "1 exit i 7", "1 signal s", "1 exit s 0"]
    );
    assert_eq!(world.newest(), "Failed s=Completed/0 i=Error/7 j=PodInitializing a=PodInitializing");
    assert_eq!(
        world.condition("Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [s i j]"
    );
}

#[test]
fn l305_a_kill_by_a_probe_restarts_under_on_failure_even_after_exit_0_and_not_under_never() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1});
    for (policy, restarts, phase) in [("OnFailure", true, "Running"), ("Never", false, "Succeeded")] {
        let mut world = World::with(json!({
            "restartPolicy": policy, "containers": [{"name": "a", "livenessProbe": probe}],
        }));
        world.behave("a", &[Behavior::runs().stops(1.0, 0).dies(2.5), Behavior::runs()]);
        world.run_until(10.0);
        assert_eq!(starts(&world).len(), if restarts { 2 } else { 1 });
        assert_eq!(world.stored().phase.as_deref(), Some(phase));
        let phases: Vec<_> = world.written.iter().filter_map(|(_, status)| status.phase.clone()).collect();
        assert!(restarts != phases.contains(&"Succeeded".to_owned()), "no final phase in between: {phases:?}");
    }
}

#[test]
fn l306_the_waits_are_0_10_20_40_80_160_300_300() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.run_until(1000.0);
    let times: Vec<f64> =
        world.trace.iter().filter(|(_, line)| line.starts_with("start")).map(|(time, _)| time.as_secs_f64()).collect();
    let waits: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0] - 1.0).collect();
    assert_eq!(waits, [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]);
}

#[test]
fn l306_the_node_may_set_the_cap() {
    let config = NodeConfig { back_off_max: Duration::from_secs(30), ..NodeConfig::new("node") };
    let mut world = World::unsynced(config);
    world.tell(Input::Synced);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.run_until(120.0);
    assert_eq!(starts(&world), ["0 start a", "1 start a", "12 start a", "33 start a", "64 start a", "95 start a"]);

    // A cap below the first wait replaces that too.
    let config = NodeConfig { back_off_max: Duration::from_secs(2), ..NodeConfig::new("node") };
    let mut world = World::unsynced(config);
    world.tell(Input::Synced);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.run_until(6.0);
    assert_eq!(starts(&world), ["0 start a", "1 start a", "4 start a"]);
}

#[test]
fn l307_ten_minutes_of_running_reset_the_count() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    let crash = Behavior::exits(1.0, 1);
    world.behave("a", &[crash.clone(), crash.clone(), crash.clone(), Behavior::exits(601.0, 1), crash]);
    world.run_until(700.0);
    // 0, 10 and 20 s, then a long life; its end counts as the first one.
    assert_eq!(
        starts(&world),
        ["0 start a", "1 start a", "12 start a", "33 start a", "634 start a", "645 start a", "666 start a"]
    );
}

#[test]
fn l308_a_new_image_starts_the_count_anew() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.at(40.0, |world| {
        world.update("p", |pod| {
            let spec = pod.spec.as_mut().expect("a spec");
            spec.containers[0].image = Some("busybox:2".to_owned());
        });
    });
    world.run_until(60.0);
    // In back-off until 74 with the old image; the new one starts at once, then waits 10 s.
    assert_eq!(starts(&world), ["0 start a", "1 start a", "12 start a", "33 start a", "40 start a", "51 start a"]);
}

#[test]
fn l308_exit_0_init_containers_and_sidecars_wait_alike() {
    for (role, code) in [("app", 0), ("init", 1), ("side", 0)] {
        let spec = match role {
            "app" => json!({"containers": [{"name": "x"}]}),
            "init" => json!({"initContainers": [{"name": "x"}], "containers": [{"name": "a"}]}),
            _ => json!({"initContainers": [{"name": "x", "restartPolicy": "Always"}], "containers": [{"name": "a"}]}),
        };
        let mut world = World::with(spec);
        world.behave("x", &[Behavior::exits(1.0, code)]);
        world.run_until(40.0);
        let starts: Vec<String> = starts(&world).into_iter().filter(|line| line.ends_with('x')).collect();
        assert_eq!(starts, ["0 start x", "1 start x", "12 start x", "33 start x"], "{role}");
    }
}

#[test]
fn l308_an_agent_that_starts_anew_has_forgotten_the_count() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.at(40.0, World::restart_agent);
    world.run_until(45.0);
    assert_eq!(starts(&world), ["0 start a", "1 start a", "12 start a", "33 start a", "40 start a"]);
}

#[test]
fn l309_the_first_kill_by_a_probe_restarts_at_once_and_later_ones_look_at_the_life_before() {
    // As recorded of a real cluster: lives of 5 s and a grace of 2 s.
    let mut world = World::with(json!({
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "a",
            "livenessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1}}],
    }));
    world.behave("a", &[Behavior::stubborn().dies(4.5)]);
    world.run_until(60.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        [
            "0 start a",
            "7 exit a 137",
            "7 start a",
            // No life had ended when this kill was decided but the first, long ago.
            "14 exit a 137",
            "14 start a",
            // The second life ended 7 s before: less than 10, so this end waits, from its own time.
            "21 exit a 137",
            "31 start a",
            "38 exit a 137",
            "58 start a",
        ]
    );
}

#[test]
fn l310_a_wait_is_told_with_its_length() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.run_until(80.0);
    assert_eq!(
        world.told_of(&["BackOff"]),
        [
            "2 a Warning BackOff Back-off restarting failed container a in pod p_default(p)",
            "13 a Warning BackOff Back-off restarting failed container a in pod p_default(p)",
            "34 a Warning BackOff Back-off restarting failed container a in pod p_default(p)",
            "75 a Warning BackOff Back-off restarting failed container a in pod p_default(p)",
        ]
    );
    let messages: Vec<String> = world
        .written
        .iter()
        .filter_map(|(_, status)| status.container_statuses.clone()?.first()?.state.clone()?.waiting?.message)
        .collect();
    assert_eq!(
        messages,
        [
            "back-off 10s restarting failed container=a pod=p_default(p)",
            "back-off 20s restarting failed container=a pod=p_default(p)",
            "back-off 40s restarting failed container=a pod=p_default(p)",
            "back-off 1m20s restarting failed container=a pod=p_default(p)",
        ]
    );
}

#[test]
fn l311_the_end_is_shown_first_and_the_wait_right_after_it() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1), Behavior::exits(1.0, 2), Behavior::runs()]);
    world.run_until(20.0);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Running a=running+started+ready",
            "1 Running a=Error/1",
            "1 Running a=running+started+ready#1",
            "2 Running a=Error/2#1",
            "2 Running a=CrashLoopBackOff#1",
            "12 Running a=running+started+ready#2",
        ]
    );
    let last = world.written[6].1.container_statuses.as_ref().and_then(|list| list.first()?.last_state.clone());
    assert_eq!(crate::world::look::state(last.as_ref()), "Error/2");
}

#[test]
fn l312_a_restart_is_not_late() {
    // The kubelet adds up to half of the wait; here it is exact.
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.latency = Duration::from_millis(5);
    world.behave("a", &[Behavior::exits(1.0, 1), Behavior::exits(1.0, 1), Behavior::runs()]);
    world.run_until(30.0);
    let ends: Vec<f64> =
        world.trace.iter().filter(|(_, line)| line.starts_with("exit")).map(|(t, _)| t.as_secs_f64()).collect();
    let inspects: Vec<f64> = world
        .sent
        .iter()
        .filter(|(_, effect)| matches!(effect.action, lifecycle::Action::InspectImage { .. }))
        .map(|(time, _)| time.as_secs_f64())
        .collect();
    assert_eq!(inspects[2], ends[1] + 10.0);
}

#[test]
fn l313_better_starts_that_fail_before_the_container_runs_wait_longer_each_time() {
    let mut world = World::new();
    let failure = ("CreateContainerError".to_owned(), "no space".to_owned());
    world.faults.insert("create".to_owned(), vec![failure; 3]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(100.0);
    assert_eq!(world.effects_of(&["create"]), ["0 create", "10 create", "30 create", "70 create"]);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Pending a=CreateContainerError",
            "70 Running a=running+started+ready",
        ]
    );
}

#[test]
fn l314_pulls_back_off_and_say_so_in_between() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    let failure = (String::new(), "no such host".to_owned());
    world.faults.insert("pull".to_owned(), vec![failure; 3]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(100.0);
    assert_eq!(world.effects_of(&["pull"]), ["0 pull", "10 pull", "30 pull", "70 pull"]);
    assert_eq!(
        world.story(),
        [
            "0 Pending a=ContainerCreating",
            "0 Pending a=ContainerCreating",
            "0 Pending a=ErrImagePull",
            "0 Pending a=ImagePullBackOff",
            "10 Pending a=ErrImagePull",
            "10 Pending a=ImagePullBackOff",
            "30 Pending a=ErrImagePull",
            "30 Pending a=ImagePullBackOff",
            "70 Running a=running+started+ready",
        ]
    );
    let messages: Vec<String> = world.written[2..4]
        .iter()
        .filter_map(|(_, status)| status.container_statuses.clone()?.first()?.state.clone()?.waiting?.message)
        .collect();
    assert_eq!(messages, ["no such host", "Back-off pulling image \"busybox:1.36\": ErrImagePull: no such host"]);
}

#[test]
fn l314_success_clears_the_pull_back_off_and_pods_do_not_share_it() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.faults.insert("pull".to_owned(), vec![(String::new(), "x".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a", "imagePullPolicy": "Always"}]}));
    world.create("q", json!({"containers": [{"name": "b", "imagePullPolicy": "Always"}]}));
    world.run_until(20.0);
    assert_eq!(starts(&world), ["0 start b", "10 start a"]);
}
