//! Attempts at probes and hooks.

use k8s_openapi::api::core::v1::{LifecycleHandler, Pod, Probe};
use lifecycle::input::ProbeOutcome;
use lifecycle::{ContainerId, Outcome, PodRef};

use super::super::world::World;
use super::failed;
use crate::container::find::find_container;
use crate::hook::{self, Hooked};
use crate::probe::{self, PodTarget, Probed};

/// Whose probe or hook it is.
pub(super) struct Of<'a> {
    pub(super) id: &'a ContainerId,
    pub(super) pod: &'a Pod,
    pub(super) name: &'a str,
}

pub(super) async fn probe(world: &World, pod: &PodRef, of: &Of<'_>, probe: &Probe) -> ProbeOutcome {
    let Some(container) = find_container(of.pod, of.name) else {
        return ProbeOutcome::Error(format!("container \"{}\" is not part of the pod's spec", of.name));
    };
    // What runs inside the container needs no way to it.
    let target = match &probe.exec {
        Some(_) => Ok(None),
        None => target(world, pod, of.id).await.map(Some),
    };
    let target = match target {
        Ok(target) => target,
        Err(error) => return ProbeOutcome::Error(error),
    };
    let probed = Probed { pod: of.pod, container: &container, id: of.id, target: target.as_ref() };
    probe::attempt(&world.runtime, &probed, probe).await
}

pub(super) async fn hook(world: &World, pod: &PodRef, of: &Of<'_>, handler: &LifecycleHandler) -> Outcome {
    let Some(container) = find_container(of.pod, of.name) else {
        return failed("", format!("container \"{}\" is not part of the pod's spec", of.name));
    };
    let target = match &handler.exec {
        Some(_) => None,
        None => target(world, pod, of.id).await.ok(),
    };
    let hooked = Hooked { container: &container, id: of.id, target: target.as_ref() };
    let report = hook::run(&world.runtime, &hooked, handler).await;
    if let Some(address) = report.fell_back_to_http {
        let message = format!("request to HTTPS lifecycle hook {address} got HTTP response, retry with HTTP succeeded");
        world.recorder.warn(pod, "LifecycleHTTPFallback", message);
    }
    report.failure.map_or(Outcome::Done, |failure| failed("", failure))
}

async fn target(world: &World, pod: &PodRef, id: &ContainerId) -> Result<PodTarget, String> {
    let sandbox = world.sandbox_of(&pod.uid, id).ok_or_else(|| format!("there is no container `{id}`"))?;
    PodTarget::of(&sandbox, &world.node, &world.runtime).await.map_err(|error| error.to_string())
}
