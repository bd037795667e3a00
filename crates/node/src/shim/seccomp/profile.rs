//! A system call profile: rules by name, read from an OCI document, compiled to programs for the kernel.
//!
//! One program has one action for what matches and one for what does not.
//! A profile with several actions becomes several programs, of whose answers the kernel takes the strictest:
//! the main one passes every call that any rule names, and refuses the rest; one more for each other action.

use std::collections::BTreeMap;

use libcontainer::oci_spec::runtime::{
    LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompOperator, LinuxSyscall,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::SeccompError;
use super::syscalls::number;

/// Rules and what happens to a call that none of them names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) default_action: SeccompAction,
    pub(super) rules: Vec<Rule>,
}

/// What happens to some calls if all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) names: Vec<String>,
    pub(super) action: SeccompAction,
    pub(super) conditions: Vec<Condition>,
}

/// A comparison of one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) argument: u8,
    pub(super) operator: SeccompCmpOp,
    pub(super) value: u64,
}

/// The rules of one program: for each call what must hold, any of the list; an empty list always holds.
type ProgramRules = BTreeMap<i64, Vec<SeccompRule>>;

impl Profile {
    /// Reads an OCI seccomp document.
    pub(super) fn from_oci(json: &str) -> Result<Profile, SeccompError> {
        let document: LinuxSeccomp = serde_json::from_str(json).map_err(SeccompError::Syntax)?;
        let default_action = action(document.default_action(), document.default_errno_ret())?;
        let mut rules = Vec::new();
        for syscall in document.syscalls().iter().flatten() {
            rules.extend(oci_rules(syscall)?);
        }
        Ok(Profile { default_action, rules })
    }

    /// Compiles the programs, in the order in which they are to be installed: the main one last, since it may refuse `seccomp` itself.
    pub(super) fn compile(&self) -> Result<Vec<BpfProgram>, SeccompError> {
        let mut programs = Vec::new();
        for action in self.other_actions() {
            let rules = program_rules(self.rules.iter().filter(|rule| rule.action == action))?;
            if !rules.is_empty() {
                programs.push(compile_program(rules, SeccompAction::Allow, action)?);
            }
        }
        if self.default_action != SeccompAction::Allow {
            let named = program_rules(self.rules.iter().filter(|rule| rule.action != self.default_action))?;
            programs.push(compile_program(named, self.default_action.clone(), SeccompAction::Allow)?);
        }
        Ok(programs)
    }

    /// Each action once that is neither the default nor to allow.
    fn other_actions(&self) -> Vec<SeccompAction> {
        let mut actions = Vec::new();
        for rule in &self.rules {
            if rule.action != self.default_action
                && rule.action != SeccompAction::Allow
                && !actions.contains(&rule.action)
            {
                actions.push(rule.action.clone());
            }
        }
        actions
    }
}

fn compile_program(
    rules: ProgramRules,
    mismatch: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, SeccompError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(SeccompError::Compile)?;
    let filter = SeccompFilter::new(rules, mismatch, matched, architecture).map_err(SeccompError::Compile)?;
    filter.try_into().map_err(SeccompError::Compile)
}

fn program_rules<'a>(rules: impl Iterator<Item = &'a Rule>) -> Result<ProgramRules, SeccompError> {
    let mut program = ProgramRules::new();
    let mut unconditional = Vec::new();
    for rule in rules {
        // A call that this machine does not have needs no rule.
        for call in rule.names.iter().filter_map(|name| number(name)) {
            if rule.conditions.is_empty() {
                unconditional.push(call);
            } else {
                program.entry(call).or_default().push(seccomp_rule(&rule.conditions).map_err(SeccompError::Compile)?);
            }
        }
    }
    // What always holds makes every condition of the same call moot.
    program.extend(unconditional.into_iter().map(|call| (call, Vec::new())));
    Ok(program)
}

fn seccomp_rule(conditions: &[Condition]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions
        .iter()
        .map(|it| SeccompCondition::new(it.argument, SeccompCmpArgLen::Qword, it.operator.clone(), it.value))
        .collect::<Result<Vec<_>, _>>()?;
    SeccompRule::new(conditions)
}

/// One OCI entry as rules: conditions on different arguments must all hold; if one argument is named twice, any of them suffices, as runc has it.
fn oci_rules(syscall: &LinuxSyscall) -> Result<Vec<Rule>, SeccompError> {
    let action = action(syscall.action(), syscall.errno_ret())?;
    let conditions = syscall.args().iter().flatten().map(condition).collect::<Result<Vec<_>, _>>()?;
    let mut arguments: Vec<u8> = conditions.iter().map(|condition| condition.argument).collect();
    arguments.sort_unstable();
    arguments.dedup();
    let rule = |conditions| Rule { names: syscall.names().clone(), action: action.clone(), conditions };
    if arguments.len() == conditions.len() {
        return Ok(vec![rule(conditions)]);
    }
    Ok(conditions.into_iter().map(|condition| rule(vec![condition])).collect())
}

