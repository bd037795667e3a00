//! What a pod needs of each resource, from what its containers ask for (L-801 to L-803).
//!
//! Sidecars run beside the app containers and beside the init containers that follow them; a plain init container runs alone but for the sidecars before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::absent::items;
use crate::containers::is_sidecar;
use crate::quantity::{self, Amount};

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Amount>;

/// Which of the two a sum is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// What is set aside.
    Requests,
    /// What is the most.
    Limits,
}

/// What the pod is to be given of each resource (L-801, L-802).
pub fn pod_requests(spec: &PodSpec) -> Amounts {
    complete_requests(spec, aggregate(spec, Bound::Requests))
}

/// What of each resource must be kept free for the pod while it may be between two sizes (L-803).
///
/// For app containers and sidecars that is the most of what they ask for, have been promised and have; if the node has said that it can never give what they ask for, that does not count.
pub fn pod_requests_while_resizing(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let Some(status) = &pod.status else { return pod_requests(spec) };
    let is_infeasible = is_resize_infeasible(status);
    let effective = |container: &Container, statuses: &Option<Vec<ContainerStatus>>| {
        let asked = container_amounts(container, Bound::Requests);
        let found = items(statuses).iter().find(|status| status.name == container.name);
        match found.and_then(|status| status.resources.as_ref().map(|actual| (status, actual))) {
            Some((status, actual)) => {
                let mut most = if is_infeasible { Amounts::new() } else { asked };
                raise(&mut most, &requirements(actual, Bound::Requests));
                raise(&mut most, &status.allocated_resources.as_ref().map(amounts).unwrap_or_default());
                most
            }
            None => asked,
        }
    };
    let requests = aggregate_of(spec, |container, is_init| match (is_init, is_sidecar(container)) {
        (false, _) => effective(container, &status.container_statuses),
        (true, true) => effective(container, &status.init_container_statuses),
        (true, false) => container_amounts(container, Bound::Requests),
    });
    complete_requests(spec, requests)
}

/// Replaces what the pod asks for itself, and adds its overhead (L-802).
fn complete_requests(spec: &PodSpec, mut requests: Amounts) -> Amounts {
    override_with(&mut requests, pod_level(spec, Bound::Requests));
    for (name, overhead) in overhead(spec) {
        let sum = requests.get(&name).copied().unwrap_or_default().plus(overhead);
        requests.insert(name, sum);
    }
    requests
}

fn is_resize_infeasible(status: &PodStatus) -> bool {
    let pending = items(&status.conditions).iter().find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

/// The most that the pod may use of each resource; one without a limit is absent (L-801, L-802).
pub fn pod_limits(spec: &PodSpec) -> Amounts {
    let mut limits = aggregate(spec, Bound::Limits);
    override_with(&mut limits, pod_level(spec, Bound::Limits));
    for (name, overhead) in overhead(spec) {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = limit.plus(overhead);
        }
    }
    limits
}

/// What the containers come to together, without the pod's own values (L-801).
pub fn aggregate(spec: &PodSpec, bound: Bound) -> Amounts {
    aggregate_of(spec, |container, _is_init| container_amounts(container, bound))
}

/// The same with the amounts that the function gives for a container, of which it is told whether it is an init container.
fn aggregate_of(spec: &PodSpec, amounts_of: impl Fn(&Container, bool) -> Amounts) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &amounts_of(container, false));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in items(&spec.init_containers) {
        let own = amounts_of(container, true);
        if is_sidecar(container) {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut alone = sidecars.clone();
            add(&mut alone, &own);
            raise(&mut starting, &alone);
        }
    }
    raise(&mut running, &starting);
    running
}

/// What a container asks for of each resource, or may use at the most.
pub fn container_amounts(container: &Container, bound: Bound) -> Amounts {
    container.resources.as_ref().map(|resources| requirements(resources, bound)).unwrap_or_default()
}

