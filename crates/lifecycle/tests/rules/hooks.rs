//! Section 5: lifecycle hooks.

use lifecycle::NodeConfig;
use lifecycle::effect::Signal;
use serde_json::json;

use crate::world::{Behavior, World};

fn hooked(hook: &str, handler: serde_json::Value) -> serde_json::Value {
    let mut lifecycle = json!({});
    lifecycle[hook] = handler;
    json!({"terminationGracePeriodSeconds": 10, "containers": [{"name": "a", "lifecycle": lifecycle}]})
}

#[test]
fn l501_plain_init_containers_have_no_hooks() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i", "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}],
        "containers": [{"name": "a"}],
    }));
    world.run_until(1.0);
    assert_eq!(world.effects_of(&["hook"]), Vec::<String>::new());
}

#[test]
fn l502_post_start_has_no_time_limit_and_holds_back_what_comes_next() {
    let mut spec = hooked("postStart", json!({"httpGet": {"port": 80}}));
    spec["containers"].as_array_mut().expect("a list").push(json!({"name": "b"}));
    let mut world = World::with(spec);
    world.behave("a", &[Behavior::runs().post_start(1000.0, None)]);
    world.run_until(2000.0);
    assert_eq!(world.trace_of(&["start", "postStart"]), ["0 start a", "0 postStart a", "1000 start b"]);
}

#[test]
fn l503_pre_stop_runs_before_the_signal_and_its_time_is_deducted_in_whole_seconds() {
    let mut world = World::with(hooked("preStop", json!({"exec": {"command": ["x"]}})));
    world.behave("a", &[Behavior::stubborn().pre_stop(3.7, None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    // 10 - 3 = 7 seconds are left at 8.7.
    assert_eq!(world.trace_of(&["preStop", "signal", "kill"]), ["5 preStop a", "8.7 signal a", "15.7 kill a"]);
}

#[test]
fn l503_pre_stop_is_abandoned_when_the_grace_is_over() {
    let mut world = World::with(hooked("preStop", json!({"exec": {"command": ["x"]}})));
    world.behave("a", &[Behavior::stubborn().pre_stop(1000.0, None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["preStop", "signal", "kill"]), ["5 preStop a", "15 signal a", "17 kill a"]);
    assert_eq!(world.effects_of(&["cancel"]), ["15 cancel"]);
}

#[test]
fn l503_pre_stop_does_not_run_for_a_container_that_exits_by_itself_nor_without_grace() {
    let mut world = World::with(hooked("preStop", json!({"exec": {"command": ["x"]}})));
    world.behave("a", &[Behavior::exits(3.0, 0), Behavior::runs()]);
    world.run_until(5.0);
    assert_eq!(world.trace_of(&["preStop"]), Vec::<String>::new());

    // Grace 0 of a sidecar that is stopped at natural completion.
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "initContainers": [{"name": "s", "restartPolicy": "Always", "lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}],
        "containers": [{"name": "a"}],
    }));
    world.behave("s", &[Behavior::stubborn()]);
    world.behave("a", &[Behavior::exits(1.0, 0)]);
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["preStop", "signal", "kill"]), ["1 signal s", "3 kill s"]);
}

#[test]
fn l503_a_failed_pre_stop_is_told_and_termination_goes_on() {
    let mut world = World::with(hooked("preStop", json!({"exec": {"command": ["x"]}})));
    world.behave("a", &[Behavior::runs().pre_stop(1.0, Some("exit 1"))]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.told_of(&["FailedPreStopHook"]), ["6 a Warning FailedPreStopHook PreStopHook failed"]);
    assert_eq!(world.trace_of(&["signal", "exit"]), ["6 signal a", "6 exit a 0"]);
}

#[test]
fn l504_the_words_of_a_failed_post_start() {
    let cases = [
        (
            json!({"exec": {"command": ["sh", "-c", "x"]}}),
            "Exec lifecycle hook ([sh -c x]) for Container \"a\" in Pod \"p_default(p)\" failed - error: E",
        ),
        (
            json!({"httpGet": {"path": "/up", "port": 80}}),
            "HTTP lifecycle hook (/up) for Container \"a\" in Pod \"p_default(p)\" failed - error: E",
        ),
        (json!({"tcpSocket": {"port": 80}}), "Cannot run handler: invalid handler: E"),
    ];
    for (handler, message) in cases {
        let mut world = World::with(hooked("postStart", handler));
        world.behave("a", &[Behavior::runs().post_start(1.0, Some("E"))]);
        world.run_until(1.5);
        let told = world.written.iter().rev().find_map(|(_, status)| {
            status.container_statuses.as_ref()?.first()?.state.as_ref()?.waiting.as_ref()?.message.clone()
        });
        assert_eq!(told.as_deref(), Some(message));
    }
}

#[test]
fn l506_sleep_before_stop_is_timed_by_the_core() {
    let mut world = World::with(hooked("preStop", json!({"sleep": {"seconds": 4}})));
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.effects_of(&["hook"]), Vec::<String>::new());
    assert_eq!(world.trace_of(&["signal"]), ["9 signal a"]);
}

