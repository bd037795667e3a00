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
