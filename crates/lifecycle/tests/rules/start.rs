//! Section 2: the start sequence.

use lifecycle::{Input, PodUid, RuntimeState};
use serde_json::json;

use crate::world::{Behavior, World};

fn uid() -> PodUid {
    PodUid("p".to_owned())
}

#[test]
fn l201_status_then_volumes_then_sandbox_then_containers() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    assert_eq!(
        world.effects_of(&["status", "set-up", "sandbox", "inspect", "create", "start"]),
        ["0 set-up", "0 status", "0 sandbox", "0 inspect", "0 status", "0 create", "0 start", "0 status",]
    );
    assert_eq!(world.written[0].1.start_time.as_ref().map(|time| time.0), Some(crate::world::start()));
}

#[test]
fn l201_volumes_are_tried_again_and_each_failure_is_told() {
    let mut world = World::new();
    let failure =
        (String::new(), "MountVolume.SetUp failed for volume \"v\" : x\nMountVolume.SetUp failed for volume \"w\" : y");
    world
        .faults
        .insert("set-up".to_owned(), vec![(failure.0.clone(), failure.1.to_owned()), (failure.0, "z".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(world.effects_of(&["set-up", "start"]), ["0 set-up", "0.5 set-up", "1.5 set-up", "1.5 start"]);
    assert_eq!(
        world.told_of(&["FailedMount"]),
        [
            "0 Warning FailedMount MountVolume.SetUp failed for volume \"v\" : x",
            "0 Warning FailedMount MountVolume.SetUp failed for volume \"w\" : y",
            "0.5 Warning FailedMount z",
        ]
    );
}

#[test]
fn l201_an_unready_network_holds_pods_back_but_not_those_of_the_nodes_network() {
    let mut world = World::new();
    world.tell(Input::NetworkReady(Err("cni is not there".to_owned())));
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.create("q", json!({"hostNetwork": true, "containers": [{"name": "b"}]}));
    world.at(9.0, |world| world.tell(Input::NetworkReady(Ok(()))));
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start b", "9 start a"]);
    assert_eq!(
        world.told_of(&["NetworkNotReady"]),
        ["0 Warning NetworkNotReady network is not ready: cni is not there"]
    );
}

#[test]
fn l203_starts_are_serial_and_post_start_belongs_to_the_start() {
    let hook = json!({"postStart": {"exec": {"command": ["x"]}}});
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": hook}],
        "containers": [{"name": "a", "lifecycle": hook}, {"name": "b"}],
    }));
    world.behave("s", &[Behavior::runs().post_start(2.0, None)]);
    world.behave("a", &[Behavior::runs().post_start(3.0, None)]);
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "postStart"]),
        ["0 start s", "0 postStart s", "2 start a", "2 postStart a", "5 start b"]
    );
}

#[test]
fn l204_a_sidecar_that_cannot_start_blocks_nothing_once_the_pod_runs_and_an_app_container_never_does() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    world.behave("s", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.behave("a", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.at(4.0, |world| {
        let failure = ("CreateContainerError".to_owned(), "no".to_owned());
        world.faults.insert("create".to_owned(), vec![failure.clone(), failure]);
    });
    world.run_until(20.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start s", "0 start a", "0 start b", "5 exit s 1", "5 exit a 1", "15 start s", "15 start a"]
    );
}

#[test]
fn l204_an_app_container_that_cannot_start_does_not_stop_the_next() {
    let mut world = World::new();
    world.faults.insert("create".to_owned(), vec![("CreateContainerError".to_owned(), "no".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.run_until(15.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start b", "10 start a"]);
}

#[test]
fn l210_init_containers_run_one_after_another_in_spec_order() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "z"}, {"name": "m"}, {"name": "b"}],
        "containers": [{"name": "a"}],
    }));
    for name in ["z", "m", "b"] {
        world.behave(name, &[Behavior::exits(1.0, 0)]);
    }
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start z", "1 exit z 0", "1 start m", "2 exit m 0", "2 start b", "3 exit b 0", "3 start a"]
    );
}

#[test]
fn l211_a_startup_probe_gates_what_comes_after_a_sidecar() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 30});
    let mut world = World::with(json!({
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "startupProbe": probe},
            {"name": "t", "restartPolicy": "Always", "startupProbe": probe},
        ],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::runs().starts_up(Some(2.5))]);
    world.behave("t", &[Behavior::runs().starts_up(Some(1.0))]);
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "3 start t", "4 start a"]);
}

#[test]
fn l212_readiness_and_liveness_gate_nothing() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 1});
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always", "readinessProbe": probe, "livenessProbe": {
            "exec": {"command": ["y"]}, "periodSeconds": 1, "failureThreshold": 30}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::runs().ready(None).dies(0.0)]);
    world.run_until(3.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "0 start a"]);
}

#[test]
fn l213_a_sidecar_that_crashes_before_it_has_started_blocks_and_never_fails_the_pod() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 60}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.5, 3).starts_up(None), Behavior::runs().starts_up(Some(0.5))]);
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start", "exit"]), ["0 start s", "1.5 exit s 3", "1.5 start s", "2 start a"]);
    assert_eq!(world.newest(), "Running s=running+started+ready#1 a=running+started+ready");
}

