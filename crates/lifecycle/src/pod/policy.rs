//! What a container's exit means: restart, restart of all, or rest.
//!
//! Pure functions over spec and exit code (L-101 to L-108).
//! When a restart happens is not decided here: see `crash_loop`.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

/// A restart policy, the pod's or a container's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    /// Reads the API's text; what is absent or unknown is `None`.
    pub(crate) fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            Some("Always") => Some(RestartPolicy::Always),
            Some("OnFailure") => Some(RestartPolicy::OnFailure),
            Some("Never") => Some(RestartPolicy::Never),
            _ => None,
        }
    }

    fn restarts(self, exit_code: i32) -> bool {
        match self {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        }
    }
}

/// What a matching rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleAction {
    Restart,
    RestartAllContainers,
}

/// One of a container's `restartPolicyRules`, made ready for matching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestartRule {
    action: RuleAction,
    not_in: bool,
    values: Vec<i32>,
}

impl RestartRule {
    /// A rule without `exitCodes`, or with an operator or action that nobody knows, never matches (L-105).
    fn read(rule: &ContainerRestartRule) -> Option<Self> {
        let action = match rule.action.as_str() {
            "Restart" => RuleAction::Restart,
            "RestartAllContainers" => RuleAction::RestartAllContainers,
            _ => return None,
        };
        let exit_codes = rule.exit_codes.as_ref()?;
        let not_in = match exit_codes.operator.as_str() {
            "In" => false,
            "NotIn" => true,
            _ => return None,
        };
        Some(RestartRule { action, not_in, values: exit_codes.values.clone().unwrap_or_default() })
    }

    fn matches(&self, exit_code: i32) -> bool {
        self.values.contains(&exit_code) != self.not_in
    }
}

/// All that decides whether a container is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestartDecision {
    /// The container's own `restartPolicy`.
    pub(crate) own: Option<RestartPolicy>,
    /// The pod's.
    pub(crate) pod: RestartPolicy,
    rules: Vec<RestartRule>,
}

impl RestartDecision {
    pub(crate) fn of(container: &Container, pod: RestartPolicy) -> Self {
        let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
        RestartDecision {
            own: RestartPolicy::parse(container.restart_policy.as_deref()),
            pod,
            rules: rules.iter().filter_map(RestartRule::read).collect(),
        }
    }

    /// For ephemeral containers, which nothing restarts (L-103).
    pub(crate) fn never() -> Self {
        RestartDecision { own: Some(RestartPolicy::Never), pod: RestartPolicy::Never, rules: Vec::new() }
    }

    /// The action of the first rule that matches; rules count only beside an own policy (L-105).
    pub(crate) fn rule_for(&self, exit_code: i32) -> Option<RuleAction> {
        self.own?;
        self.rules.iter().find(|rule| rule.matches(exit_code)).map(|rule| rule.action)
    }

    /// `shouldRestart` (L-105): rules, then the own policy, then the pod's.
    pub(crate) fn should_restart(&self, exit_code: i32) -> bool {
        self.rule_for(exit_code).is_some() || self.policy().restarts(exit_code)
    }

    /// The own policy, else the pod's.
    pub(crate) fn policy(&self) -> RestartPolicy {
        self.own.unwrap_or(self.pod)
    }

    /// Whether a container that the node kills is started again (L-108: rules are not asked).
    pub(crate) fn restarts_after_kill(&self) -> bool {
        self.policy() != RestartPolicy::Never
    }

    /// True if any rule may restart the whole pod in place (L-112).
    pub(crate) fn has_restart_all(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == RuleAction::RestartAllContainers)
    }
}
