//! The numbers that resources become in the kernel: `oom_score_adj`, CPU shares and quotas (L-807 to L-810).

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::absent::items;
use crate::containers::is_sidecar;
use crate::qos::{QosClass, qos_class};
use crate::quantity::Amount;
use crate::resources::{Bound, aggregate, container_amounts, is_pod_level};

/// Priority from which on a pod is critical for its node.
const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;
const SHARES_MIN: i64 = 2;
const SHARES_MAX: i64 = 262_144;
/// The period of a CPU quota in microseconds.
pub const QUOTA_PERIOD_MICROSECONDS: u64 = 100_000;
const QUOTA_MIN_MICROSECONDS: i64 = 1000;

/// A container's `oom_score_adj` (L-807).
pub fn oom_score_adj(pod: &Pod, container: &Container, node_memory_bytes: u64) -> i32 {
    let Some(spec) = &pod.spec else { return 1000 };
    if spec.priority.is_some_and(|priority| priority >= NODE_CRITICAL_PRIORITY) {
        return -997;
    }
    match qos_class(pod) {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => burstable_score(spec, container, node_memory_bytes),
    }
}

fn burstable_score(spec: &PodSpec, container: &Container, node_memory_bytes: u64) -> i32 {
    let share = pod_level_share(spec);
    let score = |container: &Container| {
        let request = i128::from(memory_request(container).saturating_add(share));
        let score = 1000 - 1000 * request / i128::from(node_memory_bytes.max(1));
        i32::try_from(score.clamp(-1000, 1000)).unwrap_or(1000)
    };
    let is_own_sidecar =
        is_sidecar(container) && items(&spec.init_containers).iter().any(|init| init.name == container.name);
    let mut adjusted = score(container);
    if is_own_sidecar && let Some(smallest) = spec.containers.iter().min_by_key(|app| memory_request(app)) {
        adjusted = adjusted.min(score(smallest));
    }
    match adjusted {
        ..3 => 3,
        1000 => 999,
        adjusted => adjusted,
    }
}

/// What of the pod's own memory request falls to each container beyond its own.
fn pod_level_share(spec: &PodSpec) -> i64 {
    let own = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()?.get("memory"));
    let Some(own) = own.and_then(|quantity| Amount::try_from(quantity).ok()) else { return 0 };
    let containers = items(&spec.init_containers).iter().chain(&spec.containers);
    let (count, sum) = containers
        .fold((0i64, 0i64), |(count, sum), container| (count + 1, sum.saturating_add(memory_request(container))));
    own.value().saturating_sub(sum).max(0).checked_div(count).unwrap_or(0)
}

fn memory_request(container: &Container) -> i64 {
    container_amounts(container, Bound::Requests).get("memory").map_or(0, |amount| amount.value())
}

/// CPU shares for an amount of CPU (L-809): 1024 for one.
pub fn cpu_shares(cpu: Amount) -> u64 {
    let shares = cpu.milli_value().saturating_mul(1024) / 1000;
    shares.clamp(SHARES_MIN, SHARES_MAX).unsigned_abs()
}

/// The CPU quota in microseconds per [`QUOTA_PERIOD_MICROSECONDS`] for a limit of CPU; `None` for no limit (L-809).
pub fn cpu_quota_microseconds(limit: Amount) -> Option<i64> {
    (limit > Amount::ZERO).then(|| limit.milli_value().saturating_mul(100).max(QUOTA_MIN_MICROSECONDS))
}

/// The limits of a control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// CPU shares (v1) from which the weight of v2 is made.
    pub cpu_shares: u64,
    /// Microseconds of CPU per [`QUOTA_PERIOD_MICROSECONDS`]; `None` for no limit.
    pub cpu_quota_microseconds: Option<i64>,
    /// Bytes; `None` for no limit.
    pub memory_bytes: Option<i64>,
}

/// The limits of a pod's control group (L-809).
pub fn pod_group_limits(pod: &Pod) -> GroupLimits {
    let Some(spec) = &pod.spec else { return GroupLimits { cpu_shares: 2, ..GroupLimits::default() } };
    let requests = crate::resources::pod_requests(spec);
    let limits = crate::resources::pod_limits(spec);
    let limit = |resource: &str| {
        let declared = qos_class(pod) == QosClass::Guaranteed || is_limit_declared(spec, resource);
        limits.get(resource).copied().filter(|amount| declared && *amount > Amount::ZERO)
    };
    let shares = requests.get("cpu").copied().unwrap_or_default();
    GroupLimits {
        cpu_shares: if qos_class(pod) == QosClass::BestEffort { 2 } else { cpu_shares(shares) },
        cpu_quota_microseconds: limit("cpu").and_then(cpu_quota_microseconds),
        memory_bytes: limit("memory").map(Amount::value),
    }
}

