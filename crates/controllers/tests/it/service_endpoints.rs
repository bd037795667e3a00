//! EndpointSlices and Endpoints of Services.

use controllers::{Config, ControllerName, Kind, Object, Propagation};
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::world::{World, uid};

fn world() -> World {
    let mut world = World::with(Config::only(&[ControllerName::Endpoints]));
    let node: Node = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}
    }))
    .unwrap();
    world.store.create(node.into(), world.now).unwrap();
    world
}

fn create_service(world: &mut World, spec: serde_json::Value) -> String {
    let service: Service = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "s", "namespace": "n", "labels": {"l": "m"}}, "spec": spec,
    }))
    .unwrap();
    let uid = world.store.create(service.into(), world.now).unwrap().uid().to_owned();
    world.settle();
    uid
}

fn web() -> serde_json::Value {
    serde_json::json!({"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "web"}]})
}

fn create_pod(world: &mut World, name: &str, ip: &str) -> Pod {
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "namespace": "n", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]},
    }))
    .unwrap();
    let uid = world.store.create(pod.into(), world.now).unwrap().uid().to_owned();
    let ip = ip.to_owned();
    world.store.change_pod(&uid, |pod| {
        *pod.status.as_mut().unwrap() = serde_json::from_value(serde_json::json!({
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": "True"}],
        }))
        .unwrap();
    });
    world.settle();
    world.pods().into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name)).unwrap()
}

fn set_ready(world: &mut World, pod: &Pod, ready: bool) {
    world.store.change_pod(uid(pod), |pod| {
        let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].status = if ready { "True" } else { "False" }.into();
    });
    world.settle();
}

fn slices(world: &World) -> Vec<EndpointSlice> {
    let slices = world.store.objects.values().filter_map(|object| match object {
        Object::EndpointSlice(slice) => Some(slice.as_ref().clone()),
        _ => None,
    });
    slices.collect()
}

fn endpoints(world: &World) -> Option<Endpoints> {
    match world.store.find(&Kind::ENDPOINTS, "n", "s") {
        Some(Object::Endpoints(endpoints)) => Some(endpoints.as_ref().clone()),
        _ => None,
    }
}

