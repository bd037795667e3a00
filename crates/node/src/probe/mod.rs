//! Attempts at probes: exec, httpGet, tcpSocket, grpc (L-409 to L-414).
//!
//! One attempt at a time: when, how often and what follows is the engine's.
//! A probe without a host of its own goes into the pod's network namespace, one with a host goes out from the node, as from a kubelet.

mod exec;
mod grpc;
pub(crate) mod http;
mod network;
mod port;
mod recorded;
mod target;
mod tcp;
mod tls;
mod url;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Pod, Probe};
use lifecycle::ContainerId;
use lifecycle::input::ProbeOutcome;

use self::http::Get;
use crate::container::pod_description;
use crate::runtime::RuntimeService;

pub use network::{DialError, Network};
pub use port::{PortError, resolve_port};
pub use target::PodTarget;

/// The version in `User-Agent`.
const KUBERNETES_VERSION: &str = "1.36";
/// An attempt that goes wrong itself is made again at once, so often in all (L-409).
const TRIES: u32 = 3;

/// The container that is probed.
#[derive(Clone, Copy, Debug)]
pub struct Probed<'a> {
    /// Its pod.
    pub pod: &'a Pod,
    /// Its spec.
    pub container: &'a Container,
    /// Its id.
    pub id: &'a ContainerId,
    /// Where its pod is reached; not needed for `exec`.
    pub target: Option<&'a PodTarget>,
}

/// Attempts a probe once.
pub async fn attempt(runtime: &RuntimeService, probed: &Probed<'_>, probe: &Probe) -> ProbeOutcome {
    let mut outcome = attempt_once(runtime, probed, probe).await;
    for _ in 1..TRIES {
        if !matches!(outcome, ProbeOutcome::Error(_)) {
            break;
        }
        outcome = attempt_once(runtime, probed, probe).await;
    }
    outcome
}

async fn attempt_once(runtime: &RuntimeService, probed: &Probed<'_>, probe: &Probe) -> ProbeOutcome {
    let timeout = timeout(probe);
    let container = probed.container;
    if let Some(action) = &probe.exec {
        return exec::attempt(runtime, probed.id, container, action, timeout).await;
    }
    let Some(target) = probed.target else {
        return ProbeOutcome::Error("the pod has no sandbox".to_owned());
    };
    if let Some(action) = &probe.http_get {
        return http_get(action, container, target, timeout).await;
    }
    if let Some(action) = &probe.tcp_socket {
        let (host, network) = target.resolve(action.host.as_deref());
        return match resolve_port(&action.port, container) {
            Ok(port) => tcp::attempt(&network, &host, port, timeout).await,
            Err(error) => ProbeOutcome::Error(error.to_string()),
        };
    }
    let Some(action) = &probe.grpc else {
        let pod = pod_description(probed.pod);
        return ProbeOutcome::Error(format!("missing probe handler for {pod}:{}", container.name));
    };
    let service = action.service.as_deref().unwrap_or_default();
    match u16::try_from(action.port) {
        Ok(port) => grpc::attempt(&target.network, &target.host, port, service, timeout).await,
        Err(_) => ProbeOutcome::Error(PortError::Number { number: action.port.into() }.to_string()),
    }
}

async fn http_get(
    action: &HTTPGetAction,
    container: &Container,
    target: &PodTarget,
    timeout: Duration,
) -> ProbeOutcome {
    let (host, network) = target.resolve(action.host.as_deref());
    let get = match Get::of_action(action, container, &host, "probe") {
        Ok(get) => get,
        Err(error) => return ProbeOutcome::Error(error.to_string()),
    };
    match get.fetch(&network, timeout).await {
        Ok(answer) => judge(answer.status.as_u16(), &answer.body),
        Err(error @ http::GetError::Request { .. }) => ProbeOutcome::Failure(error.to_string()),
        Err(error @ http::GetError::Body(_)) => ProbeOutcome::Error(error.to_string()),
    }
}

/// What a status means (L-412); the body of a failure is not told, since it may hold secrets.
fn judge(status: u16, body: &str) -> ProbeOutcome {
    match status {
        200..=299 => ProbeOutcome::Success,
        300..=399 => ProbeOutcome::Warning(format!("Probe terminated redirects, Response body: {body}")),
        _ => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

fn timeout(probe: &Probe) -> Duration {
    let seconds = probe.timeout_seconds.unwrap_or(1).max(1);
    Duration::from_secs(u64::from(seconds.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_judged_as_kubernetes_does() {
        let failure = |status| ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}"));
        let warning = ProbeOutcome::Warning("Probe terminated redirects, Response body: b".into());
        let cases = [(199, failure(199)), (200, ProbeOutcome::Success), (299, ProbeOutcome::Success)];
        for (status, expected) in
            cases.into_iter().chain([(300, warning.clone()), (399, warning), (400, failure(400)), (503, failure(503))])
        {
            assert_eq!(judge(status, "b"), expected);
        }
    }

    #[test]
    fn an_attempt_has_a_second_unless_told_otherwise() {
        let of = |timeout_seconds| timeout(&Probe { timeout_seconds, ..Probe::default() });
        assert_eq!([None, Some(0), Some(5)].map(of), [1, 1, 5].map(Duration::from_secs));
    }
}
