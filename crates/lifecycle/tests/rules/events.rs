//! Section 10: events.

use std::time::Duration;

use lifecycle::{Action, Input};
use serde_json::json;

use crate::world::{Behavior, World};

#[test]
fn l1001_events_of_containers_carry_their_place() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
        "ephemeralContainers": [{"name": "e"}],
    }));
    world.run_until(1.0);
    let mut places: Vec<String> = world.events.iter().map(|(_, event)| event.field_path.clone()).collect();
    places.dedup();
    assert_eq!(places, ["spec.ephemeralContainers{e}", "spec.initContainers{s}", "spec.containers{a}"]);
}

#[test]
fn l1001_a_container_id_in_an_error_is_replaced_by_the_name() {
    let mut world = World::new();
    world.faults.insert("start".to_owned(), vec![(String::new(), "cannot start container a-0: no".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(1.0);
    assert_eq!(world.told_of(&["Failed"]), ["0 a Warning Failed Error: cannot start container a: no"]);
}

#[test]
fn l1005_l1007_l1014_l1015_a_fresh_pod_whose_image_is_pulled() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.images.pull_time = Duration::from_millis(1532);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(
        world.told(),
        [
            "0 a Normal Pulling Pulling image \"busybox:1.36\"",
            "1.532 a Normal Pulled Successfully pulled image \"busybox:1.36\" in 1.532s (1.532s including waiting). Image size: 4000000 bytes.",
            "1.532 a Normal Created Container created",
            "1.532 a Normal Started Container started",
        ]
    );
}

#[test]
fn l1006_an_image_that_is_there() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(
        world.told()[0],
        "0 a Normal Pulled Container image \"busybox:1.36\" already present on machine and can be accessed by the pod"
    );
}

#[test]
fn l1008_l1009_l1010_a_pull_that_fails() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.faults.insert("pull".to_owned(), vec![(String::new(), "no such host".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(
        world.told(),
        [
            "0 a Normal Pulling Pulling image \"busybox:1.36\"",
            "0 a Warning Failed Failed to pull image \"busybox:1.36\": no such host",
            "0 a Warning Failed Error: ErrImagePull",
            "0 a Normal BackOff Back-off pulling image \"busybox:1.36\"",
            "0 a Warning Failed Error: ImagePullBackOff",
        ]
    );
}

#[test]
fn l1012_an_image_store_that_fails() {
    let mut world = World::new();
    world.faults.insert("inspect".to_owned(), vec![(String::new(), "disk".to_owned())]);
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    assert_eq!(
        world.told(),
        [
            "0 a Warning InspectFailed Failed to inspect image \"busybox:1.36\": disk",
            "0 a Warning Failed Error: ImageInspectError",
        ]
    );
}

#[test]
fn l1013_an_image_that_must_not_be_pulled() {
    let mut world = World::new();
    world.images.missing.insert("busybox:1.36".to_owned());
    world.create("p", json!({"containers": [{"name": "a", "imagePullPolicy": "Never"}]}));
    world.run_until(5.0);
    assert_eq!(
        world.told(),
        [
            "0 a Warning ErrImageNeverPull Container image \"busybox:1.36\" is not present with pull policy of Never",
            "0 a Warning Failed Error: ErrImageNeverPull",
        ]
    );
}

#[test]
fn l1016_one_killing_for_each_running_container_all_at_once() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}, {"name": "b"}],
    }));
    world.behave("b", &[Behavior::runs().stops(9.0, 0)]);
    world.at(5.0, |world| world.delete("p", None));
    world.run_until(60.0);
    assert_eq!(
        world.told_of(&["Killing"]),
        [
            "5 s Normal Killing Stopping container s",
            "5 a Normal Killing Stopping container a",
            "5 b Normal Killing Stopping container b",
        ]
    );
}

#[test]
fn l1023_an_unready_network_is_told_once_for_each_time_it_fails() {
    let mut world = World::new();
    world.tell(Input::NetworkReady(Err("x".to_owned())));
    world.create("p", json!({"containers": [{"name": "a"}]}));
    world.run_until(5.0);
    world.tell(Input::NetworkReady(Ok(())));
    world.tell(Input::NetworkReady(Err("y".to_owned())));
    world.run_until(6.0);
    assert_eq!(
        world.told_of(&["NetworkNotReady"]),
        ["0 Warning NetworkNotReady network is not ready: x", "5 Warning NetworkNotReady network is not ready: y"]
    );
}

#[test]
fn l1039_the_order_of_a_fresh_pod() {
    let mut world = World::with(json!({
        "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "a"}],
    }));
    world.behave("i", &[Behavior::exits(1.0, 0)]);
    world.run_until(5.0);
    let order: Vec<String> = world.events.iter().map(|(_, event)| event.reason.clone()).collect();
    assert_eq!(order, ["Pulled", "Created", "Started"].repeat(3));
}

#[test]
fn nothing_is_told_or_written_of_an_object_that_is_gone() {
    let mut world = World::with(json!({"containers": [{"name": "a"}]}));
    world.behave("a", &[Behavior::stubborn()]);
    world.run_until(1.0);
    world.delete("p", Some(0));
    let before = world.sent.len();
    world.run_until(60.0);
    let told = world.sent[before..].iter().filter(|(_, effect)| {
        matches!(effect.action, Action::WriteStatus(_) | Action::RecordEvent(_) | Action::DeletePodObject(_))
    });
    assert_eq!(told.count(), 0);
}
