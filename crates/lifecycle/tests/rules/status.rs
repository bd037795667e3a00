//! Section 7: phase, conditions, container statuses.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};
use lifecycle::{Input, NodeConfig, PodUid, RuntimeState};
use serde_json::json;

use crate::world::{Behavior, World};

fn container(world: &World, name: &str) -> ContainerStatus {
    let status = world.stored();
    let lists = [status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|status| status.name == name).unwrap_or_default()
}

fn node() -> NodeConfig {
    NodeConfig {
        host_ips: ["192.168.1.5".parse(), "fd00::5".parse()].into_iter().flatten().collect(),
        ..NodeConfig::new("node")
    }
}

fn on_node(spec: serde_json::Value) -> World {
    let mut world = World::unsynced(node());
    world.tell(Input::Synced);
    world.create("p", spec);
    world
}

#[test]
fn l702_l706_an_app_container_that_has_never_run_keeps_the_pod_pending() {
    let mut world = World::new();
    world.images.missing.insert("no:1".to_owned());
    world.create(
        "p",
        json!({"containers": [{"name": "a", "image": "no:1", "imagePullPolicy": "Never"}, {"name": "b"}]}),
    );
    world.run_until(5.0);
    assert_eq!(world.newest(), "Pending a=ErrImageNeverPull b=running+started+ready");
}

#[test]
fn l704_l706_one_that_waits_after_a_run_does_not() {
    let mut world = World::with(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Running a=CrashLoopBackOff#1 b=running+started+ready");
}

#[test]
fn l703_l706_a_sidecar_that_crash_loops_is_neutral_once_it_has_started_and_the_apps_wait_before() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 1)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Running s=CrashLoopBackOff#1 a=running+started+ready");

    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always",
            "startupProbe": {"exec": {"command": ["x"]}, "failureThreshold": 100}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 1).starts_up(None)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Pending s=CrashLoopBackOff#1 a=PodInitializing");
}

#[test]
fn l705_running_sidecars_keep_the_phase_running_after_all_apps_have_ended() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}],
    }));
    world.behave("a", &[Behavior::exits(1.0, 1)]);
    world.behave("s", &[Behavior::runs().stops(5.0, 0)]);
    world.run_until(3.0);
    assert_eq!(world.newest(), "Running s=running+started+ready a=Error/1");
    world.run_until(10.0);
    assert_eq!(world.newest(), "Failed s=Completed/0 a=Error/1");
}

#[test]
fn l707_a_final_phase_is_never_left() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    let before = world.written.len();
    // Whatever the runtime has, and whoever looks at it.
    world.forget_record("p", "a-0");
    world.restart_agent();
    world.run_until(60.0);
    assert_eq!(world.stored().phase.as_deref(), Some("Succeeded"));
    assert_eq!(world.trace_of(&["start"]).len(), 1);
    assert!(world.written[before..].iter().all(|(_, status)| status.phase.as_deref() == Some("Succeeded")));
}

#[test]
fn l720_conditions_stand_in_the_kubelets_order_behind_those_of_others() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    world.update("p", |pod| {
        let status = pod.status.get_or_insert_default();
        let gate =
            PodCondition { type_: "example.org/gate".to_owned(), status: "True".to_owned(), ..PodCondition::default() };
        status.conditions.get_or_insert_default().push(gate);
    });
    world.behave("a", &[Behavior::exits(5.0, 1)]);
    world.exit(&PodUid("p".to_owned()), &lifecycle::ContainerId("a-0".to_owned()), 1);
    world.run_until(2.0);
    let types: Vec<String> = world.stored().conditions.into_iter().flatten().map(|condition| condition.type_).collect();
    assert_eq!(
        types,
        ["example.org/gate", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",]
    );
}

#[test]
fn l721_ready_to_start_follows_the_sandbox() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.latency = std::time::Duration::from_millis(1);
    let of = |world: &World| world.condition("PodReadyToStartContainers");
    world.carry_out();
    assert_eq!(of(&world), "False");
    world.run_until(1.0);
    assert_eq!(of(&world), "True");
    world.run_until(10.0);
    assert_eq!(of(&world), "False");
}

