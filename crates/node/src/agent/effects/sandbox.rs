//! Pod sandboxes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use lifecycle::{Outcome, PodRef, SandboxId};

use super::super::world::World;
use super::{done, failed};
use crate::container::resolv_conf::pod_resolv_conf;
use crate::container::sandbox::{SandboxInputs, sandbox_config};

/// A pod's network is its own and has `localhost` alone; so that is its address.
const POD_IPS: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::LOCALHOST)];

pub(super) async fn run(world: &Arc<World>, pod: &PodRef, object: &Pod, attempt: u32) -> Outcome {
    let inputs = SandboxInputs {
        reference: pod,
        attempt,
        cluster_domain: &world.dns.domain,
        node_hostname: &world.hostname,
        pod_ips: &POD_IPS,
    };
    let config = match sandbox_config(object, &inputs) {
        Ok(config) => config,
        Err(error) => return failed("", error),
    };
    warn_of_dns(world, pod, object).await;
    match world.runtime.run_sandbox(&config).await {
        Ok(sandbox) => Outcome::SandboxReady(sandbox),
        Err(error) => failed("", error),
    }
}

/// What of the pod's DNS settings exceeds the limits is told once for each sandbox (L-912).
async fn warn_of_dns(world: &World, pod: &PodRef, object: &Pod) {
    // A node without the file has no resolver.
    let of_node = tokio::fs::read_to_string("/etc/resolv.conf").await.unwrap_or_default();
    for warning in pod_resolv_conf(object, &world.dns, &of_node).warnings {
        world.recorder.warn(pod, "DNSConfigForming", warning);
    }
}

pub(super) async fn remove(world: &World, id: &SandboxId) -> Outcome {
    let observations = world.runtime.observations();
    let containers = observations.iter().flat_map(|observation| &observation.containers);
    let ids: Vec<String> = containers.filter(|it| it.sandbox == *id).map(|it| it.id.0.clone()).collect();
    let removed = world.runtime.remove_sandbox(id).await;
    if removed.is_ok() {
        for container in ids {
            super::container::release_image(world, &container).await;
        }
    }
    done(removed)
}
