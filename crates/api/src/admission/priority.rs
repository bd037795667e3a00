//! Priority: a pod's number and preemption policy come from its class.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use thiserror::Error;

use crate::absent::{flag, text};

const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

/// Why a pod's priority is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PriorityRefusal {
    /// The class does not exist.
    #[error("no PriorityClass with name {0} was found")]
    UnknownClass(String),
    /// The pod names another number than its class.
    #[error(
        "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    OtherPriority {
        /// The pod's number.
        given: i32,
        /// The class's number.
        computed: i32,
    },
    /// The pod names another policy than its class.
    #[error(
        "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {computed} from the given PriorityClass name"
    )]
    OtherPreemptionPolicy {
        /// The pod's policy.
        given: String,
        /// The class's policy.
        computed: String,
    },
}

/// Sets priority and preemption policy from the pod's class, or from the default one of those that exist.
/// The system's two classes exist always.
pub fn set_priority(pod: &mut Pod, classes: &[PriorityClass]) -> Result<(), PriorityRefusal> {
    let spec = pod.spec.get_or_insert_default();
    let name = text(&spec.priority_class_name).to_owned();
    let (name, computed, policy) = match name.as_str() {
        "" => default_priority(classes),
        _ => class_priority(&name, classes).ok_or(PriorityRefusal::UnknownClass(name))?,
    };
    if let Some(given) = spec.priority.filter(|given| *given != computed) {
        return Err(PriorityRefusal::OtherPriority { given, computed });
    }
    let given = spec.preemption_policy.clone();
    if let (Some(given), Some(policy)) = (given, &policy)
        && given != *policy
    {
        return Err(PriorityRefusal::OtherPreemptionPolicy { given, computed: policy.clone() });
    }
    spec.priority_class_name = name;
    spec.priority = Some(computed);
    if policy.is_some() {
        spec.preemption_policy = policy;
    }
    Ok(())
}

type Computed = (Option<String>, i32, Option<String>);

fn default_priority(classes: &[PriorityClass]) -> Computed {
    let defaults = classes.iter().filter(|class| flag(class.global_default));
    match defaults.min_by_key(|class| class.value.unwrap_or(0)) {
        Some(class) => computed(class),
        None => (None, 0, Some(PREEMPT_LOWER_PRIORITY.to_owned())),
    }
}

fn class_priority(name: &str, classes: &[PriorityClass]) -> Option<Computed> {
    let system = |value| Some((Some(name.to_owned()), value, Some(PREEMPT_LOWER_PRIORITY.to_owned())));
    match (classes.iter().find(|class| text(&class.metadata.name) == name), name) {
        (Some(class), _) => Some(computed(class)),
        (None, "system-node-critical") => system(2_000_001_000),
        (None, "system-cluster-critical") => system(2_000_000_000),
        (None, _) => None,
    }
}

fn computed(class: &PriorityClass) -> Computed {
    (class.metadata.name.clone(), class.value.unwrap_or(0), class.preemption_policy.clone())
}
