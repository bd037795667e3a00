//! Endpoints of Services: EndpointSlices, and the Endpoints of old.
//!
//! Services without a selector, and those of type ExternalName, are left to others.
//! Topology hints and the times that changes took are not recorded.
//! Read next: [`slices`], [`legacy`].

mod legacy;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::cache::{Cache, Change};
use crate::job::is_terminal;
use crate::namespaces::is_going;
use crate::object::{Kind, Object, is_being_deleted, name_of, namespace_of, uid_of};
use crate::runner::{Reconcile, Step};

/// The label that marks what belongs to a Service without an address of its own.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// Decides for Services.
#[derive(Debug)]
pub(crate) struct EndpointsController;

/// What is looked at as one: a namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServiceKey {
    /// The Service of this name.
    Service(String, String),
    /// What a Service of this name, which was deleted, has left behind.
    Remains(String, String),
}

impl Reconcile for EndpointsController {
    type Key = ServiceKey;

    fn affected(&self, cache: &Cache, change: &Change, now: Timestamp) -> Vec<(Self::Key, Timestamp)> {
        let object = change.object();
        let mut names: BTreeSet<(String, String)> = BTreeSet::new();
        let mut add = |name: &str| names.insert((object.namespace().to_owned(), name.to_owned()));
        match object {
            Object::Service(_) | Object::Endpoints(_) => {
                add(object.name());
            }
            Object::EndpointSlice(slice) => {
                let labels = slice.metadata.labels.as_ref();
                if let Some(service) = labels.and_then(|labels| labels.get(slices::SERVICE_NAME)) {
                    add(service);
                }
            }
            Object::Pod(_) => {
                for version in [Some(object), change.old()].into_iter().flatten() {
                    let Object::Pod(pod) = version else { continue };
                    services(cache, object.namespace()).filter(|one| selects(one, pod)).for_each(|one| {
                        add(name_of(&one.metadata));
                    });
                }
            }
            Object::Node(_) if says_news(change) => {
                let all = cache.of_kind(&Kind::SERVICE);
                names = all.map(|one| (one.namespace().to_owned(), one.name().to_owned())).collect();
            }
            _ => {}
        }
        let is_gone = matches!(change, Change::Deleted { old: Object::Service(_) });
        let key = if is_gone { ServiceKey::Remains } else { ServiceKey::Service };
        names.into_iter().map(|(namespace, name)| (key(namespace, name), now)).collect()
    }

    fn reconcile(&mut self, cache: &Cache, key: &Self::Key, _: Timestamp) -> Step {
        let (ServiceKey::Service(namespace, name) | ServiceKey::Remains(namespace, name)) = key;
        let service = cache.find(&Kind::SERVICE, namespace, name);
        let Some(Object::Service(service)) = service else {
            // Endpoints of other making may be there before their Service is seen.
            let all = matches!(key, ServiceKey::Remains(..));
            return Step::write(legacy::remove(cache, namespace, name, all));
        };
        let Some(spec) = service.spec.as_ref().filter(|spec| has_endpoints(spec)) else {
            return Step::rest();
        };
        if is_being_deleted(&service.metadata) || is_going(cache, namespace) {
            return Step::rest();
        }
        let pods: Vec<&Pod> =
            cache.pods(namespace).map(AsRef::as_ref).filter(|pod| selects(service, pod) && has_address(pod)).collect();
        let mut actions = slices::bring_up_to_date(cache, service, spec, &pods);
        actions.extend(legacy::bring_up_to_date(cache, service, spec, &pods));
        Step::write(actions)
    }
}

/// A node that comes, goes or changes its labels.
fn says_news(change: &Change) -> bool {
    match change {
        Change::Applied { old: Some(old), new } => old.metadata().labels != new.metadata().labels,
        _ => true,
    }
}

fn has_endpoints(spec: &ServiceSpec) -> bool {
    spec.selector.is_some() && spec.type_.as_deref() != Some("ExternalName")
}

fn services<'a>(cache: &'a Cache, namespace: &str) -> impl Iterator<Item = &'a Arc<Service>> + use<'a> {
    cache.in_namespace(&Kind::SERVICE, namespace).filter_map(|object| match object {
        Object::Service(service) => Some(service),
        _ => None,
    })
}

/// An absent selector selects nothing.
fn selects(service: &Service, pod: &Pod) -> bool {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let none = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
    selector.is_some_and(|selector| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

/// True if the pod runs somewhere and can be reached.
fn has_address(pod: &Pod) -> bool {
    !is_terminal(pod) && !addresses(pod).is_empty()
}

/// The pod's addresses, the primary one first.
fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let Some(status) = &pod.status else {
        return Vec::new();
    };
    let ips = status.pod_ips.iter().flatten().map(|one| one.ip.as_str());
    let mut ips: Vec<&str> = ips.collect();
    if ips.is_empty() {
        ips.extend(status.pod_ip.as_deref());
    }
    ips.into_iter().filter_map(|ip| ip.parse().ok()).collect()
}

/// The number of the pod's port that a Service's port leads to.
fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = |text: &Option<String>| text.clone().unwrap_or_else(|| "TCP".to_owned());
            let is_named = |one: &&ContainerPort| {
                one.name.as_ref() == Some(name) && protocol(&one.protocol) == protocol(&port.protocol)
            };
            container_ports(pod).into_iter().find(is_named).map(|one| one.container_port)
        }
    }
}

/// Ports of app containers, then of sidecars.
fn container_ports(pod: &Pod) -> Vec<&ContainerPort> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    spec.containers.iter().chain(sidecars).flat_map(|one| one.ports.iter().flatten()).collect()
}

/// The pod's name under the Service, if it has one.
fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_of_service = spec.subdomain.as_deref() == Some(name_of(&service.metadata));
    spec.hostname.clone().filter(|hostname| is_of_service && !hostname.is_empty())
}

fn is_headless(spec: &ServiceSpec) -> bool {
    matches!(spec.cluster_ip.as_deref(), None | Some("" | "None"))
}

/// The reference from an endpoint to its pod.
fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace_of(&pod.metadata).to_owned()),
        name: Some(name_of(&pod.metadata).to_owned()),
        uid: Some(uid_of(&pod.metadata).to_owned()),
        ..ObjectReference::default()
    }
}
