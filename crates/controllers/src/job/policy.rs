//! podFailurePolicy (J-93 to J-97) and successPolicy (J-98).

use k8s_openapi::api::batch::v1::{
    Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::indexes::Indexes;
use crate::object::{name_of, namespace_of};

/// What the policy says of one failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The failure counts.
    Count,
    /// The failure doesn't count.
    Ignore,
    /// The failure counts and ends its index.
    FailIndex,
    /// The failure counts and ends the Job, with this message.
    FailJob(String),
}

impl Verdict {
    /// True if the failure counts against the limits and in the status.
    pub(crate) fn counts(&self) -> bool {
        *self != Verdict::Ignore
    }
}

/// Judges a failed pod: the first rule that matches decides (J-93).
pub(crate) fn judge(job: &Job, pod: &Pod) -> Verdict {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    let Some(policy) = policy else {
        return Verdict::Count;
    };
    let per_index = job.spec.as_ref().is_some_and(|spec| spec.backoff_limit_per_index.is_some());
    for (number, rule) in policy.rules.iter().enumerate() {
        let Some(what) = match_rule(rule, pod) else {
            continue;
        };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "Count" => return Verdict::Count,
            "FailIndex" if per_index => return Verdict::FailIndex,
            "FailJob" => {
                let message = format!("{what} matching FailJob rule at index {number}");
                return Verdict::FailJob(message);
            }
            // A rule of a newer version is skipped (J-93).
            _ => {}
        }
    }
    Verdict::Count
}

/// Says what of the pod matches the rule, if anything does (J-94, J-95).
fn match_rule(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (namespace_of(&pod.metadata), name_of(&pod.metadata));
    if let Some(requirement) = &rule.on_exit_codes {
        let (container, exit_code) = match_exit_codes(requirement, pod)?;
        return Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {exit_code}"));
    }
    let condition = match_conditions(rule, pod)?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

/// The first container that ended with a code that matches: app containers first, then init containers.
fn match_exit_codes<'a>(requirement: &PodFailurePolicyOnExitCodesRequirement, pod: &'a Pod) -> Option<(&'a str, i32)> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let all = containers.chain(status.init_container_statuses.iter().flatten());
    let mut ended = all.filter_map(|container| exit_code(container).map(|code| (container, code)));
    ended
        .find(|(container, code)| {
            let named = requirement.container_name.as_ref();
            named.is_none_or(|name| *name == container.name)
                && *code != 0
                && match requirement.operator.as_str() {
                    "In" => requirement.values.contains(code),
                    "NotIn" => !requirement.values.contains(code),
                    _ => false,
                }
        })
        .map(|(container, code)| (container.name.as_str(), code))
}

fn exit_code(container: &ContainerStatus) -> Option<i32> {
    let terminated = container.state.as_ref()?.terminated.as_ref()?;
    Some(terminated.exit_code)
}

fn match_conditions<'a>(rule: &PodFailurePolicyRule, pod: &'a Pod) -> Option<&'a PodCondition> {
    let patterns = rule.on_pod_conditions.as_ref()?;
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        patterns.iter().any(|pattern| {
            // J-9: a pattern's status is True unless it says otherwise.
            let status = pattern.status.as_deref().unwrap_or("True");
            condition.type_ == pattern.type_ && condition.status == status
        })
    })
}

/// The message of the first success rule that the succeeded indexes meet (J-98).
pub(crate) fn met_success_rule(job: &Job, succeeded: &Indexes, completions: u32) -> Option<String> {
    let policy = job.spec.as_ref()?.success_policy.as_ref()?;
    if succeeded.is_empty() {
        return None;
    }
    let mut rules = policy.rules.iter();
    let met = rules.position(|rule| is_met(rule, succeeded, completions))?;
    Some(format!("Matched rules at index {met}"))
}

fn is_met(rule: &SuccessPolicyRule, succeeded: &Indexes, completions: u32) -> bool {
    let reaches = |number: u32| {
        let wanted = rule.succeeded_count.and_then(|count| u32::try_from(count).ok());
        wanted.is_some_and(|wanted| number >= wanted)
    };
    let Some(text) = &rule.succeeded_indexes else {
        return reaches(succeeded.len());
    };
    let required = Indexes::parse(text, completions);
    let earned = required.overlap(succeeded);
    !required.is_empty() && (earned == required.len() || reaches(earned))
}