#[test]
fn a_service_has_a_slice_and_endpoints_with_its_ready_pods() {
    let mut world = world();
    let service = create_service(&mut world, web());
    let pod = create_pod(&mut world, "p", "10.1.0.5");
    let slice = slices(&world).pop().unwrap();
    let pod_uid = uid(&pod);
    assert_eq!(slice.metadata.generate_name.as_deref(), Some("s-"));
    assert_eq!(
        serde_json::to_value(&slice.metadata.labels).unwrap(),
        serde_json::json!({"l": "m", "kubernetes.io/service-name": "s", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(slice.metadata.owner_references.as_ref().unwrap()[0].uid, service);
    assert_eq!(slice.address_type, "IPv4");
    assert_eq!(
        serde_json::to_value(&slice.ports).unwrap(),
        serde_json::json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    assert_eq!(
        serde_json::to_value(&slice.endpoints).unwrap(),
        serde_json::json!([{"addresses": ["10.1.0.5"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n1", "zone": "z", "targetRef": {"kind": "Pod", "namespace": "n", "name": "p", "uid": pod_uid}}])
    );
    let endpoints = endpoints(&world).unwrap();
    assert_eq!(
        serde_json::to_value(&endpoints.subsets).unwrap(),
        serde_json::json!([{"addresses": [{"ip": "10.1.0.5", "nodeName": "n1",
            "targetRef": {"kind": "Pod", "namespace": "n", "name": "p", "uid": pod_uid}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}])
    );
    assert_eq!(
        serde_json::to_value(&endpoints.metadata.labels).unwrap(),
        serde_json::json!({"l": "m", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
}

#[test]
fn readiness_and_deletion_show_at_once() {
    let mut world = world();
    create_service(&mut world, web());
    let pod = create_pod(&mut world, "p", "10.1.0.5");
    let conditions = |world: &World| {
        let slice = slices(world).pop().unwrap();
        let endpoint = slice.endpoints.unwrap().pop();
        endpoint.map(|one| one.conditions.unwrap()).map(|one| (one.ready, one.serving, one.terminating))
    };
    let addresses = |world: &World| {
        let subset = endpoints(world).unwrap().subsets.unwrap_or_default().pop();
        subset.map(|one| {
            (one.addresses.map_or(0, |list| list.len()), one.not_ready_addresses.map_or(0, |list| list.len()))
        })
    };
    set_ready(&mut world, &pod, false);
    assert_eq!(conditions(&world), Some((Some(false), Some(false), Some(false))));
    assert_eq!(addresses(&world), Some((0, 1)));
    set_ready(&mut world, &pod, true);
    assert_eq!(addresses(&world), Some((1, 0)));
    world.store.delete(uid(&pod), Propagation::Background, None, world.now);
    world.settle();
    assert_eq!(conditions(&world), Some((Some(false), Some(true), Some(true))));
    assert_eq!(addresses(&world), None);
    world.store.remove(uid(&pod));
    world.settle();
    assert_eq!(conditions(&world), None);
    assert_eq!(slices(&world).len(), 1, "one empty slice is kept");
}

#[test]
fn pods_that_have_ended_or_have_no_address_are_no_endpoints() {
    let mut world = world();
    create_service(&mut world, web());
    let pod = create_pod(&mut world, "p", "10.1.0.5");
    world.store.change_pod(uid(&pod), |pod| pod.status.as_mut().unwrap().phase = Some("Succeeded".into()));
    world.settle();
    assert_eq!(slices(&world)[0].endpoints.as_ref().unwrap().len(), 0);
}

#[test]
fn pods_with_other_port_numbers_have_a_slice_of_their_own() {
    let mut world = world();
    create_service(&mut world, web());
    create_pod(&mut world, "p", "10.1.0.5");
    let other = create_pod(&mut world, "q", "10.1.0.6");
    world.store.change_pod(uid(&other), |pod| {
        let ports = pod.spec.as_mut().unwrap().containers[0].ports.as_mut().unwrap();
        ports[0].container_port = 9090;
    });
    world.settle();
    let mut ports: Vec<i32> = slices(&world).iter().map(|one| one.ports.as_ref().unwrap()[0].port.unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
    assert_eq!(endpoints(&world).unwrap().subsets.unwrap().len(), 2);
}

#[test]
fn a_hundred_endpoints_fill_a_slice() {
    let mut world = world();
    create_service(&mut world, web());
    for number in 0..103 {
        create_pod(&mut world, &format!("p{number}"), &format!("10.1.1.{number}"));
    }
    let mut sizes: Vec<usize> = slices(&world).iter().map(|one| one.endpoints.as_ref().unwrap().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [3, 100]);
    for pod in world.pods() {
        world.store.remove(uid(&pod));
    }
    world.settle();
    assert_eq!(slices(&world).len(), 1);
}

#[test]
fn a_headless_service_is_marked_and_may_have_no_ports() {
    let mut world = world();
    create_service(
        &mut world,
        serde_json::json!({"selector": {"app": "web"}, "clusterIP": "None", "ipFamilies": ["IPv4"], "publishNotReadyAddresses": true}),
    );
    let pod = create_pod(&mut world, "p", "10.1.0.5");
    world.store.change_pod(uid(&pod), |pod| {
        let spec = pod.spec.as_mut().unwrap();
        (spec.hostname, spec.subdomain) = (Some("h".into()), Some("s".into()));
    });
    set_ready(&mut world, &pod, false);
    let slice = slices(&world).pop().unwrap();
    assert_eq!(slice.metadata.labels.unwrap()["service.kubernetes.io/headless"], "");
    let endpoint = &slice.endpoints.unwrap()[0];
    assert_eq!(endpoint.hostname.as_deref(), Some("h"));
    assert_eq!(endpoint.conditions.as_ref().unwrap().ready, Some(true), "published although it is not ready");
    let subset = &endpoints(&world).unwrap().subsets.unwrap()[0];
    assert_eq!((subset.addresses.as_ref().unwrap().len(), subset.ports.is_none()), (1, true));
}

#[test]
fn services_without_selector_are_left_to_others() {
    let mut world = world();
    create_service(&mut world, serde_json::json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}));
    create_pod(&mut world, "p", "10.1.0.5");
    assert!(slices(&world).is_empty() && endpoints(&world).is_none());
}

#[test]
fn what_somebody_spoils_is_mended_and_what_is_right_is_left_alone() {
    let mut world = world();
    create_service(&mut world, web());
    create_pod(&mut world, "p", "10.1.0.5");
    let before = world.store.revision;
    world.restart();
    world.settle();
    assert_eq!(world.store.revision, before, "a restart writes nothing");
    let slice = slices(&world)[0].metadata.uid.clone().unwrap();
    world.store.change(&slice, |object| {
        let Object::EndpointSlice(slice) = object else { panic!("not a slice") };
        std::sync::Arc::make_mut(slice).endpoints = None;
    });
    world.settle();
    assert_eq!(slices(&world)[0].endpoints.as_ref().unwrap().len(), 1);
}

#[test]
fn endpoints_of_other_making_may_come_before_their_service_and_go_with_it() {
    let mut world = world();
    let mine: Endpoints = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "s", "namespace": "n"}, "subsets": [{"addresses": [{"ip": "10.9.9.9"}]}],
    }))
    .unwrap();
    world.store.create(mine.into(), world.now).unwrap();
    world.settle();
    let service = create_service(&mut world, serde_json::json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}));
    assert_eq!(endpoints(&world).unwrap().subsets.unwrap().len(), 1);
    world.store.remove(&service);
    world.settle();
    assert!(endpoints(&world).is_none());
}

#[test]
fn the_endpoints_of_a_service_go_with_it() {
    let mut world = world();
    let service = create_service(&mut world, web());
    assert!(endpoints(&world).is_some());
    world.store.remove(&service);
    world.settle();
    assert!(endpoints(&world).is_none());
}