#[test]
fn l722_containers_ready() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
        "containers": [{"name": "b"}, {"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(2.0, 0)]);
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.behave("b", &[Behavior::exits(5.0, 0)]);
    world.run_until(1.0);
    // Sidecars and app containers in spec order, plain init containers never.
    assert_eq!(world.condition("ContainersReady"), "False ContainersNotReady containers with unready status: [b a]");
    world.run_until(3.0);
    assert_eq!(world.condition("ContainersReady"), "True");
    world.run_until(20.0);
    assert_eq!(world.condition("ContainersReady"), "False PodCompleted");
    assert_eq!(world.condition("Ready"), "False PodCompleted");
}

#[test]
fn l723_initialized() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(2.0, 0)]);
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.run_until(1.0);
    assert_eq!(
        world.condition("Initialized"),
        "False ContainersNotInitialized containers with incomplete status: [i s]"
    );
    world.run_until(3.0);
    assert_eq!(world.condition("Initialized"), "True");
    world.run_until(20.0);
    assert_eq!(world.condition("Initialized"), "True PodCompleted");

    // Without init containers from the first status on.
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.carry_out();
    assert_eq!(world.condition("Initialized"), "True");
}

#[test]
fn l723_the_pod_is_completed_while_the_phase_is_still_running() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.run_until(20.0);
    let told: Vec<String> = world
        .written
        .iter()
        .filter(|(time, _)| time.as_secs() == 5)
        .map(|(_, status)| {
            let initialized = status.conditions.iter().flatten().find(|condition| condition.type_ == "Initialized");
            let reason = initialized.and_then(|condition| condition.reason.clone()).unwrap_or_default();
            format!("{} {reason}", status.phase.clone().unwrap_or_default())
        })
        .collect();
    assert_eq!(told, ["Running PodCompleted", "Succeeded PodCompleted"]);
}

#[test]
fn l724_readiness_gates() {
    let mut world = World::with(json!({
        "readinessGates": [{"conditionType": "example.org/one"}, {"conditionType": "example.org/two"}],
        "containers": [{"name": "a"}],
    }));
    world.run_until(1.0);
    assert_eq!(
        world.condition("Ready"),
        "False ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.org/one\" does not exist., \
         corresponding condition of pod readiness gate \"example.org/two\" does not exist."
    );
    let gate = |type_: &str, status: &str| PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        ..PodCondition::default()
    };
    for (two, expected) in [
        (
            "Unknown",
            "False ReadinessGatesNotReady the status of pod readiness gate \"example.org/two\" is not \"True\", but Unknown",
        ),
        ("True", "True"),
    ] {
        let gates = [gate("example.org/one", "True"), gate("example.org/two", two)];
        world.update("p", |pod| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|condition| !condition.type_.starts_with("example"));
            conditions.extend(gates);
        });
        world.run_until(2.0);
        assert_eq!(world.condition("Ready"), expected);
    }
    assert_eq!(world.condition("ContainersReady"), "True");
}

#[test]
fn l725_transition_times_move_with_the_status_only_and_times_are_whole_seconds() {
    let mut world = World::unsynced(NodeConfig::new("node"));
    world.now += std::time::Duration::from_millis(700);
    world.tell(Input::Synced);
    world.create("p", json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.behave("a", &[Behavior::exits(5.0, 1), Behavior::exits(1.0, 1), Behavior::runs()]);
    world.run_until(30.0);
    let seconds = |type_: &str| -> Vec<i64> {
        let times = world.written.iter().filter_map(|(_, status)| {
            let condition = status.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)?;
            let time = condition.last_transition_time.as_ref()?.0;
            assert_eq!(time.subsec_nanosecond(), 0);
            Some(time.as_second() - crate::world::EPOCH)
        });
        let mut times: Vec<i64> = times.collect();
        times.dedup();
        times
    };
    assert_eq!(seconds("PodScheduled"), [0]);
    // Ready at 0.7, not at 5.7, again at 5.7, not at 6.7, again at 16.7.
    assert_eq!(seconds("Ready"), [0, 5, 6, 16]);
    let started = container(&world, "b").state.and_then(|state| state.running?.started_at);
    assert_eq!(started.map(|time| time.0.as_second() - crate::world::EPOCH), Some(0));
}

