//! EndpointSlices: for each address family and each set of ports, the pods behind a Service, a hundred to a slice.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{HEADLESS, addresses, hostname, is_headless, pod_reference, target_port};
use crate::cache::Cache;
use crate::job::is_ready;
use crate::object::{Kind, Object, is_being_deleted, name_of, namespace_of, uid_of};
use crate::write::{Action, Propagation};

/// The label that names the Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// How many endpoints a slice has at the most.
const ENDPOINTS_MAX: usize = 100;

type Ports = Vec<EndpointPort>;
/// Ports in a form that can be sorted.
type PortsKey = Vec<(String, i32, String, String)>;
type Group = (&'static str, PortsKey);

/// The writes that bring the Service's slices up to date.
pub(super) fn bring_up_to_date(cache: &Cache, service: &Service, spec: &ServiceSpec, pods: &[&Pod]) -> Vec<Action> {
    let mut wanted = wanted(cache, service, spec, pods);
    let (mut existing, mut actions) = existing(cache, service, &wanted);
    for (group, (ports, endpoints)) in &mut wanted {
        let slices = existing.remove(group).unwrap_or_default();
        actions.extend(fill(service, spec, group.0, ports, std::mem::take(endpoints), slices));
    }
    actions
}

/// The endpoints that there should be, by group. A family without any keeps one empty slice.
fn wanted(
    cache: &Cache,
    service: &Service,
    spec: &ServiceSpec,
    pods: &[&Pod],
) -> BTreeMap<Group, (Ports, Vec<Endpoint>)> {
    let mut groups: BTreeMap<Group, (Ports, Vec<Endpoint>)> = BTreeMap::new();
    for family in families(spec) {
        let mut is_empty = true;
        for pod in pods {
            let Some(endpoint) = endpoint(cache, service, spec, pod, family) else {
                continue;
            };
            let ports = ports(spec, pod);
            let group = groups.entry((family, key(&ports))).or_insert_with(|| (ports, Vec::new()));
            group.1.push(endpoint);
            is_empty = false;
        }
        if is_empty {
            groups.insert((family, Vec::new()), (Vec::new(), Vec::new()));
        }
    }
    groups
}

/// The Service's address types.
fn families(spec: &ServiceSpec) -> BTreeSet<&'static str> {
    let families = spec.ip_families.iter().flatten();
    let named: BTreeSet<&str> = families.map(|one| if one == "IPv6" { "IPv6" } else { "IPv4" }).collect();
    if !named.is_empty() {
        return named;
    }
    match spec.cluster_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok()) {
        Some(ip) => BTreeSet::from([family(&ip)]),
        None => BTreeSet::from(["IPv4", "IPv6"]),
    }
}

fn family(ip: &IpAddr) -> &'static str {
    if ip.is_ipv6() { "IPv6" } else { "IPv4" }
}

/// The pod as an endpoint of one family; `None` if it has no such address, or its node is not known.
fn endpoint(cache: &Cache, service: &Service, spec: &ServiceSpec, pod: &Pod, of: &str) -> Option<Endpoint> {
    let addresses = addresses(pod).into_iter().filter(|ip| family(ip) == of);
    let addresses: Vec<String> = addresses.map(|ip| ip.to_string()).collect();
    let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let node = cache.find(&Kind::NODE, "", &node_name);
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    if addresses.is_empty() || (node.is_none() && !publishes_all) {
        return None;
    }
    let zone = node.and_then(|node| node.metadata().labels.as_ref()?.get("topology.kubernetes.io/zone").cloned());
    let (serving, terminating) = (is_ready(pod), is_being_deleted(&pod.metadata));
    Some(Endpoint {
        addresses,
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: Some(node_name).filter(|name| !name.is_empty()),
        target_ref: Some(pod_reference(pod)),
        zone,
        ..Endpoint::default()
    })
}