#[test]
fn l213_a_sidecar_that_crashes_after_it_has_started_does_not_block() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 3), Behavior::exits(1.0, 3), Behavior::runs()]);
    world.behave("i", &[Behavior::exits(4.0, 0)]);
    world.run_until(20.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start s", "0 start i", "1 exit s 3", "1 start s", "2 exit s 3", "4 exit i 0", "4 start a", "12 start s",]
    );
}

#[test]
fn l214_when_both_must_start_the_sidecar_goes_first() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.behave("a", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.run_until(8.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start s", "0 start a", "5 exit s 1", "5 exit a 1", "5 start s", "5 start a"]
    );
}

#[test]
fn l215_a_changed_image_restarts_apps_and_sidecars_under_every_policy_and_plain_init_never() {
    for policy in ["Always", "OnFailure", "Never"] {
        let mut world = World::with(json!({
            "restartPolicy": policy,
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "a"}, {"name": "b"}],
        }));
        world.behave("i", &[Behavior::exits(1.0, 0)]);
        world.at(5.0, |world| {
            world.update("p", |pod| {
                let spec = pod.spec.as_mut().expect("a spec");
                for container in spec.init_containers.iter_mut().flatten().chain(spec.containers.iter_mut().take(1)) {
                    container.image = Some("busybox:2".to_owned());
                }
            });
        });
        world.run_until(10.0);
        assert_eq!(
            world.trace_of(&["start", "signal"]),
            ["0 start i", "1 start s", "1 start a", "1 start b", "5 signal s", "5 signal a", "5 start s", "5 start a"],
            "{policy}"
        );
        assert_eq!(
            world.told_of(&["Killing"]),
            [
                "5 s Normal Killing Init container s definition changed",
                "5 a Normal Killing Container a definition changed, will be restarted",
            ]
        );
        assert_eq!(
            world.newest(),
            "Running i=Completed/0+ready s=running+started+ready#1 a=running+started+ready#1 b=running+started+ready"
        );
    }
}

#[test]
fn l216_an_unknown_container_is_taken_away_and_started_anew() {
    let mut world = World::with(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.run_until(1.0);
    let record = world.runtime.get_mut(&uid()).and_then(|runtime| runtime.containers.first_mut());
    record.expect("a record").state = RuntimeState::Unknown;
    world.observe(&uid());
    world.run_until(3.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start a", "0 start b", "1 start a"]);
    assert_eq!(
        world.told_of(&["Killing"]),
        ["1 a Normal Killing Container is in \"unknown\" state, try killing it before restart"]
    );
    // L-732 counts it once when it is lost, L-731 once more when it runs again.
    assert_eq!(world.newest(), "Running a=running+started+ready#2 b=running+started+ready");
}

#[test]
fn l217_when_no_app_container_is_left_the_sidecars_are_stopped() {
    let mut world = World::with(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    world.behave("a", &[Behavior::exits(2.0, 1), Behavior::exits(2.0, 0)]);
    world.behave("b", &[Behavior::exits(3.0, 0)]);
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "exit", "signal"]),
        [
            "0 start s",
            "0 start a",
            "0 start b",
            "2 exit a 1",
            "2 start a",
            "3 exit b 0",
            "4 exit a 0",
            "4 signal s",
            "4 exit s 0",
        ]
    );
    assert_eq!(world.newest(), "Succeeded s=Completed/0 a=Completed/0#1 b=Completed/0");
}

#[test]
fn l218_nothing_starts_once_the_pod_is_deleted() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    world.behave("s", &[Behavior::exits(4.0, 1)]);
    world.behave("a", &[Behavior::exits(4.5, 1)]);
    world.behave("b", &[Behavior::runs().stops(5.0, 0)]);
    world.at(3.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start s", "0 start a", "0 start b"]);
}

#[test]
fn l219_better_completion_does_not_wait_for_a_sidecar_that_is_not_started() {
    // (a): all apps have ended for good while the last sidecar, restarted, has not passed its startup probe.
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 100}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(3.5, 1), Behavior::runs().starts_up(None)]);
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.run_until(20.0);
    assert_eq!(world.newest(), "Succeeded s=Completed/0#1 a=Completed/0");
}

#[test]
fn l219_better_crashed_apps_are_restarted_though_the_sidecar_lost_its_startup_result() {
    let mut world = World::with(json!({
        "restartPolicy": "Always",
        "initContainers": [{"name": "s", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 100}}],
        "containers": [{"name": "a"}],
    }));
    // The sidecar crashes and its second life never starts up; then the app crashes.
    world.behave("s", &[Behavior::exits(3.5, 1), Behavior::runs().starts_up(None)]);
    world.behave("a", &[Behavior::exits(5.0, 1), Behavior::runs()]);
    world.run_until(20.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start s", "0 start a", "3.5 exit s 1", "3.5 start s", "5 exit a 1", "5 start a"]
    );
}

#[test]
fn l219_better_init_containers_do_not_run_twice_when_their_records_are_gone_and_all_apps_have_ended() {
    // (b)
    let mut world = World::with(json!({
        "restartPolicy": "Always",
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[Behavior::exits(5.0, 1), Behavior::exits(1.0, 1), Behavior::runs()]);
    world.at(3.0, |world| world.forget_record("p", "i-0"));
    world.run_until(30.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start i", "1 start a", "6 start a", "17 start a"]);
    assert_eq!(world.newest(), "Running i=Completed/0+ready a=running+started+ready#2");
}
