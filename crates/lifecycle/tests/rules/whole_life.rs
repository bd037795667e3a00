//! A pod's whole life, seen from outside.

use serde_json::json;

use crate::world::{Behavior, World};

#[test]
fn a_pod_goes_through_init_sidecar_and_app_to_its_end() {
    let mut world = World::with(json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "init"}, {"name": "side", "restartPolicy": "Always"}],
        "containers": [{"name": "app"}],
    }));
    world.behave("init", &[Behavior::exits(1.0, 0)]);
    world.behave("app", &[Behavior::exits(5.0, 0)]);
    world.run_until(60.0);
    assert_eq!(
        world.trace_of(&["start", "exit", "signal", "kill"]),
        [
            "0 start init",
            "1 exit init 0",
            "1 start side",
            "1 start app",
            "6 exit app 0",
            "6 signal side",
            "6 exit side 0",
        ]
    );
    assert_eq!(
        world.story(),
        [
            "0 Pending init=PodInitializing side=PodInitializing app=PodInitializing",
            "0 Pending init=PodInitializing side=PodInitializing app=PodInitializing",
            "0 Pending init=running+started side=PodInitializing app=PodInitializing",
            "1 Pending init=Completed/0+ready side=PodInitializing app=PodInitializing",
            "1 Pending init=Completed/0+ready side=running+started+ready app=PodInitializing",
            "1 Running init=Completed/0+ready side=running+started+ready app=running+started+ready",
            "6 Running init=Completed/0+ready side=running+started+ready app=Completed/0",
            "6 Running init=Completed/0+ready side=Completed/0 app=Completed/0",
            "6 Succeeded init=Completed/0+ready side=Completed/0 app=Completed/0",
        ]
    );
}

#[test]
fn a_deleted_pod_stops_in_order_and_is_removed() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "containers": [{"name": "app"}],
    }));
    world.behave("app", &[Behavior::runs().stops(3.0, 0)]);
    world.at(10.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        world.trace_of(&["start", "exit", "signal", "kill"]),
        ["0 start side", "0 start app", "10 signal app", "13 exit app 0", "13 signal side", "13 exit side 0"]
    );
    assert_eq!(
        world.effects_of(&["tear-down", "stop-sandbox", "remove-sandbox", "remove", "delete"]),
        ["13 stop-sandbox", "13 tear-down", "13 delete", "13 remove", "13 remove", "13 remove-sandbox"]
    );
    assert!(world.objects.is_empty());
    assert_eq!(world.engine.pods().count(), 0);
    assert_eq!(world.engine.poll_timeout(), None);
}