/// The ports of the pod that the Service leads to; a named one that the pod lacks is left out.
fn ports(spec: &ServiceSpec, pod: &Pod) -> Ports {
    let ports = spec.ports.iter().flatten();
    ports
        .filter_map(|port| {
            Some(EndpointPort {
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(target_port(pod, port)?),
                protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

fn key(ports: &[EndpointPort]) -> PortsKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let keys = ports
        .iter()
        .map(|port| (text(&port.name), port.port.unwrap_or(0), text(&port.protocol), text(&port.app_protocol)));
    let mut keys: PortsKey = keys.collect();
    keys.sort();
    keys
}

/// The slices that stand, by group, and the deletion of those that nothing wants.
fn existing<'a>(
    cache: &'a Cache,
    service: &Service,
    wanted: &BTreeMap<Group, (Ports, Vec<Endpoint>)>,
) -> (BTreeMap<Group, Vec<&'a EndpointSlice>>, Vec<Action>) {
    let mut kept: BTreeMap<Group, Vec<&EndpointSlice>> = BTreeMap::new();
    let mut actions = Vec::new();
    for object in cache.in_namespace(&Kind::ENDPOINT_SLICE, namespace_of(&service.metadata)) {
        let Object::EndpointSlice(slice) = object else {
            continue;
        };
        if !is_ours(slice, service) || is_being_deleted(&slice.metadata) {
            continue;
        }
        let family = if slice.address_type == "IPv6" { "IPv6" } else { "IPv4" };
        let group = (family, key(slice.ports.as_deref().unwrap_or_default()));
        let owners = slice.metadata.owner_references.iter().flatten();
        let is_owned = owners.into_iter().any(|owner| owner.uid == uid_of(&service.metadata));
        if wanted.contains_key(&group) && is_owned {
            kept.entry(group).or_default().push(slice);
        } else {
            actions.push(delete(object));
        }
    }
    (kept, actions)
}

fn is_ours(slice: &EndpointSlice, service: &Service) -> bool {
    let labels = slice.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    label(SERVICE_NAME) == Some(name_of(&service.metadata)) && label(MANAGED_BY) == Some(MANAGER)
}

/// Puts the endpoints of a group into slices: each stays where it is, new ones fill up what stands.
fn fill(
    service: &Service,
    spec: &ServiceSpec,
    address_type: &str,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
    slices: Vec<&EndpointSlice>,
) -> Vec<Action> {
    let mut left: BTreeMap<String, Endpoint> = endpoints.into_iter().map(|one| (identity(&one), one)).collect();
    let mut filled: Vec<(Option<&EndpointSlice>, Vec<Endpoint>)> = Vec::new();
    for slice in slices {
        let old = slice.endpoints.iter().flatten();
        let stay: Vec<Endpoint> = old.filter_map(|one| left.remove(&identity(one))).collect();
        filled.push((Some(slice), stay));
    }
    let mut new = left.into_values();
    for (_, endpoints) in &mut filled {
        let room = ENDPOINTS_MAX.saturating_sub(endpoints.len());
        endpoints.extend(new.by_ref().take(room));
    }
    let mut rest: Vec<Endpoint> = new.collect();
    while !rest.is_empty() || filled.is_empty() {
        let after = rest.split_off(rest.len().min(ENDPOINTS_MAX));
        filled.push((None, std::mem::replace(&mut rest, after)));
    }
    // A slice that has become empty goes, but for the last.
    let keep_one = filled.iter().all(|(_, endpoints)| endpoints.is_empty());
    let mut is_kept = false;
    let mut actions = Vec::new();
    for (slice, endpoints) in filled {
        if endpoints.is_empty() && (!keep_one || is_kept) {
            actions.extend(slice.map(|slice| delete(&Object::from(slice.clone()))));
            continue;
        }
        is_kept = true;
        actions.extend(write(service, spec, address_type, ports, endpoints, slice));
    }
    actions
}

/// What names an endpoint within a slice.
fn identity(endpoint: &Endpoint) -> String {
    let uid = endpoint.target_ref.as_ref().and_then(|pod| pod.uid.as_deref()).unwrap_or_default();
    format!("{}/{uid}", endpoint.addresses.join(","))
}

/// Creates the slice, or updates it if it differs.
fn write(
    service: &Service,
    spec: &ServiceSpec,
    address_type: &str,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
    old: Option<&EndpointSlice>,
) -> Option<Action> {
    let labels = labels(service, spec);
    let name = name_of(&service.metadata);
    let Some(old) = old else {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            name: name.to_owned(),
            uid: uid_of(&service.metadata).to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        let slice = EndpointSlice {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-")),
                namespace: service.metadata.namespace.clone(),
                labels: Some(labels),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            address_type: address_type.to_owned(),
            endpoints: Some(endpoints),
            ports: Some(ports.to_vec()),
        };
        return Some(Action::Create(slice.into()));
    };
    let same =
        old.endpoints.as_deref().unwrap_or_default() == endpoints && old.metadata.labels.as_ref() == Some(&labels);
    (!same).then(|| {
        let mut slice = old.clone();
        slice.endpoints = Some(endpoints);
        slice.metadata.labels = Some(labels);
        Action::Update(slice.into())
    })
}

fn labels(service: &Service, spec: &ServiceSpec) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), name_of(&service.metadata).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels.remove(HEADLESS);
    if is_headless(spec) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

fn delete(slice: &Object) -> Action {
    Action::Delete {
        target: slice.target(),
        if_version: None,
        propagation: Propagation::Background,
        grace_seconds: None,
    }
}