fn condition(argument: &LinuxSeccompArg) -> Result<Condition, SeccompError> {
    let index = u8::try_from(argument.index()).ok().filter(|index| *index < 6);
    let (operator, value) = match argument.op() {
        LinuxSeccompOperator::ScmpCmpNe => (SeccompCmpOp::Ne, argument.value()),
        LinuxSeccompOperator::ScmpCmpLt => (SeccompCmpOp::Lt, argument.value()),
        LinuxSeccompOperator::ScmpCmpLe => (SeccompCmpOp::Le, argument.value()),
        LinuxSeccompOperator::ScmpCmpEq => (SeccompCmpOp::Eq, argument.value()),
        LinuxSeccompOperator::ScmpCmpGe => (SeccompCmpOp::Ge, argument.value()),
        LinuxSeccompOperator::ScmpCmpGt => (SeccompCmpOp::Gt, argument.value()),
        // OCI: `value` is the mask, `valueTwo` what the masked argument must be.
        LinuxSeccompOperator::ScmpCmpMaskedEq => {
            (SeccompCmpOp::MaskedEq(argument.value()), argument.value_two().unwrap_or(0))
        }
    };
    let argument = index.ok_or(SeccompError::Argument { index: argument.index() })?;
    Ok(Condition { argument, operator, value })
}

fn action(action: LinuxSeccompAction, number: Option<u32>) -> Result<SeccompAction, SeccompError> {
    let number = number.unwrap_or(libc::EPERM.unsigned_abs());
    Ok(match action {
        LinuxSeccompAction::ScmpActAllow => SeccompAction::Allow,
        LinuxSeccompAction::ScmpActErrno => SeccompAction::Errno(number),
        LinuxSeccompAction::ScmpActKill | LinuxSeccompAction::ScmpActKillThread => SeccompAction::KillThread,
        LinuxSeccompAction::ScmpActKillProcess => SeccompAction::KillProcess,
        LinuxSeccompAction::ScmpActLog => SeccompAction::Log,
        LinuxSeccompAction::ScmpActTrace => SeccompAction::Trace(number),
        LinuxSeccompAction::ScmpActTrap => SeccompAction::Trap,
        LinuxSeccompAction::ScmpActNotify => return Err(SeccompError::Notify),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    fn rule(names: &[&str], action: SeccompAction, conditions: Vec<Condition>) -> Rule {
        Rule { names: names.iter().map(|name| (*name).to_owned()).collect(), action, conditions }
    }

    #[test]
    fn an_oci_document_becomes_rules_as_runc_reads_it() -> Result {
        let profile = Profile::from_oci(
            r#"{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "syscalls": [
                {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
                {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
                 "args": [{"index": 0, "value": 6, "valueTwo": 2, "op": "SCMP_CMP_MASKED_EQ"},
                          {"index": 1, "value": 7, "op": "SCMP_CMP_NE"}]},
                {"names": ["socket"], "action": "SCMP_ACT_TRAP",
                 "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}, {"index": 0, "value": 2, "op": "SCMP_CMP_GT"}]}
            ]}"#,
        )?;
        let condition = |argument, operator, value| Condition { argument, operator, value };
        let expected = Profile {
            default_action: SeccompAction::Errno(38),
            rules: vec![
                rule(&["read", "write"], SeccompAction::Allow, vec![]),
                rule(
                    &["clone"],
                    SeccompAction::Allow,
                    vec![condition(0, SeccompCmpOp::MaskedEq(6), 2), condition(1, SeccompCmpOp::Ne, 7)],
                ),
                // One argument twice: either suffices.
                rule(&["socket"], SeccompAction::Trap, vec![condition(0, SeccompCmpOp::Eq, 1)]),
                rule(&["socket"], SeccompAction::Trap, vec![condition(0, SeccompCmpOp::Gt, 2)]),
            ],
        };
        assert_eq!(profile, expected);
        // One program for the trap, and the main one.
        assert_eq!(profile.compile()?.len(), 2);
        Ok(())
    }

    #[test]
    fn a_profile_that_allows_everything_needs_no_program_and_one_that_asks_a_supervisor_is_refused() -> Result {
        let open = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["no_such_call"], "action": "SCMP_ACT_KILL"}]}"#;
        assert_eq!(Profile::from_oci(open)?.compile()?.len(), 0);
        let asking =
            r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_NOTIFY"}]}"#;
        assert!(matches!(Profile::from_oci(asking), Err(SeccompError::Notify)));
        let wrong = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["read"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]}]}"#;
        assert!(matches!(Profile::from_oci(wrong), Err(SeccompError::Argument { index: 6 })));
        Ok(())
    }
}
