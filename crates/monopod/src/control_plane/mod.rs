//! The control plane in this process: registry, controllers and node, joined.
//!
//! The crates don't know each other; each adapter here is the whole of what one knows of another.
//! - `cluster`: the registry as the node sees it
//! - `controllers`, `objects`, `writes`: the registry as the controllers see it
//! - `events`: where the controllers record their events
//! - `machine`: this machine as the one node

mod cluster;
mod controllers;
mod events;
mod machine;
mod objects;
mod writes;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use apiserver::{Registry, Store};
use jiff::Timestamp;
use node::agent::{Agent, AgentConfig};
use node::paths::DataPaths;
use tokio_util::task::AbortOnDropHandle;

use self::cluster::LocalCluster;
use self::controllers::ControllersDriver;
pub(crate) use self::controllers::sleep_until;
use self::events::EventSink;
use self::machine::Machine;

/// Where a control plane keeps what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlaneOptions {
    /// The node's own directory.
    pub(crate) node_directory: PathBuf,
    /// The image store, which nodes share.
    pub(crate) image_directory: PathBuf,
}

/// A control plane that works.
pub(crate) struct ControlPlane {
    registry: Registry,
    agent: Agent,
    controllers: AbortOnDropHandle<()>,
    paths: DataPaths,
}

impl ControlPlane {
    /// Starts everything, over an empty store in memory.
    pub(crate) async fn start(options: ControlPlaneOptions) -> anyhow::Result<ControlPlane> {
        let registry = Registry::new(Store::in_memory(), Arc::new(Timestamp::now));
        registry.bootstrap().await.context("cannot make the first objects")?;
        let machine = Machine::read()?;
        machine.register(&registry).await.context("cannot register this machine as a node")?;
        let events = Arc::new(EventSink::new(registry.clone()));
        let driver = ControllersDriver::start(registry.clone(), Arc::clone(&events), ::controllers::Config::default())?;
        let controllers = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = driver.run().await {
                tracing::error!(error = format!("{error:#}"), "the controllers have stopped");
            }
        }));
        let cluster = Arc::new(LocalCluster::new(registry.clone(), Arc::clone(&events), &machine.name));
        let config = AgentConfig {
            allocatable: machine.capacity.clone(),
            memory_bytes: machine.memory_bytes,
            image_directory: options.image_directory,
            ..AgentConfig::new(&options.node_directory, &machine.name)
        };
        let paths = DataPaths::new(&options.node_directory);
        let agent = Agent::start(config, cluster).await.context("cannot start the node")?;
        Ok(ControlPlane { registry, agent, controllers, paths })
    }

    /// The objects.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where the node keeps its pods.
    pub(crate) fn paths(&self) -> &DataPaths {
        &self.paths
    }

    /// Stops deciding; what runs goes on running.
    pub(crate) async fn stop(self) {
        self.controllers.abort();
        self.agent.stop().await;
    }
}
