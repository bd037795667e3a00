//! A pod's quality of service class (L-805, L-806).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, ResourceRequirements};

use crate::absent::items;
use crate::quantity::Amount;
use crate::resources::{Amounts, amounts};

/// The classes, by their names in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits of CPU and memory, and requests equal to them.
    Guaranteed,
    /// Some container asks for something.
    Burstable,
    /// No container asks for anything.
    BestEffort,
}

impl QosClass {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "Guaranteed",
            QosClass::Burstable => "Burstable",
            QosClass::BestEffort => "BestEffort",
        }
    }
}

/// The class in the pod's status, else the one that its spec comes to.
pub fn qos_class(pod: &Pod) -> QosClass {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        _ => compute_qos_class(pod),
    }
}

/// The class that the pod's spec comes to.
pub fn compute_qos_class(pod: &Pod) -> QosClass {
    pod.spec.as_ref().map_or(QosClass::BestEffort, compute)
}

fn compute(spec: &PodSpec) -> QosClass {
    if let Some(resources) = spec.resources.as_ref().filter(|resources| names_any(resources)) {
        return judge([Some(resources)].into_iter());
    }
    let containers = items(&spec.init_containers).iter().chain(&spec.containers);
    judge(containers.map(|container| container.resources.as_ref()))
}

fn names_any(resources: &ResourceRequirements) -> bool {
    [&resources.requests, &resources.limits].into_iter().flatten().any(|list| !list.is_empty())
}

fn judge<'a>(all: impl Iterator<Item = Option<&'a ResourceRequirements>>) -> QosClass {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut every_limit = true;
    for resources in all {
        let own = |list: Option<&BTreeMap<String, _>>| compute_amounts(list.map(amounts).unwrap_or_default());
        let own_requests = own(resources.and_then(|resources| resources.requests.as_ref()));
        let own_limits = own(resources.and_then(|resources| resources.limits.as_ref()));
        every_limit &= own_limits.len() == 2;
        add(&mut requests, own_requests);
        add(&mut limits, own_limits);
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if every_limit && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// CPU and memory, zeros left out.
fn compute_amounts(mut amounts: Amounts) -> Amounts {
    amounts.retain(|name, amount| matches!(name.as_str(), "cpu" | "memory") && *amount > Amount::ZERO);
    amounts
}

fn add(sums: &mut Amounts, values: Amounts) {
    for (name, value) in values {
        let sum = sums.get(&name).copied().unwrap_or_default().plus(value);
        sums.insert(name, sum);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(spec: Value) -> &'static str {
        let pod = Pod { spec: serde_json::from_value(spec).ok(), ..Pod::default() };
        compute_qos_class(&pod).as_str()
    }

    fn full() -> Value {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        json!({"name": "c", "resources": {"requests": both, "limits": both}})
    }

    #[test]
    fn l_805_the_class_comes_from_cpu_and_memory_of_all_but_ephemeral_containers() {
        assert_eq!(class(json!({"containers": [{"name": "c"}]})), "BestEffort");
        assert_eq!(class(json!({"containers": [full()]})), "Guaranteed");
        let gpu = json!({"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}});
        assert_eq!(class(json!({"containers": [gpu]})), "BestEffort");
        let zero = json!({"name": "c", "resources": {"requests": {"cpu": "0"}}});
        assert_eq!(class(json!({"containers": [zero]})), "BestEffort");
        let cpu_only = json!({"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}});
        assert_eq!(class(json!({"containers": [cpu_only]})), "Burstable");
    }

    #[test]
    fn l_806_one_init_container_without_limits_makes_the_pod_burstable() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always"});
        assert_eq!(class(json!({"containers": [full()], "initContainers": [sidecar]})), "Burstable");
        assert_eq!(class(json!({"containers": [full()], "initContainers": [full()]})), "Guaranteed");
    }

    #[test]
    fn l_805_pod_level_resources_alone_decide() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let resources = json!({"requests": both, "limits": both});
        assert_eq!(class(json!({"resources": resources, "containers": [{"name": "c"}]})), "Guaranteed");
    }
}
