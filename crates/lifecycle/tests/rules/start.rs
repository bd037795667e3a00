//! Section 2: the start sequence.

use std::time::Duration;

use lifecycle::input::ReferenceKind;
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
fn l205_a_lost_sandbox_is_replaced_and_the_pod_begins_anew() {
    // L-207, L-208: init again from the first, sidecars in order, then the apps; what is done under OnFailure is not done again.
    let mut world = World::with(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.at(10.0, |world| world.lose_sandbox("p"));
    world.run_until(30.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        [
            "0 start i",
            "1 exit i 0",
            "1 start s",
            "1 start a",
            "1 start b",
            "2 exit a 0",
            "10 exit s 137",
            "10 exit b 137",
            "10 start i",
            "11 exit i 0",
            "11 start s",
            "11 start b",
        ]
    );
    assert_eq!(
        world.told_of(&["SandboxChanged"]),
        ["10 Normal SandboxChanged Pod sandbox changed, it will be killed and re-created."]
    );
    assert_eq!(
        world.newest(),
        "Running i=Completed/0+ready#1 s=running+started+ready#1 a=Completed/0 b=running+started+ready#1"
    );
}

#[test]
fn l205_two_ready_sandboxes_are_too_many() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    world.add_sandbox("p", 1);
    world.run_until(3.0);
    assert_eq!(
        world.effects_of(&["stop-sandbox", "sandbox"]),
        ["0 sandbox", "1 stop-sandbox", "1 stop-sandbox", "1 sandbox"]
    );
    assert_eq!(world.newest(), "Running a=running+started+ready#1");
}

#[test]
fn l206_a_never_pod_that_has_run_gets_no_new_sandbox() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.at(5.0, |world| world.lose_sandbox("p"));
    world.run_until(10.0);
    assert_eq!(world.effects_of(&["sandbox"]), ["0 sandbox"]);
    assert_eq!(world.newest(), "Failed a=Error/137");
}

#[test]
fn l206_better_a_never_pod_with_a_container_to_run_gets_a_new_sandbox() {
    // One whose container was made and never started, and one whose container has a policy of its own.
    let mut world = World::new();
    world.create("p", json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.create("q", json!({"restartPolicy": "Never", "containers": [{"name": "b", "restartPolicy": "Always"}]}));
    world.run_until(1.0);
    let record = world.runtime.get_mut(&uid()).and_then(|runtime| runtime.containers.first_mut());
    record.expect("a record").state = RuntimeState::Created;
    world.lose_sandbox("p");
    world.lose_sandbox("q");
    world.run_until(20.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start a", "0 start b", "1 start a", "1 start b"]);
}

#[test]
fn l207_nothing_left_to_run_makes_no_new_sandbox() {
    let mut world = World::with(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.behave("s", &[Behavior::stubborn()]);
    world.at(2.0, |world| world.lose_sandbox("p"));
    world.run_until(10.0);
    assert_eq!(world.effects_of(&["sandbox"]), ["0 sandbox"]);
    assert_eq!(world.newest(), "Succeeded s=Error/137 a=Completed/0");
}

#[test]
fn l208_better_records_of_an_old_sandbox_do_not_count_as_initialization() {
    // The removal of the old init record fails for good: it must be run again all the same.
    let mut world = World::with(json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a"}]}));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.at(5.0, |world| {
        world.faults.insert("remove".to_owned(), vec![(String::new(), "busy".to_owned()); 50]);
        world.lose_sandbox("p");
    });
    world.run_until(10.0);
    assert_eq!(
        world.trace_of(&["start", "exit"]),
        ["0 start i", "1 exit i 0", "1 start a", "5 exit a 137", "5 start i", "6 exit i 0", "6 start a"]
    );
}

#[test]
fn l209_a_sandbox_that_fails_is_tried_again_every_ten_seconds() {
    let mut world = World::new();
    world.faults.insert("sandbox".to_owned(), vec![(String::new(), "no bridge".to_owned()); 2]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(30.0);
    assert_eq!(world.effects_of(&["sandbox"]), ["0 sandbox", "10 sandbox", "20 sandbox"]);
    assert_eq!(
        world.told_of(&["FailedCreatePodSandBox"]),
        [
            "0 Warning FailedCreatePodSandBox Failed to create pod sandbox: no bridge",
            "10 Warning FailedCreatePodSandBox Failed to create pod sandbox: no bridge",
        ]
    );
}

#[test]
fn l209_readiness_to_start_is_told_before_images_are_pulled() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.images.pull_time = Duration::from_secs(7);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    assert_eq!(world.condition("PodReadyToStartContainers"), "True");
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
fn l229_after_a_reboot_the_pod_is_pending_until_it_is_initialized_again() {
    let mut world = World::with(json!({
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 30}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0), Behavior::exits(2.0, 0)]);
    world.behave("s", &[Behavior::runs(), Behavior::runs().starts_up(Some(1.5))]);
    world.at(10.0, |world| world.lose_sandbox("p"));
    world.run_until(9.0);
    let before = world.written.len();
    world.run_until(30.0);
    let story: Vec<String> = world.story().split_off(before);
    // BETTER: the completed init container shows its last result until its new run has ended, which the API accepts.
    assert_eq!(
        story,
        [
            "10 Pending i=Completed/0+ready s=Error/137 a=Error/137",
            "10 Pending i=Completed/0+ready s=Error/137 a=Error/137",
            "10 Pending i=Completed/0+ready#1 s=Error/137 a=Error/137",
            "12 Pending i=Completed/0+ready#1 s=Error/137 a=Error/137",
            "12 Pending i=Completed/0+ready#1 s=running#1 a=Error/137",
            "14 Pending i=Completed/0+ready#1 s=running+started#1 a=Error/137",
            "14 Running i=Completed/0+ready#1 s=running+started+ready#1 a=Error/137",
            "14 Running i=Completed/0+ready#1 s=running+started+ready#1 a=running+started+ready#1",
        ]
    );
    assert_eq!(world.condition("Initialized"), "True");
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