#[test]
fn l726_the_observed_generation_is_the_objects() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(4.0);
    assert_eq!(world.stored().observed_generation, Some(1));
    world.behave("a", &[Behavior::stubborn()]);
    world.run_until(6.0);
    let status = world.stored();
    assert_eq!(status.observed_generation, Some(2));
    assert!(status.conditions.iter().flatten().all(|condition| condition.observed_generation == Some(2)));
}

#[test]
fn l727_addresses_of_the_node_and_of_the_pod() {
    let mut world = on_node(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(5.0, 0)]);
    world.carry_out();
    let hosts: Vec<String> = world.stored().host_ips.into_iter().flatten().map(|host| host.ip).collect();
    assert_eq!(hosts, Vec::<String>::new());
    world.run_until(1.0);
    let status = world.stored();
    assert_eq!(status.host_ip.as_deref(), Some("192.168.1.5"));
    let hosts: Vec<String> = status.host_ips.into_iter().flatten().map(|host| host.ip).collect();
    assert_eq!(hosts, ["192.168.1.5", "fd00::5"]);
    assert_eq!(status.pod_ip.as_deref(), Some("10.0.0.7"));
    // The address stays when the sandbox is gone.
    world.run_until(20.0);
    assert_eq!(world.stored().pod_ip.as_deref(), Some("10.0.0.7"));

    let mut world = on_node(json!({"hostNetwork": true, "containers": [{"name": "a"}]}));
    world.run_until(1.0);
    let ips: Vec<String> = world.stored().pod_ips.into_iter().flatten().map(|ip| ip.ip).collect();
    assert_eq!(ips, ["192.168.1.5", "fd00::5"]);
}

#[test]
fn l728_what_is_not_the_nodes_is_kept() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.update("p", |pod| pod.status.get_or_insert_default().nominated_node_name = Some("other".to_owned()));
    world.run_until(1.0);
    let status = world.stored();
    assert_eq!(
        (status.nominated_node_name.as_deref(), status.qos_class.as_deref()),
        (Some("other"), Some("BestEffort"))
    );
}

#[test]
fn l730_init_statuses_in_spec_order_and_the_others_by_name() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "z"}, {"name": "b"}],
        "containers": [{"name": "y"}, {"name": "a"}],
        "ephemeralContainers": [{"name": "x"}, {"name": "c"}],
    }));
    world.run_until(1.0);
    let status = world.stored();
    let names = |list: Option<Vec<ContainerStatus>>| -> Vec<String> {
        list.into_iter().flatten().map(|status| status.name).collect()
    };
    assert_eq!(names(status.init_container_statuses), ["z", "b"]);
    assert_eq!(names(status.container_statuses), ["a", "y"]);
    assert_eq!(names(status.ephemeral_container_statuses), ["c", "x"]);
}

#[test]
fn l731_the_last_state_is_carried_over_when_its_record_is_gone() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(1.0, 3), Behavior::runs()]);
    world.run_until(5.0);
    world.forget_record("p", "a-0");
    world.run_until(6.0);
    assert_eq!(crate::world::look::state(container(&world, "a").last_state.as_ref()), "Error/3");
    assert_eq!(container(&world, "a").restart_count, 1);
}

