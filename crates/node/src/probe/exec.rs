//! `exec`: a program in the container, judged by its exit code (L-410).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction};
use lifecycle::ContainerId;
use lifecycle::input::ProbeOutcome;

use crate::container::expansion::expand;
use crate::runtime::{CapturedExec, RuntimeError, RuntimeService};
use crate::wording;

/// So much of the output is kept.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

pub(super) async fn attempt(
    runtime: &RuntimeService,
    id: &ContainerId,
    container: &Container,
    action: &ExecAction,
    timeout: Duration,
) -> ProbeOutcome {
    let argv = argv(action, container);
    let captured = runtime.exec_captured(id, &argv, Some(timeout), OUTPUT_BYTES_MAX).await;
    outcome(&argv, timeout, captured)
}

/// The command, expanded from the values that stand in `env`; what comes from elsewhere counts as empty, as in the kubelet.
fn argv(action: &ExecAction, container: &Container) -> Vec<String> {
    let lookup = |name: &str| {
        let mut named = container.env.iter().flatten().filter(|variable| variable.name == name);
        named.next_back().map(|variable| variable.value.clone().unwrap_or_default())
    };
    action.command.iter().flatten().map(|word| expand(word, &lookup)).collect()
}

fn outcome(argv: &[String], timeout: Duration, captured: Result<CapturedExec, RuntimeError>) -> ProbeOutcome {
    match captured {
        Ok(captured) if captured.exit.timed_out => {
            let command = wording::quoted(&argv.join(" "));
            let timeout = wording::seconds(timeout.as_secs());
            ProbeOutcome::Failure(format!("command timed out: {command} timed out after {timeout}"))
        }
        Ok(captured) if captured.exit.exit_code == 0 => ProbeOutcome::Success,
        Ok(captured) => ProbeOutcome::Failure(String::from_utf8_lossy(&captured.output).into_owned()),
        Err(error) => ProbeOutcome::Error(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shim::ExecExit;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_is_expanded_from_literal_values_alone() -> Result<(), serde_json::Error> {
        let container: Container = serde_json::from_value(json!({"name": "c", "env": [
            {"name": "A", "value": "one"}, {"name": "A", "value": "two"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]}))?;
        let action = ExecAction { command: Some(words("cat $(A) <$(B)> $(C)")) };
        assert_eq!(argv(&action, &container), words("cat two <> $(C)"));
        Ok(())
    }

    #[test]
    fn the_exit_code_decides() {
        let ended = |exit_code, timed_out| CapturedExec {
            exit: ExecExit { exit_code, timed_out },
            output: b"out\xff".to_vec(),
            standard_output_bytes: 4,
        };
        let outcome = |captured| outcome(&words("sleep 10"), Duration::from_secs(1), captured);
        assert_eq!(outcome(Ok(ended(0, false))), ProbeOutcome::Success);
        assert_eq!(outcome(Ok(ended(3, false))), ProbeOutcome::Failure("out\u{fffd}".into()));
        let text = "command timed out: \"sleep 10\" timed out after 1s";
        assert_eq!(outcome(Ok(ended(137, true))), ProbeOutcome::Failure(text.into()));
        let error = RuntimeError::ExecFailed("exec: \"sleep\": not found".into());
        assert_eq!(outcome(Err(error)), ProbeOutcome::Error("exec: \"sleep\": not found".into()));
    }
}
