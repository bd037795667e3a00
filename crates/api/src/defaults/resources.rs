//! Defaults of requests and limits (L-110), and the canonical form of quantities.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity::{self, Amount};
pub(super) use crate::resources::canonical;
use crate::resources::{Bound, aggregate, is_pod_level};
use crate::validation::pod::{is_huge_page, is_overcommit_allowed};

pub(super) type ResourceList = BTreeMap<String, Quantity>;

/// Writes all quantities canonically, with thousandths as the finest parts; what is finer is rounded up.
pub(super) fn round(requirements: &mut ResourceRequirements) {
    round_list(&mut requirements.limits);
    round_list(&mut requirements.requests);
}

pub(super) fn round_list(list: &mut Option<ResourceList>) {
    for quantity in list.iter_mut().flat_map(|list| list.values_mut()) {
        if let Ok(amount) = quantity::parse(&quantity.0) {
            let rounded = Amount::milli(amount.milli_value());
            *quantity = if rounded == amount { Quantity(quantity::canonical(quantity)) } else { rounded.to_quantity() };
        }
    }
}

/// A container that names a limit and no request asks for its limit.
pub(super) fn requests_from_limits(containers: &mut [Container]) {
    for resources in containers.iter_mut().filter_map(|container| container.resources.as_mut()) {
        let Some(limits) = &resources.limits else { continue };
        let requests = resources.requests.get_or_insert_default();
        for (name, limit) in limits {
            requests.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
}

/// A pod that names resources of its own gets what it leaves out from its containers, then from its limits.
pub(super) fn pod_level(spec: &mut PodSpec) {
    let (requests, limits) = (aggregate(spec, Bound::Requests), aggregate(spec, Bound::Limits));
    let Some(resources) = &mut spec.resources else { return };
    let is_bare = |list: &Option<ResourceList>| list.as_ref().is_none_or(|list| list.is_empty());
    if is_bare(&resources.limits) && is_bare(&resources.requests) {
        return;
    }
    let own_requests = resources.requests.clone().unwrap_or_default();
    let own_limits = resources.limits.get_or_insert_default();
    for (name, limit) in limits.iter().filter(|(name, _)| is_huge_page(name) && !own_requests.contains_key(*name)) {
        own_limits.entry(name.clone()).or_insert_with(|| limit.to_quantity());
    }
    if own_limits.is_empty() {
        resources.limits = None;
        return;
    }
    let own_requests = resources.requests.get_or_insert_default();
    for (name, request) in requests.iter().filter(|(name, _)| is_pod_level(name) && is_overcommit_allowed(name)) {
        own_requests.entry(name.clone()).or_insert_with(|| request.to_quantity());
    }
    for (name, limit) in own_limits.iter().filter(|(name, _)| is_pod_level(name)) {
        own_requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}
