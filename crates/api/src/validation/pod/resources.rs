//! Requests and limits of containers and pods (L-1217).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::claims::validate_claim_references;
use crate::absent::{entries, entry, items};
use crate::field::FieldPath;
use crate::quantity::{self, Amount};
use crate::resources::{Bound, aggregate, is_pod_level};
use crate::validation::errors::Errors;
use crate::validation::names;

type ResourceList = Option<BTreeMap<String, Quantity>>;

/// Resources that have no domain in their names, apart from huge pages.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const INTEGER: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES: &str = "hugepages-";

pub(super) fn validate_container(
    requirements: Option<&ResourceRequirements>,
    pod_claims: &BTreeSet<&str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if let Some(requirements) = requirements {
        validate_requirements(requirements, validate_container_resource_name, pod_claims, at, errors);
    }
}

pub(super) fn validate_overhead(overhead: &ResourceList, at: &FieldPath, errors: &mut Errors) {
    if overhead.is_some() {
        let requirements = ResourceRequirements { limits: overhead.clone(), ..Default::default() };
        validate_requirements(&requirements, validate_container_resource_name, &BTreeSet::new(), at, errors);
    }
}

/// `spec.resources`, and that the containers fit into it.
pub(super) fn validate_pod_level(spec: &PodSpec, pod_claims: &BTreeSet<&str>, at: &FieldPath, errors: &mut Errors) {
    let Some(resources) = &spec.resources else { return };
    let at = at.child("resources");
    if spec.os.as_ref().is_some_and(|os| os.name == "windows") {
        errors.forbidden(&at, "may not be set for a windows pod");
        return;
    }
    if resources.claims.is_some() {
        errors.forbidden(&at.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(resources, validate_pod_resource_name, pod_claims, &at, errors);
    for (name, sum) in &aggregate(spec, Bound::Requests) {
        let Some(request) = entry(&resources.requests, name) else { continue };
        if *sum > amount(request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {sum}");
            errors.invalid(&at.child("requests").key(name), quantity::canonical(request), detail);
        }
    }
    for (name, sum) in aggregate(spec, Bound::Limits).iter().filter(|(name, _)| is_huge_page(name)) {
        let Some(limit) = entry(&resources.limits, name) else { continue };
        if *sum > amount(limit) {
            let detail = format!("must be greater than or equal to aggregate container limits of {sum}");
            errors.invalid(&at.child("limits").key(name), quantity::canonical(limit), detail);
        }
    }
    validate_container_limits_fit(spec, resources, &at, errors);
}

fn validate_container_limits_fit(
    spec: &PodSpec,
    pod_resources: &ResourceRequirements,
    at: &FieldPath,
    errors: &mut Errors,
) {
    for (index, container) in spec.containers.iter().enumerate() {
        let limits = container.resources.iter().flat_map(|resources| entries(&resources.limits));
        for (name, limit) in limits {
            let Some(pod_limit) = entry(&pod_resources.limits, name) else { continue };
            if amount(limit) > amount(pod_limit) {
                let at = at.child("containers").index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {}", quantity::canonical(pod_limit));
                errors.invalid(&at, quantity::canonical(limit), detail);
            }
        }
    }
}

fn validate_requirements(
    requirements: &ResourceRequirements,
    validate_name: fn(&str, &FieldPath, &mut Errors),
    pod_claims: &BTreeSet<&str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let (limits_at, requests_at) = (at.child("limits"), at.child("requests"));
    for (name, limit) in entries(&requirements.limits) {
        let at = limits_at.key(name);
        validate_name(name, &at, errors);
        validate_quantity(name, limit, &at, errors);
        validate_huge_page(name, limit, &at, errors);
    }
    for (name, request) in entries(&requirements.requests) {
        let at = requests_at.key(name);
        validate_name(name, &at, errors);
        validate_quantity(name, request, &at, errors);
        validate_request(name, request, &requirements.limits, [&requests_at, &limits_at], errors);
        validate_huge_page(name, request, &at, errors);
    }
    let names = || entries(&requirements.limits).chain(entries(&requirements.requests)).map(|(name, _)| name);
    if names().any(is_huge_page) && !names().any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    validate_claim_references(items(&requirements.claims), pod_claims, &at.child("claims"), errors);
}

/// A request is no more than its limit, and equal to it where the resource can't be promised twice.
fn validate_request(
    name: &str,
    request: &Quantity,
    limits: &ResourceList,
    [requests_at, limits_at]: [&FieldPath; 2],
    errors: &mut Errors,
) {
    let Some(limit) = entry(limits, name) else {
        if !is_overcommit_allowed(name) {
            errors.required(limits_at, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let order = amount(request).cmp(&amount(limit));
    let relation = match order {
        Ordering::Equal => return,
        _ if !is_overcommit_allowed(name) => "equal to",
        Ordering::Greater => "less than or equal to",
        Ordering::Less => return,
    };
    let detail = format!("must be {relation} {name} limit of {}", quantity::canonical(limit));
    errors.invalid(requests_at, quantity::canonical(request), detail);
}

/// A quantity is well-formed, not negative, and whole where the resource is counted.
pub(crate) fn validate_quantity(name: &str, value: &Quantity, at: &FieldPath, errors: &mut Errors) {
    let Ok(amount) = quantity::parse(&value.0) else {
        let detail = quantity::QuantityError::Format.to_string();
        errors.invalid(at, value.0.as_str(), detail);
        return;
    };
    if amount.is_negative() {
        errors.invalid(at, quantity::canonical(value), "must be greater than or equal to 0");
    }
    if is_integer_resource(name) && !amount.is_whole() {
        errors.invalid(at, quantity::canonical(value), "must be an integer");
    }
}

fn validate_huge_page(name: &str, value: &Quantity, at: &FieldPath, errors: &mut Errors) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let whole = |text: &str| quantity::parse(text).ok().map(|amount| amount.value());
    let is_multiple = match (whole(size), whole(&value.0)) {
        (Some(size), Some(value)) => size > 0 && value % size == 0,
        _ => false,
    };
    if !is_multiple {
        let text = quantity::canonical(value);
        errors.invalid(at, text.as_str(), format!("{text} is not positive integer multiple of {name}"));
    }
}

fn validate_resource_name(name: &str, at: &FieldPath, errors: &mut Errors) -> bool {
    let wrong = names::qualified_name(name);
    let is_well_formed = wrong.is_empty();
    errors.invalid_text(at, name, wrong);
    if is_well_formed && !name.contains('/') && !is_standard(name) {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
        return false;
    }
    is_well_formed
}

fn validate_container_resource_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    validate_resource_name(name, at, errors);
    if !name.contains('/') {
        let is_for_containers = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
        if !is_for_containers {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if !is_native_resource(name) && !is_extended_resource(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_resource_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    if validate_resource_name(name, at, errors) && !is_pod_level(name) {
        errors.not_supported(at, name, &["cpu", HUGE_PAGES, "memory"]);
    }
}

/// The value of a quantity; a text that is no quantity counts as zero, since it is reported where it stands.
pub(super) fn amount(quantity: &Quantity) -> Amount {
    quantity::parse(&quantity.0).unwrap_or_default()
}

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether the resource is one of Kubernetes' own.
pub(crate) fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more of it may be promised than there is.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native_resource(name) && !is_huge_page(name)
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

fn is_integer_resource(name: &str) -> bool {
    INTEGER.contains(&name) || is_extended_resource(name)
}

fn is_extended_resource(name: &str) -> bool {
    !is_native_resource(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}