/// Whether a pod-level value of the resource counts (L-802).
pub fn is_pod_level(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Puts a quantity into its canonical form, as the API server stores it.
pub fn canonical(quantity: &mut Quantity) {
    quantity.0 = quantity::canonical(quantity);
}

/// A list of quantities as amounts; validation has refused what is no quantity, and nothing is taken for it.
pub fn amounts(list: &BTreeMap<String, Quantity>) -> Amounts {
    list.iter().map(|(name, quantity)| (name.clone(), Amount::try_from(quantity).unwrap_or_default())).collect()
}

fn requirements(resources: &ResourceRequirements, bound: Bound) -> Amounts {
    let list = match bound {
        Bound::Requests => &resources.requests,
        Bound::Limits => &resources.limits,
    };
    list.as_ref().map(amounts).unwrap_or_default()
}

fn pod_level(spec: &PodSpec, bound: Bound) -> Amounts {
    let mut own = spec.resources.as_ref().map(|resources| requirements(resources, bound)).unwrap_or_default();
    own.retain(|name, _| is_pod_level(name));
    own
}

fn overhead(spec: &PodSpec) -> Amounts {
    spec.overhead.as_ref().map(amounts).unwrap_or_default()
}

fn override_with(sums: &mut Amounts, values: Amounts) {
    sums.extend(values);
}

fn add(sums: &mut Amounts, values: &Amounts) {
    for (name, value) in values {
        let sum = sums.get(name).copied().unwrap_or_default().plus(*value);
        sums.insert(name.clone(), sum);
    }
}

fn raise(sums: &mut Amounts, values: &Amounts) {
    for (name, value) in values {
        let sum = sums.entry(name.clone()).or_insert(*value);
        *sum = (*sum).max(*value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap_or_default()
    }

    fn container(name: &str, cpu: &str, sidecar: bool) -> Value {
        let mut container = json!({"name": name, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
        if sidecar && let Some(fields) = container.as_object_mut() {
            fields.insert("restartPolicy".to_owned(), "Always".into());
        }
        container
    }

    fn shown(amounts: &Amounts) -> Vec<String> {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    #[test]
    fn l_801_sidecars_count_with_apps_and_with_the_init_containers_behind_them() {
        let rows = [
            // (init containers, app containers, effective request)
            (json!([]), json!([container("a", "1", false), container("b", "2", false)]), "cpu=3"),
            (json!([container("i", "5", false)]), json!([container("a", "1", false)]), "cpu=5"),
            (json!([container("s", "1", true)]), json!([container("a", "1", false)]), "cpu=2"),
            // The plain init container is charged with the sidecar before it, not with the one behind it.
            (
                json!([container("s1", "1", true), container("i", "4", false), container("s2", "2", true)]),
                json!([container("a", "500m", false)]),
                "cpu=5",
            ),
            (
                json!([container("i", "4", false), container("s", "1", true)]),
                json!([container("a", "2", false)]),
                "cpu=4",
            ),
        ];
        for (init, apps, wanted) in rows {
            let spec = spec(json!({"initContainers": init, "containers": apps}));
            assert_eq!(shown(&pod_requests(&spec)), [wanted]);
            assert_eq!(shown(&pod_limits(&spec)), [wanted]);
        }
    }

    #[test]
    fn l_802_pod_level_values_replace_sums_and_overhead_is_added() {
        let spec = spec(json!({
            "resources": {"requests": {"cpu": "3", "example.com/gpu": "9"}, "limits": {"memory": "1Gi"}},
            "overhead": {"cpu": "100m", "memory": "10Mi"},
            "containers": [container("a", "1", false)],
        }));
        assert_eq!(shown(&pod_requests(&spec)), ["cpu=3100m", "memory=10Mi"]);
        assert_eq!(shown(&pod_limits(&spec)), ["cpu=1100m", "memory=1034Mi"]);
    }

    #[test]
    fn l_803_a_pod_between_two_sizes_needs_the_larger_one() {
        let status = |name: &str, actual: &str, allocated: &str| {
            let sizes = json!({"requests": {"cpu": actual}});
            json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "resources": sizes, "allocatedResources": {"cpu": allocated}})
        };
        let needs = |reason: Option<&str>, statuses: Value| {
            let conditions =
                reason.map(|reason| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]));
            let pod: Pod = serde_json::from_value(json!({
                "spec": {"initContainers": [container("s", "1", true), container("i", "1", false)], "containers": [container("a", "2", false)]},
                "status": {"containerStatuses": statuses, "initContainerStatuses": [status("s", "500m", "3"), status("i", "9", "9")], "conditions": conditions},
            }))
            .unwrap_or_default();
            shown(&pod_requests_while_resizing(&pod))
        };
        // The sidecar has been promised 3; the plain init container counts as it is written.
        assert_eq!(needs(None, json!([])), ["cpu=5"]);
        assert_eq!(needs(None, json!([status("a", "1", "1500m")])), ["cpu=5"]);
        assert_eq!(needs(Some("Deferred"), json!([status("a", "4", "1500m")])), ["cpu=7"]);
        assert_eq!(needs(Some("Infeasible"), json!([status("a", "1", "1500m")])), ["cpu=4500m"]);
    }
}
