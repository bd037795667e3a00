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

/// A node of two CPUs, 1 GiB and four pods.
fn small_world() -> World {
    world(Some(serde_json::json!({"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "4"}}})))
}

fn asking(cpu: &str, priority: i32) -> serde_json::Value {
    serde_json::json!({"priority": priority, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]})
}

const NO_VICTIMS: &str =
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
const NO_HELP: &str =
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";

#[test]
fn a_pod_waits_for_room_and_is_bound_when_another_ends() {
    let mut world = small_world();
    let first = create(&mut world, "p", asking("1500m", 0));
    let second = create(&mut world, "q", asking("600m", 0));
    let third = create(&mut world, "r", asking("400m", 0));
    assert_eq!(node_of(&world, &third).as_deref(), Some("n1"));
    let message = format!("0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}");
    assert_eq!(scheduled(&world, &second), Some(("Unschedulable".into(), message)));
    world.store.change_pod(&first, |pod| pod.status.as_mut().unwrap().phase = Some("Succeeded".into()));
    world.settle();
    assert_eq!(node_of(&world, &second).as_deref(), Some("n1"));
}

#[test]
fn what_the_node_will_never_have_is_told_so() {
    let mut world = small_world();
    let uid = create(
        &mut world,
        "p",
        serde_json::json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": "3", "memory": "2Gi", "example.com/gpu": "1"}}}]}),
    );
    let message = format!(
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory. {NO_HELP}"
    );
    assert_eq!(scheduled(&world, &uid), Some(("Unschedulable".into(), message)));
}

#[test]
fn a_node_takes_so_many_pods_and_no_more() {
    let mut world = small_world();
    for name in ["a", "b", "c", "d"] {
        create(&mut world, name, serde_json::json!({}));
    }
    let uid = create(&mut world, "e", serde_json::json!({}));
    let message = format!("0/1 nodes are available: 1 Too many pods. {NO_VICTIMS}");
    assert_eq!(scheduled(&world, &uid), Some(("Unschedulable".into(), message)));
}

#[test]
fn l801_sidecars_count_beside_the_app_containers() {
    let mut world = small_world();
    let container = |name: &str, cpu: &str| serde_json::json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
    let mut side = container("side", "1");
    side["restartPolicy"] = "Always".into();
    let spec = serde_json::json!({"initContainers": [side], "containers": [container("main", "1500m")]});
    let uid = create(&mut world, "p", spec);
    let message = format!("0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}");
    assert_eq!(scheduled(&world, &uid), Some(("Unschedulable".into(), message)));
}

#[test]
fn an_important_pod_makes_the_least_important_go() {
    let mut world = small_world();
    let low = create(&mut world, "low", asking("1", 1));
    let middle = create(&mut world, "middle", asking("1", 5));
    for uid in [&low, &middle] {
        world.store.change_pod(uid, |pod| pod.status.as_mut().unwrap().phase = Some("Running".into()));
    }
    let high = create(&mut world, "high", asking("1", 10));
    let victim = pod(&world, &low);
    assert!(victim.metadata.deletion_timestamp.is_some());
    let condition = victim.status.unwrap().conditions.unwrap().into_iter().find(|one| one.type_ == "DisruptionTarget");
    assert_eq!(condition.unwrap().reason.as_deref(), Some("PreemptionByScheduler"));
    assert!(pod(&world, &middle).metadata.deletion_timestamp.is_none());
    let waiting = pod(&world, &high).status.unwrap();
    assert_eq!(waiting.nominated_node_name.as_deref(), Some("n1"));
    assert_eq!(scheduled(&world, &high).unwrap().1, "0/1 nodes are available: 1 Insufficient cpu.");
    // The room is kept from others while the victim goes.
    let thief = create(&mut world, "thief", asking("100m", 9));
    world.store.remove(&low);
    world.settle();
    assert_eq!(node_of(&world, &high).as_deref(), Some("n1"));
    assert_eq!(node_of(&world, &thief), None);
    let told = format!("Normal Preempted Preempted by pod {high} on node n1");
    assert!(world.events().contains(&told.as_str()));
}

#[test]
fn the_room_that_is_being_made_is_kept_from_pods_that_would_fit_meanwhile() {
    let mut world = small_world();
    let low = create(&mut world, "low", asking("1", 1));
    // Both come before the scheduler looks: the thief would fit beside the victim.
    let spec = serde_json::json!({"metadata": {"name": "high", "namespace": "ns"}, "spec": asking("1500m", 10)});
    let high: Pod = serde_json::from_value(spec).unwrap();
    let high = world.store.create(high.into(), world.now).unwrap().uid().to_owned();
    let spec = serde_json::json!({"metadata": {"name": "thief", "namespace": "ns"}, "spec": asking("900m", 5)});
    let thief: Pod = serde_json::from_value(spec).unwrap();
    let thief = world.store.create(thief.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    world.store.remove(&low);
    world.settle();
    assert_eq!((node_of(&world, &high).as_deref(), node_of(&world, &thief)), (Some("n1"), None));
}

#[test]
fn a_pod_that_must_not_preempt_waits() {
    let mut world = small_world();
    let low = create(&mut world, "low", asking("2", 1));
    let mut spec = asking("1", 10);
    spec["preemptionPolicy"] = "Never".into();
    let uid = create(&mut world, "high", spec);
    assert!(pod(&world, &low).metadata.deletion_timestamp.is_none());
    let message = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.";
    assert_eq!(scheduled(&world, &uid).unwrap().1, message);
}

#[test]
fn pods_of_high_priority_come_first() {
    let mut world = world(None);
    let low = create(&mut world, "low", asking("1500m", 1));
    let high = create(&mut world, "high", asking("1500m", 10));
    let node: Node = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "4"}},
    }))
    .unwrap();
    world.store.create(node.into(), world.now).unwrap();
    world.settle();
    assert_eq!((node_of(&world, &high).as_deref(), node_of(&world, &low)), (Some("n1"), None));
}