#[test]
fn l506_sleep_is_bounded_by_the_grace() {
    let mut world = World::with(hooked("preStop", json!({"sleep": {"seconds": 10}})));
    world.at(5.0, |world| world.delete("p", Some(3)));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["signal"]), ["8 signal a"]);
}

#[test]
fn l506_better_sleep_ends_when_the_container_has_exited_or_the_grace_is_shortened() {
    let mut world = World::with(hooked("preStop", json!({"sleep": {"seconds": 10}})));
    world.behave("a", &[Behavior::exits(7.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.effects_of(&["delete"]), ["7 delete"]);

    let mut world = World::with(hooked("preStop", json!({"sleep": {"seconds": 10}})));
    world.at(5.0, |world| world.delete("p", None));
    world.at(7.0, |world| world.delete("p", Some(1)));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["signal"]), ["8 signal a"]);
}

#[test]
fn l506_sleep_of_zero_and_sleep_after_start() {
    let mut world = World::with(hooked("preStop", json!({"sleep": {"seconds": 0}})));
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["signal"]), ["5 signal a"]);

    let mut spec = hooked("postStart", json!({"sleep": {"seconds": 3}}));
    spec["containers"].as_array_mut().expect("a list").push(json!({"name": "b"}));
    let mut world = World::with(spec);
    world.run_until(10.0);
    assert_eq!(world.trace_of(&["start"]), ["0 start a", "3 start b"]);
}

#[test]
fn l507_a_stop_signal_counts_only_where_the_node_honours_it() {
    for (honours, expected) in [(false, None), (true, Some("SIGUSR1".to_owned()))] {
        let config = NodeConfig { stop_signals: honours, ..NodeConfig::new("node") };
        let mut world = World::unsynced(config);
        world.tell(lifecycle::Input::Synced);
        world.create("p", json!({"containers": [{"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"}}]}));
        world.run_until(1.0);
        world.delete("p", Some(5));
        world.run_until(10.0);
        let signals: Vec<Option<String>> = world
            .sent
            .iter()
            .filter_map(|(_, effect)| match &effect.action {
                lifecycle::Action::SignalContainer { signal: Signal::Stop { named, .. }, .. } => Some(named.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(signals, [expected]);
    }
}

#[test]
fn l508_a_pre_stop_already_begun_is_repeated_after_an_agent_restart() {
    let mut world = World::with(hooked("preStop", json!({"exec": {"command": ["x"]}})));
    world.behave("a", &[Behavior::runs().pre_stop(4.0, None)]);
    world.at(5.0, |world| world.delete("p", None));
    world.at(7.0, World::restart_agent);
    world.run_until(60.0);
    assert_eq!(world.trace_of(&["preStop", "signal"]), ["5 preStop a", "7 preStop a", "11 signal a"]);
}
