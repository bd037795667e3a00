//! Pod garbage collection.

use controllers::{Config, ControllerName};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::world::{World, phase, uid};

fn world() -> World {
    World::with(Config::only(&[ControllerName::PodCollector]))
}

fn pod(finalizer: bool, node: Option<&str>) -> Pod {
    let finalizers: &[&str] = if finalizer { &["x/y"] } else { &[] };
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "n", "finalizers": finalizers},
        "spec": {"containers": [{"name": "main"}], "nodeName": node},
    }))
    .unwrap()
}

#[test]
fn an_unbound_pod_that_is_deleted_fails_so_that_its_owner_can_count_it() {
    let mut world = world();
    world.store.create(pod(true, None).into(), world.now).unwrap();
    world.settle();
    let pod = world.pods()[0].clone();
    assert_eq!(phase(&pod), "Pending");
    let background = controllers::Propagation::Background;
    world.store.delete(uid(&pod), background, None, world.now);
    world.settle();
    assert_eq!(phase(&world.pods()[0]), "Failed");
}

#[test]
fn pods_of_a_node_that_is_gone_fail_and_go_after_forty_seconds() {
    let mut world = world();
    let node: Node = serde_json::from_value(serde_json::json!({"metadata": {"name": "n1"}})).unwrap();
    let node = world.store.create(node.into(), world.now).unwrap().uid().to_owned();
    world.store.create(pod(true, Some("n1")).into(), world.now).unwrap();
    world.advance(100);
    world.store.remove(&node);
    world.advance(39);
    assert_eq!(phase(&world.pods()[0]), "Pending");
    world.advance(1);
    let pod = world.pods()[0].clone();
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(0));
    let condition = &pod.status.unwrap().conditions.unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_deref(), condition.message.as_deref()),
        ("DisruptionTarget", Some("DeletionByPodGC"), Some("PodGC: node no longer exists"))
    );
}

#[test]
fn a_node_that_comes_back_in_time_keeps_its_pods() {
    let mut world = world();
    world.store.create(pod(false, Some("n1")).into(), world.now).unwrap();
    world.advance(30);
    let node: Node = serde_json::from_value(serde_json::json!({"metadata": {"name": "n1"}})).unwrap();
    world.store.create(node.into(), world.now).unwrap();
    world.advance(100);
    assert_eq!(phase(&world.pods()[0]), "Pending");
}

#[test]
fn only_so_many_ended_pods_are_kept() {
    let mut config = Config::only(&[ControllerName::PodCollector]);
    assert_eq!(config.ended_pods_max, 12_500);
    config.ended_pods_max = 5;
    let mut world = World::with(config);
    for number in 0..8 {
        let mut pod = pod(false, Some("n1"));
        pod.metadata.name = Some(format!("p{number}"));
        let uid = world.store.create(pod.into(), world.now).unwrap().uid().to_owned();
        world.store.change_pod(&uid, |pod| pod.status.as_mut().unwrap().phase = Some("Failed".into()));
    }
    world.advance(30);
    let pods = world.pods();
    assert_eq!(pods.len(), 5);
    assert_eq!(pods[0].metadata.name.as_deref(), Some("p3"));
}