fn near(kind: &str, label: &str) -> serde_json::Value {
    serde_json::json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": label}}}]}}})
}

fn create_labelled(world: &mut World, name: &str, label: &str, mut spec: serde_json::Value) -> String {
    spec["containers"] = serde_json::json!([{"name": "main"}]);
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"app": label}}, "spec": spec,
    }))
    .unwrap();
    let uid = world.store.create(pod.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    uid
}

#[test]
fn pods_keep_near_to_and_far_from_each_other() {
    let mut world = world(Some(serde_json::json!({})));
    let lonely = create_labelled(&mut world, "lonely", "x", near("podAffinity", "friend"));
    let message = format!("0/1 nodes are available: 1 node(s) didn't match pod affinity rules. {NO_HELP}");
    assert_eq!(scheduled(&world, &lonely).unwrap().1, message);
    let first = create_labelled(&mut world, "first", "friend", near("podAffinity", "friend"));
    assert_eq!(node_of(&world, &first).as_deref(), Some("n1"), "the first of its kind needs no other");
    assert_eq!(node_of(&world, &lonely).as_deref(), Some("n1"));
    let hater = create_labelled(&mut world, "hater", "y", near("podAntiAffinity", "friend"));
    let message = format!("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. {NO_VICTIMS}");
    assert_eq!(scheduled(&world, &hater).unwrap().1, message);
    let proud = create_labelled(&mut world, "proud", "z", near("podAntiAffinity", "w"));
    assert_eq!(node_of(&world, &proud).as_deref(), Some("n1"));
    let outcast = create_labelled(&mut world, "outcast", "w", serde_json::json!({}));
    let message =
        format!("0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. {NO_VICTIMS}");
    assert_eq!(scheduled(&world, &outcast).unwrap().1, message);
}

#[test]
fn spread_asks_for_the_label_and_for_enough_domains() {
    let spread = |key: &str, domains: Option<i32>| {
        serde_json::json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": domains, "labelSelector": {"matchLabels": {"app": "s"}}}]})
    };
    let mut world = world(Some(serde_json::json!({})));
    let missing = create_labelled(&mut world, "missing", "s", spread("zone", None));
    let message = format!(
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label). {NO_HELP}"
    );
    assert_eq!(scheduled(&world, &missing).unwrap().1, message);
    for name in ["a", "b"] {
        let uid = create_labelled(&mut world, name, "s", spread("kubernetes.io/hostname", None));
        assert_eq!(node_of(&world, &uid).as_deref(), Some("n1"), "one domain is never uneven");
    }
    let uid = create_labelled(&mut world, "c", "s", spread("kubernetes.io/hostname", Some(2)));
    let message =
        format!("0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints. {NO_VICTIMS}");
    assert_eq!(scheduled(&world, &uid).unwrap().1, message);
}
