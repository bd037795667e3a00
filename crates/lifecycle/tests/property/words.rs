//! Inputs and effects in few words, for the log of a life that failed.

use lifecycle::{Action, ContainerRecord, Effect, Input, Outcome, RuntimeState};

pub(crate) fn input(input: &Input) -> String {
    match input {
        Input::PodApplied(pod) => {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            format!("applied {phase} grace={:?}", pod.metadata.deletion_grace_period_seconds)
        }
        Input::Observed(observation) => {
            let sandboxes: Vec<String> =
                observation.sandboxes.iter().map(|s| format!("{}{}", s.id, if s.ready { "" } else { "-" })).collect();
            let containers: Vec<String> = observation.containers.iter().map(record).collect();
            format!("observed [{}] {}", sandboxes.join(" "), containers.join(" "))
        }
        Input::EffectDone { effect, outcome } => format!("answer {} {}", effect.0, outcome_word(outcome)),
        other => format!("{other:?}"),
    }
}

fn record(record: &ContainerRecord) -> String {
    let state = match &record.state {
        RuntimeState::Created => "created".to_owned(),
        RuntimeState::Running { .. } => "running".to_owned(),
        RuntimeState::Exited(exit) => format!("exit {}", exit.exit_code),
        RuntimeState::Unknown => "unknown".to_owned(),
    };
    format!("({} {state})", record.id)
}

fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(_) => "failed".to_owned(),
        Outcome::SandboxReady(sandbox) => format!("sandbox {}", sandbox.id),
        Outcome::Image(image) => format!("image {}", image.is_some()),
        Outcome::Created(id) => format!("created {id}"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn effect(effect: &Effect) -> String {
    let text = match &effect.action {
        Action::CreateContainer(request) => {
            format!("create {} {} in {}", request.name, request.attempt, request.sandbox)
        }
        Action::StartContainer(id) => format!("start {id}"),
        Action::SignalContainer { container, signal } => format!("signal {container} {signal:?}"),
        Action::RemoveContainer { container, .. } => format!("remove {container}"),
        Action::RunHook { container, .. } => format!("hook {container}"),
        Action::Probe { container, .. } => format!("probe {container}"),
        Action::WriteStatus(status) => format!("write {}", words_of(status)),
        Action::RecordEvent(event) => format!("event {} {}", event.reason, event.message),
        Action::RunSandbox { attempt, .. } => format!("sandbox {attempt}"),
        Action::SetUpPod(_) => "set up".to_owned(),
        Action::RefreshVolumes(_) => "refresh".to_owned(),
        Action::PullImage { image, .. } => format!("pull {image}"),
        other => format!("{other:?}"),
    };
    format!("effect {} {text}", effect.id.0)
}

fn words_of(status: &k8s_openapi::api::core::v1::PodStatus) -> String {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let containers: Vec<String> = lists
        .into_iter()
        .flatten()
        .flatten()
        .map(|container| {
            let state = container.state.clone().unwrap_or_default();
            let waiting = state.waiting.map(|waiting| waiting.reason.unwrap_or_default());
            let terminated = state.terminated.map(|t| format!("{}/{}", t.reason.unwrap_or_default(), t.exit_code));
            let word = terminated.or(waiting).unwrap_or_else(|| "running".to_owned());
            format!("{}={word}#{}", container.name, container.restart_count)
        })
        .collect();
    format!("{} {}", status.phase.clone().unwrap_or_default(), containers.join(" "))
}