#[test]
fn l732_a_running_container_of_which_nothing_is_known_any_more_counts_as_killed() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}));
    world.run_until(1.0);
    let record = world.runtime.get_mut(&PodUid("p".to_owned())).and_then(|runtime| runtime.containers.first_mut());
    record.expect("a record").state = RuntimeState::Unknown;
    world.observe(&PodUid("p".to_owned()));
    assert_eq!(
        world.engine.status(&PodUid("p".to_owned())).map(crate::world::look::line).as_deref(),
        Some("Running a=ContainerStatusUnknown/137#1 b=running+started+ready")
    );
}

#[test]
fn l733_a_running_container_that_vanishes_is_told_as_lost() {
    let mut world = World::with(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    world.run_until(1.0);
    world.forget_record("p", "a-0");
    let status = world.engine.status(&PodUid("p".to_owned())).cloned().unwrap_or_default();
    assert_eq!(crate::world::look::line(&status), "Running a=ContainerCreating#1 b=running+started+ready");
    let last = status.container_statuses.and_then(|list| list.first()?.last_state.clone()?.terminated);
    let last = last.map(|last| (last.reason.unwrap_or_default(), last.exit_code, last.message.unwrap_or_default()));
    let message = "The container could not be located when the pod was deleted.  The container used to be Running";
    assert_eq!(last, Some(("ContainerStatusUnknown".to_owned(), 137, message.to_owned())));
    world.run_until(5.0);
    assert_eq!(world.newest(), "Running a=running+started+ready#1 b=running+started+ready");
}

#[test]
fn l733_what_waits_waits_for_the_pod_if_there_are_init_containers() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}], "containers": [{"name": "a"}], "ephemeralContainers": [{"name": "e"}],
    }));
    world.latency = std::time::Duration::from_secs(1);
    world.carry_out();
    assert_eq!(world.newest(), "Pending i=PodInitializing a=PodInitializing e=PodInitializing");
    let status = world.written[0].1.container_statuses.as_ref().and_then(|list| list.first()).cloned();
    let status = status.unwrap_or_default();
    assert_eq!(
        (status.image.as_str(), status.image_id.as_str(), status.container_id, status.ready, status.started),
        ("busybox:1.36", "", None, false, Some(false))
    );
}

#[test]
fn l734_an_init_container_or_sidecar_that_exited_0_keeps_its_end_where_others_show_the_wait() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Running s=Completed/0#1 a=CrashLoopBackOff#1");
}

#[test]
fn l734_reasons_of_starts_that_fail() {
    let cases = [
        ("inspect", "", "disk", "ImageInspectError", "Failed to inspect image \"busybox:1.36\": disk"),
        (
            "inspect",
            "InvalidImageName",
            "bad",
            "InvalidImageName",
            "Failed to apply default image tag \"busybox:1.36\": couldn't parse image name \"busybox:1.36\": bad",
        ),
        ("create", "", "no space", "CreateContainerError", "no space"),
        (
            "create",
            "CreateContainerConfigError",
            "secret \"s\" not found",
            "CreateContainerConfigError",
            "secret \"s\" not found",
        ),
        ("start", "StartError", "exec: not found in a-0", "RunContainerError", "exec: not found in a"),
    ];
    for (effect, reason, error, shown, message) in cases {
        let mut world = World::new();
        world.faults.insert(effect.to_owned(), vec![(reason.to_owned(), error.to_owned())]);
        world.create("p", json!({"containers": [{"name": "a"}]}));
        world.run_until(1.0);
        let waiting = container(&world, "a").state.and_then(|state| state.waiting).unwrap_or_default();
        assert_eq!(waiting.reason.as_deref(), Some(shown));
        assert_eq!(waiting.message.as_deref(), Some(message));
    }
}

