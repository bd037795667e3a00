//! The Endpoints of old: one object for each Service, of its name.
//!
//! One node has fewer pods than an Endpoints object can hold, so none is cut off.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{HEADLESS, addresses, hostname, is_headless, pod_reference, target_port};
use crate::cache::Cache;
use crate::job::is_ready;
use crate::object::{Kind, Object, is_being_deleted, name_of, namespace_of};
use crate::write::{Action, Propagation};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// An address with the uid of its pod, in the order in which addresses are listed.
type AddressKey = (IpAddr, String);
type PortKey = (String, i32, String, String);
/// An address, and whether it is ready.
type Place = (EndpointAddress, bool);

/// Deletes the Endpoints of a Service that is gone; unless all are meant, only those of this controller's making.
pub(super) fn remove(cache: &Cache, namespace: &str, name: &str, all: bool) -> Option<Action> {
    let endpoints = cache.find(&Kind::ENDPOINTS, namespace, name)?;
    let labels = endpoints.metadata().labels.as_ref();
    let is_ours = labels.and_then(|labels| labels.get(MANAGED_BY)).is_some_and(|manager| manager == MANAGER);
    ((all || is_ours) && !is_being_deleted(endpoints.metadata())).then(|| Action::Delete {
        target: endpoints.target(),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    })
}

/// The write that brings the Service's Endpoints up to date, if they are not.
pub(super) fn bring_up_to_date(cache: &Cache, service: &Service, spec: &ServiceSpec, pods: &[&Pod]) -> Option<Action> {
    let (namespace, name) = (namespace_of(&service.metadata), name_of(&service.metadata));
    let subsets = subsets(service, spec, pods);
    let labels = labels(service, spec);
    let Some(Object::Endpoints(old)) = cache.find(&Kind::ENDPOINTS, namespace, name) else {
        let endpoints = Endpoints {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
        };
        return Some(Action::Create(endpoints.into()));
    };
    let same = old.subsets.as_deref().unwrap_or_default() == subsets && old.metadata.labels.as_ref() == Some(&labels);
    (!same).then(|| {
        let mut endpoints = old.as_ref().clone();
        endpoints.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
        endpoints.metadata.labels = Some(labels);
        Action::Update(endpoints.into())
    })
}

/// The addresses that offer the same ports together, in order.
fn subsets(service: &Service, spec: &ServiceSpec, pods: &[&Pod]) -> Vec<EndpointSubset> {
    let mut by_port: BTreeMap<Option<PortKey>, BTreeMap<AddressKey, Place>> = BTreeMap::new();
    let mut ports: BTreeMap<PortKey, EndpointPort> = BTreeMap::new();
    for pod in pods {
        let Some((key, place)) = place(service, spec, pod) else {
            continue;
        };
        if spec.ports.iter().flatten().next().is_none() && is_headless(spec) {
            by_port.entry(None).or_default().insert(key.clone(), place.clone());
        }
        for (port_key, port) in ports_of(spec, pod) {
            let places = by_port.entry(Some(port_key.clone())).or_default();
            places.insert(key.clone(), place.clone());
            ports.insert(port_key, port);
        }
    }
    let mut packed: BTreeMap<Vec<AddressKey>, (Vec<EndpointPort>, Vec<Place>)> = BTreeMap::new();
    for (port, places) in by_port {
        let keys: Vec<AddressKey> = places.keys().cloned().collect();
        let subset = packed.entry(keys).or_insert_with(|| (Vec::new(), places.into_values().collect()));
        subset.0.extend(port.and_then(|port| ports.get(&port).cloned()));
    }
    packed.into_values().map(|(ports, places)| subset(ports, places)).collect()
}

fn subset(ports: Vec<EndpointPort>, places: Vec<Place>) -> EndpointSubset {
    let (ready, not_ready): (Vec<Place>, Vec<Place>) = places.into_iter().partition(|(_, is_ready)| *is_ready);
    let list = |places: Vec<Place>| {
        let addresses: Vec<EndpointAddress> = places.into_iter().map(|(address, _)| address).collect();
        Some(addresses).filter(|addresses| !addresses.is_empty())
    };
    EndpointSubset {
        addresses: list(ready),
        not_ready_addresses: list(not_ready),
        ports: Some(ports).filter(|ports| !ports.is_empty()),
    }
}

/// The pod's address of the Service's first family; a pod that is being deleted has no place any more.
fn place(service: &Service, spec: &ServiceSpec, pod: &Pod) -> Option<(AddressKey, Place)> {
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    if is_being_deleted(&pod.metadata) && !publishes_all {
        return None;
    }
    let wants_v6 = spec.ip_families.iter().flatten().next().is_some_and(|family| family == "IPv6");
    let ip = addresses(pod).into_iter().find(|ip| ip.is_ipv6() == wants_v6)?;
    let target = pod_reference(pod);
    let key = (ip, target.uid.clone().unwrap_or_default());
    let address = EndpointAddress {
        hostname: hostname(service, pod),
        ip: ip.to_string(),
        node_name: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        target_ref: Some(target),
    };
    Some((key, (address, publishes_all || is_ready(pod))))
}

fn ports_of(spec: &ServiceSpec, pod: &Pod) -> Vec<(PortKey, EndpointPort)> {
    let ports = spec.ports.iter().flatten();
    ports
        .filter_map(|port| {
            let number = target_port(pod, port)?;
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let key = (text(&port.name), number, protocol.clone(), text(&port.app_protocol));
            let port = EndpointPort {
                name: port.name.clone().filter(|name| !name.is_empty()),
                port: number,
                protocol: Some(protocol),
                app_protocol: port.app_protocol.clone(),
            };
            Some((key, port))
        })
        .collect()
}

fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(spec) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}
