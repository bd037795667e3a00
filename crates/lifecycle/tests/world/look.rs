//! What tests look at: traces, statuses and columns as text.

use k8s_openapi::api::core::v1::{Container, ContainerState, LifecycleHandler, Pod, PodStatus, Probe};
use lifecycle::PodUid;

use super::World;

impl World {
    /// What happened, as `SECONDS WHAT`, one in a line; only lines whose first word is asked for.
    pub fn trace_of(&self, words: &[&str]) -> Vec<String> {
        self.trace
            .iter()
            .filter(|(_, line)| words.contains(&line.split(' ').next().unwrap_or_default()))
            .map(|(seconds, line)| format!("{} {line}", number(seconds.as_secs_f64())))
            .collect()
    }

    /// The short names of the effects sent, without those of no account to a test.
    pub fn effects_of(&self, names: &[&str]) -> Vec<String> {
        self.sent
            .iter()
            .map(|(seconds, effect)| (seconds, super::carry_out::short_name(&effect.action)))
            .filter(|(_, name)| names.contains(name))
            .map(|(seconds, name)| format!("{} {name}", number(seconds.as_secs_f64())))
            .collect()
    }

    /// The statuses written, one in a line: phase, containers, then conditions that are not as they usually are.
    pub fn story(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (seconds, status) in &self.written {
            lines.push(format!("{} {}", number(seconds.as_secs_f64()), line(status)));
        }
        lines
    }

    /// The events told, one in a line.
    pub fn told(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|(seconds, event)| {
                let kind = if event.warning { "Warning" } else { "Normal" };
                let place = event.field_path.split_once('{').map_or("", |(_, rest)| rest.trim_end_matches('}'));
                let place = if place.is_empty() { String::new() } else { format!("{place} ") };
                format!("{} {place}{kind} {} {}", number(seconds.as_secs_f64()), event.reason, event.message)
            })
            .collect()
    }

    /// Events with one of the reasons.
    pub fn told_of(&self, reasons: &[&str]) -> Vec<String> {
        self.told()
            .into_iter()
            .filter(|line| reasons.iter().any(|reason| line.contains(&format!(" {reason} "))))
            .collect()
    }

    /// The stored status of the pod.
    pub fn stored(&self) -> PodStatus {
        let pod = self.objects.get(&PodUid("p".to_owned()));
        pod.and_then(|pod| pod.status.clone()).unwrap_or_default()
    }

    /// The newest status written.
    pub fn newest(&self) -> String {
        self.written.last().map(|(_, status)| line(status)).unwrap_or_default()
    }

    /// `status`, `reason` and `message` of a condition of the newest status written.
    pub fn condition(&self, type_: &str) -> String {
        let status = self.written.last().map(|(_, status)| status.clone()).unwrap_or_default();
        let found = status.conditions.iter().flatten().find(|condition| condition.type_ == type_).cloned();
        found.map_or("missing".to_owned(), |condition| {
            [condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default()]
                .iter()
                .filter(|text| !text.is_empty())
                .cloned()
                .collect::<Vec<_>>()
                .join(" ")
        })
    }
}

/// Seconds without needless digits.
pub fn number(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// One status in a line.
pub fn line(status: &PodStatus) -> String {
    let mut words = vec![status.phase.clone().unwrap_or_default()];
    words.extend(status.reason.clone());
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    for container in lists.into_iter().flatten().flatten() {
        let mut text = format!("{}={}", container.name, state(container.state.as_ref()));
        if container.started == Some(true) {
            text.push_str("+started");
        }
        if container.ready {
            text.push_str("+ready");
        }
        if container.restart_count > 0 {
            text.push_str(&format!("#{}", container.restart_count));
        }
        words.push(text);
    }
    words.join(" ")
}

/// A container's state in a word.
pub fn state(state: Option<&ContainerState>) -> String {
    let Some(state) = state else { return "none".to_owned() };
    if state.running.is_some() {
        return "running".to_owned();
    }
    if let Some(terminated) = &state.terminated {
        return format!("{}/{}", terminated.reason.clone().unwrap_or_default(), terminated.exit_code);
    }
    state.waiting.as_ref().and_then(|waiting| waiting.reason.clone()).unwrap_or_else(|| "waiting".to_owned())
}

fn container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|container| container.name == name)
}

pub fn is_post_start(pod: &Pod, name: &str, handler: &LifecycleHandler) -> bool {
    let lifecycle = container(pod, name).and_then(|container| container.lifecycle.as_ref());
    lifecycle.and_then(|lifecycle| lifecycle.post_start.as_ref()) == Some(handler)
}

pub fn probe_kind(pod: &Pod, name: &str, probe: &Probe) -> &'static str {
    let Some(container) = container(pod, name) else { return "liveness" };
    if container.startup_probe.as_ref() == Some(probe) {
        return "startup";
    }
    if container.readiness_probe.as_ref() == Some(probe) { "readiness" } else { "liveness" }
}

pub fn spec_image(pod: &Pod, name: &str) -> String {
    let spec = pod.spec.as_ref();
    let ephemeral = spec.and_then(|spec| {
        let list = spec.ephemeral_containers.as_deref().unwrap_or_default();
        list.iter().find(|container| container.name == name).and_then(|container| container.image.clone())
    });
    container(pod, name).and_then(|container| container.image.clone()).or(ephemeral).unwrap_or_default()
}