#[test]
fn l735_l736_ended_containers_and_their_ids() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}, {"name": "b"}]}));
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.behave("b", &[Behavior::exits(2.0, 139)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Failed a=Completed/0 b=Error/139");
    let status = container(&world, "a");
    assert_eq!(status.container_id.as_deref(), Some("monopod://a-0"));
    assert_eq!(status.image_id, "busybox:1.36@sha256:0");
    let terminated = status.state.and_then(|state| state.terminated).unwrap_or_default();
    assert_eq!((terminated.container_id.as_deref(), terminated.signal), (Some("monopod://a-0"), None));
}

#[test]
fn l738_mounts_from_the_spec_and_resources_once_there_is_a_record() {
    let mut world = World::with(json!({
        "containers": [{"name": "a",
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [
                {"name": "v", "mountPath": "/v"},
                {"name": "w", "mountPath": "/w", "readOnly": true},
                {"name": "x", "mountPath": "/x", "readOnly": true, "recursiveReadOnly": "Enabled"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}, {"name": "x", "emptyDir": {}}],
    }));
    world.carry_out();
    let first =
        world.written[0].1.container_statuses.as_ref().and_then(|list| list.first()).cloned().unwrap_or_default();
    assert_eq!((first.resources, first.allocated_resources), (None, None));
    world.run_until(1.0);
    let status = container(&world, "a");
    let mounts: Vec<String> = status
        .volume_mounts
        .into_iter()
        .flatten()
        .map(|mount| format!("{} {:?} {:?}", mount.name, mount.read_only, mount.recursive_read_only))
        .collect();
    assert_eq!(mounts, ["v None None", "w Some(true) Some(\"Disabled\")", "x Some(true) Some(\"Enabled\")"]);
    let requests = status.allocated_resources.and_then(|list| list.get("cpu").map(|quantity| quantity.0.clone()));
    assert_eq!(requests.as_deref(), Some("100m"));
    assert!(status.resources.and_then(|resources| resources.limits).is_some());
}

#[test]
fn l739_during_init_all_that_come_later_wait_with_count_0() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 1)]);
    world.run_until(5.0);
    assert_eq!(world.newest(), "Pending i=CrashLoopBackOff#1 j=PodInitializing a=PodInitializing");
}

#[test]
fn l740_messages_share_the_pods_budget() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    let mut long = Behavior::exits(1.0, 1);
    long.message = "x".repeat(10_000);
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.behave("a", &[long]);
    world.run_until(5.0);
    let message = container(&world, "a").state.and_then(|state| state.terminated?.message).unwrap_or_default();
    assert_eq!(message.len(), 12_288 / 3);
}

#[test]
fn l741_a_refused_status_is_written_again_later() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    world.faults.insert("status".to_owned(), vec![(String::new(), "no".to_owned())]);
    world.exit(&PodUid("p".to_owned()), &lifecycle::ContainerId("a-0".to_owned()), 1);
    world.run_until(20.0);
    assert_eq!(world.story()[3..], ["11 Running a=Error/1", "11 Running a=running+started+ready#1"]);
}

#[test]
fn l741_every_state_is_written_even_if_the_store_is_slow() {
    let mut world = World::with(json!({"restartPolicy": "Never", "containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::exits(0.1, 0)]);
    world.run_until(0.0);
    world.latency = std::time::Duration::from_secs(2);
    world.run_until(60.0);
    let states: Vec<String> = world.written.iter().map(|(_, status)| crate::world::look::line(status)).collect();
    assert_eq!(
        states,
        [
            "Pending a=ContainerCreating",
            "Pending a=ContainerCreating",
            "Running a=running+started+ready",
            "Running a=Completed/0",
            "Succeeded a=Completed/0",
        ]
    );
}

#[test]
fn l741_what_somebody_writes_over_ours_is_written_again_once() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    let before = world.written.len();
    world.update("p", |pod| {
        for condition in pod.status.get_or_insert_default().conditions.iter_mut().flatten() {
            condition.status = "False".to_owned();
        }
    });
    world.run_until(60.0);
    let times: Vec<u64> = world.written[before..].iter().map(|(time, _)| time.as_secs()).collect();
    assert_eq!(times, [15]);
    let status = world.stored();
    assert!(status.conditions.iter().flatten().all(|condition| condition.status == "True"));
}
