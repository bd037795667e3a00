//! What a pod needs of each resource, from what its containers ask for (L-801 to L-804).
//!
//! Sidecars run beside the app containers and beside the init containers that follow them; a plain init container runs alone but for the sidecars before it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
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
    let mut requests = aggregate(spec, Bound::Requests);
    override_with(&mut requests, pod_level(spec, Bound::Requests));
    for (name, overhead) in overhead(spec) {
        let sum = requests.get(&name).copied().unwrap_or_default().plus(overhead);
        requests.insert(name, sum);
    }
    requests
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
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &container_amounts(container, bound));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in items(&spec.init_containers) {
        let own = container_amounts(container, bound);
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
}
