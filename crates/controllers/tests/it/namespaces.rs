//! Namespaces: what every one has, and how they go.

use controllers::{Config, ControllerName, Kind, Object, OtherObject, Propagation};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::world::{World, uid};

fn world() -> World {
    let mut config = Config::only(&[ControllerName::Namespace, ControllerName::Provisions]);
    config.ca_bundle = Some("PEM".into());
    World::with(config)
}

fn create_namespace(world: &mut World) -> String {
    let namespace: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}})).unwrap();
    let uid = world.store.create(namespace.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    uid
}

fn pod(finalizer: bool) -> Pod {
    let finalizers: &[&str] = if finalizer { &["x/y"] } else { &[] };
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "p", "namespace": "n", "finalizers": finalizers},
        "spec": {"containers": [{"name": "main"}], "nodeName": "n1"},
    }))
    .unwrap()
}

fn conditions(world: &World, uid: &str) -> Vec<String> {
    let Object::Namespace(namespace) = &world.store.objects[uid] else { panic!("not a namespace") };
    let conditions = namespace.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    conditions
        .into_iter()
        .map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason.unwrap(), one.message.unwrap()))
        .collect()
}

#[test]
fn a195_every_namespace_gets_an_account_and_the_ca() {
    let mut world = world();
    create_namespace(&mut world);
    assert!(world.store.find(&Kind::SERVICE_ACCOUNT, "n", "default").is_some());
    let Some(Object::ConfigMap(config_map)) = world.store.find(&Kind::CONFIG_MAP, "n", "kube-root-ca.crt").cloned()
    else {
        panic!("no ConfigMap");
    };
    assert_eq!(config_map.data.as_ref().unwrap()["ca.crt"], "PEM");
    let described = &config_map.metadata.annotations.as_ref().unwrap()["kubernetes.io/description"];
    assert!(described.starts_with("Contains a CA bundle that can be used to verify the kube-apiserver"));
}

#[test]
fn a195_both_come_back_when_they_are_deleted_or_changed() {
    let mut world = world();
    create_namespace(&mut world);
    let account = world.store.find(&Kind::SERVICE_ACCOUNT, "n", "default").unwrap().uid().to_owned();
    let config_map = world.store.find(&Kind::CONFIG_MAP, "n", "kube-root-ca.crt").unwrap().uid().to_owned();
    world.store.remove(&account);
    world.store.change(&config_map, |object| {
        let Object::ConfigMap(config_map) = object else { panic!("not a ConfigMap") };
        let changed: &mut ConfigMap = std::sync::Arc::make_mut(config_map);
        changed.data = None;
    });
    world.settle();
    assert!(world.store.find(&Kind::SERVICE_ACCOUNT, "n", "default").is_some());
    let Object::ConfigMap(mended) = &world.store.objects[&config_map] else { panic!("not a ConfigMap") };
    assert_eq!(mended.data.as_ref().unwrap()["ca.crt"], "PEM");
}

#[test]
fn a187_a_namespace_is_emptied_pods_first_and_then_goes() {
    let mut world = world();
    let namespace = create_namespace(&mut world);
    world.store.create(pod(false).into(), world.now).unwrap();
    world.settle();
    world.store.delete(&namespace, Propagation::Background, None, world.now);
    world.settle();
    // The pod takes its grace; nothing else is touched until it is gone.
    let pod = world.pods()[0].clone();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
    assert!(world.store.find(&Kind::SERVICE_ACCOUNT, "n", "default").is_some());
    let Object::Namespace(going) = &world.store.objects[&namespace] else { panic!("not a namespace") };
    assert_eq!(going.status.as_ref().unwrap().phase.as_deref(), Some("Terminating"));
    assert_eq!(
        conditions(&world, &namespace),
        [
            "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances",
            "NamespaceFinalizersRemaining=False ContentHasNoFinalizers: All content-preserving finalizers finished",
        ]
    );
    world.store.remove(uid(&pod));
    world.settle();
    assert!(world.store.objects.is_empty());
}

#[test]
fn a187_what_holds_a_namespace_is_told() {
    let mut world = world();
    let namespace = create_namespace(&mut world);
    for (name, kind) in [("a", "NetworkPolicy"), ("b", "NetworkPolicy"), ("c", "Secret")] {
        let api_version = if kind == "Secret" { "v1" } else { "networking.k8s.io/v1" };
        let finalizers = (kind != "Secret").then(|| vec!["x/y".to_owned()]);
        let object = Object::Other(std::sync::Arc::new(OtherObject {
            kind: Kind::new(api_version, kind),
            metadata: ObjectMeta {
                name: Some(name.into()),
                namespace: Some("n".into()),
                finalizers,
                ..Default::default()
            },
        }));
        world.store.create(object, world.now).unwrap();
    }
    world.store.delete(&namespace, Propagation::Background, None, world.now);
    world.settle();
    assert_eq!(
        conditions(&world, &namespace)[3..],
        [
            "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: networkpolicies.networking.k8s.io has 2 resource instances",
            "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x/y in 2 resource instances",
        ]
    );
    let held: Vec<String> = world.store.objects.keys().filter(|uid| **uid != namespace).cloned().collect();
    assert_eq!(held.len(), 2);
    for uid in held {
        world.store.change(&uid, |object| crate::store::metadata(object).finalizers = None);
    }
    world.settle();
    assert!(world.store.objects.is_empty());
}

#[test]
fn a187_a_crash_in_the_middle_is_made_up_for() {
    let mut world = world();
    let namespace = create_namespace(&mut world);
    world.store.create(pod(true).into(), world.now).unwrap();
    world.store.delete(&namespace, Propagation::Background, None, world.now);
    for steps in 0..30 {
        world.restart();
        for _ in 0..steps % 3 {
            let Some(write) = world.controllers.poll_write() else { break };
            let outcome = world.store.carry_out(&write.action, world.now);
            world.answer(&write, outcome);
        }
        if steps == 20 {
            let pod = world.pods()[0].clone();
            world.store.remove(uid(&pod));
        }
    }
    world.restart();
    world.settle();
    assert!(world.store.objects.is_empty());
}
