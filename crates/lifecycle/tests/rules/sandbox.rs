//! Section 2: sandboxes, and what a lost one means.

use std::time::Duration;

use lifecycle::{PodUid, RuntimeState};
use serde_json::json;

use crate::world::{Behavior, World};

fn uid() -> PodUid {
    PodUid("p".to_owned())
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
