//! Defaults of the kinds with few of them.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, PodTemplate,
    ResourceQuota, Secret, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;

use super::{pod, resources, volume};
use crate::absent::{default_text, items_mut};

/// Fills in a ConfigMap: empty data is no data.
pub fn config_map(config_map: &mut ConfigMap) {
    config_map.data.take_if(|data| data.is_empty());
    config_map.binary_data.take_if(|data| data.is_empty());
}

/// Fills in a Secret: the type, and what stands in `stringData` goes into `data`, over what is there.
pub fn secret(secret: &mut Secret) {
    default_text(&mut secret.type_, "Opaque");
    if let Some(texts) = secret.string_data.take() {
        let data = secret.data.get_or_insert_default();
        data.extend(texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
    }
    secret.data.take_if(|data| data.is_empty());
}

/// Fills in a Namespace: the label that carries its name, and the phase.
pub fn namespace(namespace: &mut Namespace) {
    if let Some(name) = namespace.metadata.name.clone().filter(|name| !name.is_empty()) {
        namespace.metadata.labels.get_or_insert_default().insert("kubernetes.io/metadata.name".to_owned(), name);
    }
    namespace.spec.get_or_insert_default();
    default_text(&mut namespace.status.get_or_insert_default().phase, "Active");
}

/// Fills in a ServiceAccount, which has no defaults.
pub fn service_account(_: &mut ServiceAccount) {}

/// Fills in a core/v1 Event: Kubernetes always writes the source and both times, a time that is unset as null.
pub fn event(event: &mut Event) {
    event.source.get_or_insert_default();
}

/// Fills in Endpoints.
pub fn endpoints(endpoints: &mut Endpoints) {
    for port in items_mut(&mut endpoints.subsets).iter_mut().flat_map(|subset| items_mut(&mut subset.ports)) {
        default_text(&mut port.protocol, "TCP");
    }
}

/// Fills in an EndpointSlice.
pub fn endpoint_slice(slice: &mut EndpointSlice) {
    for port in items_mut(&mut slice.ports) {
        port.name.get_or_insert_default();
        port.protocol.get_or_insert_with(|| "TCP".to_owned());
    }
}

/// Fills in a PodTemplate.
pub fn pod_template(template: &mut PodTemplate) {
    pod::template(template.template.get_or_insert_default());
}

/// Fills in a Node: what it can give is its capacity if nothing else is said.
pub fn node(node: &mut Node) {
    let status = node.status.get_or_insert_default();
    if status.allocatable.is_none() {
        status.allocatable = status.capacity.clone();
    }
    resources::round_list(&mut status.capacity);
    resources::round_list(&mut status.allocatable);
}

/// Fills in a PriorityClass.
pub fn priority_class(class: &mut PriorityClass) {
    class.preemption_policy.get_or_insert_with(|| "PreemptLowerPriority".to_owned());
}

/// Fills in a StorageClass.
pub fn storage_class(class: &mut StorageClass) {
    class.reclaim_policy.get_or_insert_with(|| "Delete".to_owned());
    class.volume_binding_mode.get_or_insert_with(|| "Immediate".to_owned());
}

/// Fills in a PersistentVolumeClaim.
pub fn persistent_volume_claim(claim: &mut PersistentVolumeClaim) {
    volume::claim_spec(claim.spec.get_or_insert_default());
    let status = claim.status.get_or_insert_default();
    default_text(&mut status.phase, "Pending");
    resources::round_list(&mut status.capacity);
    resources::round_list(&mut status.allocated_resources);
}

/// Fills in a PersistentVolume.
pub fn persistent_volume(persistent_volume: &mut PersistentVolume) {
    default_text(&mut persistent_volume.status.get_or_insert_default().phase, "Pending");
    let spec = persistent_volume.spec.get_or_insert_default();
    default_text(&mut spec.persistent_volume_reclaim_policy, "Retain");
    spec.volume_mode.get_or_insert_with(|| "Filesystem".to_owned());
    resources::round_list(&mut spec.capacity);
    if let Some(source) = &mut spec.host_path {
        source.type_.get_or_insert_default();
    }
    if let Some(source) = &mut spec.rbd {
        default_text(&mut source.pool, "rbd");
        default_text(&mut source.user, "admin");
        default_text(&mut source.keyring, "/etc/ceph/keyring");
    }
    if let Some(source) = &mut spec.iscsi {
        default_text(&mut source.iscsi_interface, "default");
    }
    if let Some(source) = &mut spec.azure_disk {
        volume::azure_disk(source);
    }
    if let Some(source) = &mut spec.scale_io {
        default_text(&mut source.storage_mode, "ThinProvisioned");
        default_text(&mut source.fs_type, "xfs");
    }
}

/// Fills in a ResourceQuota.
pub fn resource_quota(quota: &mut ResourceQuota) {
    if let Some(spec) = &mut quota.spec {
        resources::round_list(&mut spec.hard);
    }
    if let Some(status) = &mut quota.status {
        resources::round_list(&mut status.hard);
        resources::round_list(&mut status.used);
    }
}

/// Fills in a LimitRange: for containers, limits from maxima, and requests from limits, then from minima.
pub fn limit_range(range: &mut LimitRange) {
    for item in range.spec.iter_mut().flat_map(|spec| spec.limits.iter_mut()) {
        if item.type_ == "Container" {
            let default = item.default.get_or_insert_default();
            fill(default, &item.max);
            let default_request = item.default_request.get_or_insert_default();
            fill(default_request, &item.default);
            fill(default_request, &item.min);
        }
        let lists = [
            &mut item.max,
            &mut item.min,
            &mut item.default,
            &mut item.default_request,
            &mut item.max_limit_request_ratio,
        ];
        lists.into_iter().for_each(resources::round_list);
    }
}

fn fill(list: &mut resources::ResourceList, from: &Option<resources::ResourceList>) {
    for (name, quantity) in from.iter().flatten() {
        list.entry(name.clone()).or_insert_with(|| quantity.clone());
    }
}