/// The limits of a container's control group (L-810).
pub fn container_group_limits(pod: &Pod, container: &Container) -> GroupLimits {
    let requests = container_amounts(container, Bound::Requests);
    let limits = container_amounts(container, Bound::Limits);
    let pod_level = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.limits.as_ref());
    let limit = |resource: &str| {
        let own = limits.get(resource).copied().filter(|amount| *amount > Amount::ZERO);
        own.or_else(|| Amount::try_from(pod_level?.get(resource)?).ok().filter(|amount| *amount > Amount::ZERO))
    };
    let own = |amounts: &crate::resources::Amounts| amounts.get("cpu").copied().filter(|amount| *amount > Amount::ZERO);
    let cpu = own(&requests).or_else(|| own(&limits)).unwrap_or_default();
    GroupLimits {
        cpu_shares: cpu_shares(cpu),
        cpu_quota_microseconds: limit("cpu").and_then(cpu_quota_microseconds),
        memory_bytes: limit("memory").map(Amount::value),
    }
}

/// Whether every container declares a limit of the resource, or the pod does (L-809).
fn is_limit_declared(spec: &PodSpec, resource: &str) -> bool {
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let is_set = |amount: Amount| amount > Amount::ZERO;
    let own = pod_level.and_then(|limits| Amount::try_from(limits.get(resource)?).ok());
    if is_pod_level(resource) && own.is_some_and(is_set) {
        return true;
    }
    let has = |container: &Container| {
        container_amounts(container, Bound::Limits).get(resource).is_some_and(|amount| *amount > Amount::ZERO)
    };
    // An init container is judged by its cumulative value: a sidecar's limit before it counts for it too.
    let mut cumulative = false;
    let init = items(&spec.init_containers).iter().all(|container| {
        let declared = has(container) || cumulative;
        cumulative |= is_sidecar(container) && has(container);
        declared
    });
    init && spec.containers.iter().all(has) && aggregate(spec, Bound::Limits).contains_key(resource)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn pod(spec: Value) -> Pod {
        Pod { spec: serde_json::from_value(spec).ok(), ..Pod::default() }
    }

    fn score(pod: &Pod, name: &str) -> Option<i32> {
        let spec = pod.spec.as_ref()?;
        let mut containers = items(&spec.init_containers).iter().chain(&spec.containers);
        Some(oom_score_adj(pod, containers.find(|container| container.name == name)?, 4 * GIB))
    }

    #[test]
    fn l_807_a_sidecar_is_killed_no_sooner_than_the_smallest_app_container() {
        let with = |name: &str, memory: &str| json!({"name": name, "resources": {"requests": {"memory": memory}}});
        let sidecar = json!({"name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Mi"}}});
        let pod = pod(json!({"initContainers": [sidecar], "containers": [with("big", "2Gi"), with("small", "1Gi")]}));
        assert_eq!((score(&pod, "big"), score(&pod, "small"), score(&pod, "side")), (Some(500), Some(750), Some(750)));
    }

    #[test]
    fn l_807_classes_have_fixed_scores() {
        assert_eq!(score(&pod(json!({"containers": [{"name": "c"}]})), "c"), Some(1000));
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = json!({"containers": [{"name": "c", "resources": {"requests": both, "limits": both}}]});
        assert_eq!(score(&pod(guaranteed), "c"), Some(-997));
        let tiny = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        assert_eq!(score(&pod(tiny), "c"), Some(999));
    }

    #[test]
    fn l_809_a_pod_is_limited_only_if_every_container_is() {
        let limited = json!({"name": "a", "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": "500m", "memory": "64Mi"}}});
        let both = pod(json!({"containers": [limited]}));
        assert_eq!(
            pod_group_limits(&both),
            GroupLimits { cpu_shares: 256, cpu_quota_microseconds: Some(50_000), memory_bytes: Some(64 << 20) }
        );
        let one = pod(json!({"containers": [limited, {"name": "b"}]}));
        assert_eq!(pod_group_limits(&one), GroupLimits { cpu_shares: 256, ..GroupLimits::default() });
    }

    #[test]
    fn l_810_shares_come_from_the_request_else_from_the_limit() {
        let container =
            |resources: Value| Container { resources: serde_json::from_value(resources).ok(), ..Container::default() };
        let shares = |resources: Value| container_group_limits(&Pod::default(), &container(resources)).cpu_shares;
        assert_eq!(shares(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})), 1024);
        assert_eq!(shares(json!({"limits": {"cpu": "2"}})), 2048);
        assert_eq!(shares(json!({})), 2);
    }
}
