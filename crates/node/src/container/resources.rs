//! Cgroups of pods and containers: names and limits (L-807 to L-810).
//!
//! The numbers are `api::oom`'s; here they become what the runtime is asked for.

use api::oom::{GroupLimits, QUOTA_PERIOD_MICROSECONDS, container_group_limits, pod_group_limits};
use api::qos::{QosClass, qos_class};
use k8s_openapi::api::core::v1::{Container, Pod};
use lifecycle::PodUid;

use crate::runtime::config::LinuxResources;

/// The pod's cgroup below the runtime's own (L-808).
pub fn pod_cgroup(pod: &Pod) -> String {
    let uid = PodUid(pod.metadata.uid.clone().unwrap_or_default());
    cgroup_of_class(&uid, qos_class(pod))
}

/// Every cgroup that a pod of that uid can have: one for each class.
pub fn possible_pod_cgroups(uid: &PodUid) -> [String; 3] {
    [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort].map(|class| cgroup_of_class(uid, class))
}

fn cgroup_of_class(uid: &PodUid, class: QosClass) -> String {
    match class {
        QosClass::Guaranteed => format!("kubepods/pod{uid}"),
        QosClass::Burstable => format!("kubepods/burstable/pod{uid}"),
        QosClass::BestEffort => format!("kubepods/besteffort/pod{uid}"),
    }
}

/// The limits of the pod's cgroup.
pub fn pod_resources(pod: &Pod) -> LinuxResources {
    linux_resources(&pod_group_limits(pod), false)
}

/// The limits of a container's cgroup; an out-of-memory kill ends the whole container where the kernel can do that.
pub fn container_resources(pod: &Pod, container: &Container) -> LinuxResources {
    linux_resources(&container_group_limits(pod, container), true)
}

fn linux_resources(limits: &GroupLimits, oom_group: bool) -> LinuxResources {
    let positive = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let quota = positive(limits.cpu_quota_microseconds);
    LinuxResources {
        cpu_shares: Some(limits.cpu_shares),
        cpu_quota_microseconds: quota,
        cpu_period_microseconds: quota.map(|_| QUOTA_PERIOD_MICROSECONDS),
        memory_limit_bytes: positive(limits.memory_bytes),
        pids_limit: None,
        oom_group,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(resources: Value) -> serde_json::Result<Pod> {
        serde_json::from_value(json!({
            "metadata": {"uid": "1-2"},
            "spec": {"containers": [{"name": "c", "resources": resources}]},
        }))
    }

    #[test]
    fn the_cgroup_follows_the_class() -> serde_json::Result<()> {
        let guaranteed = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
        let cases = [
            (guaranteed, "kubepods/pod1-2"),
            (json!({"requests": {"cpu": "1"}}), "kubepods/burstable/pod1-2"),
            (json!({}), "kubepods/besteffort/pod1-2"),
        ];
        for (resources, expected) in cases {
            assert_eq!(pod_cgroup(&pod(resources)?), expected);
            assert!(possible_pod_cgroups(&PodUid("1-2".into())).contains(&expected.to_owned()));
        }
        Ok(())
    }

    #[test]
    fn limits_become_the_kernels_numbers() -> serde_json::Result<()> {
        let pod = pod(json!({"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}))?;
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first()).cloned().unwrap_or_default();
        let expected = LinuxResources {
            cpu_shares: Some(256),
            cpu_quota_microseconds: Some(50_000),
            cpu_period_microseconds: Some(100_000),
            memory_limit_bytes: Some(64 << 20),
            pids_limit: None,
            oom_group: true,
        };
        assert_eq!(container_resources(&pod, &container), expected);
        assert_eq!(pod_resources(&pod), LinuxResources { oom_group: false, ..expected });
        Ok(())
    }

    #[test]
    fn without_limits_there_are_shares_alone() -> serde_json::Result<()> {
        let expected = LinuxResources { cpu_shares: Some(2), ..LinuxResources::default() };
        assert_eq!(pod_resources(&pod(json!({}))?), expected);
        Ok(())
    }
}
