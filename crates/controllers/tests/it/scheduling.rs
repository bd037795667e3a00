//! The scheduler: bindings, and the words for pods that fit nowhere.

use controllers::{Config, ControllerName, Object};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::world::World;

fn world(node: Option<serde_json::Value>) -> World {
    let mut world = World::with(Config::only(&[ControllerName::Scheduler]));
    if let Some(mut node) = node {
        node["metadata"] = serde_json::json!({"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}});
        let node: Node = serde_json::from_value(node).unwrap();
        world.store.create(node.into(), world.now).unwrap();
    }
    world
}

fn create(world: &mut World, name: &str, mut spec: serde_json::Value) -> String {
    if spec.get("containers").is_none() {
        spec["containers"] = serde_json::json!([{"name": "main"}]);
    }
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "namespace": "ns"}, "spec": spec,
    }))
    .unwrap();
    let uid = world.store.create(pod.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    uid
}

fn pod(world: &World, uid: &str) -> Pod {
    match &world.store.objects[uid] {
        Object::Pod(pod) => pod.as_ref().clone(),
        other => panic!("{other:?}"),
    }
}

fn node_of(world: &World, uid: &str) -> Option<String> {
    pod(world, uid).spec.unwrap().node_name
}

fn scheduled(world: &World, uid: &str) -> Option<(String, String)> {
    let conditions = pod(world, uid).status.unwrap().conditions.unwrap_or_default();
    let one = conditions.into_iter().find(|one| one.type_ == "PodScheduled")?;
    Some((one.reason.unwrap(), one.message.unwrap()))
}

#[test]
fn l1004_a_pod_that_fits_is_bound_and_said_to_be() {
    let mut world = world(Some(serde_json::json!({})));
    let uid = create(&mut world, "p", serde_json::json!({}));
    assert_eq!(node_of(&world, &uid).as_deref(), Some("n1"));
    assert_eq!(world.events(), ["Normal Scheduled Successfully assigned ns/p to n1"]);
}

#[test]
fn a_pod_waits_for_a_node_and_is_bound_when_it_comes() {
    let mut world = world(None);
    let uid = create(&mut world, "p", serde_json::json!({}));
    let message = "no nodes available to schedule pods";
    assert_eq!(scheduled(&world, &uid), Some(("Unschedulable".into(), message.into())));
    let node = Node {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("n1".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    world.store.create(node.into(), world.now).unwrap();
    world.settle();
    assert_eq!(node_of(&world, &uid).as_deref(), Some("n1"));
    assert_eq!(
        world.events(),
        [
            "Warning FailedScheduling no nodes available to schedule pods",
            "Normal Scheduled Successfully assigned ns/p to n1"
        ]
    );
}

#[test]
fn a_pod_for_no_node_is_told_why_once() {
    for (node, spec, message) in [
        (
            serde_json::json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            serde_json::json!({}),
            "0/1 nodes are available: 1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
        (
            serde_json::json!({"spec": {"unschedulable": true}}),
            serde_json::json!({}),
            "0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
        (
            serde_json::json!({}),
            serde_json::json!({"nodeSelector": {"disk": "ssd"}}),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
    ] {
        let mut world = world(Some(node));
        let uid = create(&mut world, "p", spec);
        assert_eq!(scheduled(&world, &uid), Some(("Unschedulable".into(), message.to_owned())));
        create(&mut world, "q", serde_json::json!({"schedulingGates": [{"name": "g"}]}));
        assert_eq!(world.events(), [format!("Warning FailedScheduling {message}")]);
    }
}

#[test]
fn a_gated_pod_waits_until_its_gates_are_gone() {
    let mut world = world(Some(serde_json::json!({})));
    let uid = create(&mut world, "p", serde_json::json!({"schedulingGates": [{"name": "g"}]}));
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    assert_eq!(scheduled(&world, &uid), Some(("SchedulingGated".into(), message.into())));
    assert!(world.events().is_empty());
    world.store.change_pod(&uid, |pod| pod.spec.as_mut().unwrap().scheduling_gates = None);
    world.settle();
    assert_eq!(node_of(&world, &uid).as_deref(), Some("n1"));
}

#[test]
fn a_pod_of_another_scheduler_is_left_alone() {
    let mut world = world(Some(serde_json::json!({})));
    let uid = create(&mut world, "p", serde_json::json!({"schedulerName": "mine"}));
    assert_eq!(node_of(&world, &uid), None);
    assert_eq!(scheduled(&world, &uid), None);
}

#[test]
fn a_host_port_is_given_to_one_pod_at_a_time() {
    let mut world = world(Some(serde_json::json!({})));
    let spec = serde_json::json!({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let first = create(&mut world, "p", spec.clone());
    let second = create(&mut world, "q", spec);
    assert_eq!(node_of(&world, &first).as_deref(), Some("n1"));
    let message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(scheduled(&world, &second), Some(("Unschedulable".into(), message.into())));
    world.store.remove(&first);
    world.settle();
    assert_eq!(node_of(&world, &second).as_deref(), Some("n1"));
}
