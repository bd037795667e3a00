//! A runtime that does what effects ask for, as its own truth.

use jiff::Timestamp;
use lifecycle::effect::CreateContainer;
use lifecycle::{ContainerId, ContainerRecord, Exit, PodObservation, PodRef, RuntimeState, SandboxId, SandboxRecord};

/// What one pod has.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    pub(crate) reference: PodRef,
    pub(crate) sandboxes: Vec<SandboxRecord>,
    pub(crate) containers: Vec<ContainerRecord>,
    made: u64,
}

impl Runtime {
    pub(crate) fn new(reference: PodRef) -> Self {
        Runtime { reference, sandboxes: Vec::new(), containers: Vec::new(), made: 0 }
    }

    pub(crate) fn observation(&self) -> PodObservation {
        PodObservation {
            pod: self.reference.clone(),
            sandboxes: self.sandboxes.clone(),
            containers: self.containers.clone(),
        }
    }

    pub(crate) fn run_sandbox(&mut self, attempt: u32, host_network: bool, now: Timestamp) -> SandboxRecord {
        self.made += 1;
        let record = SandboxRecord {
            id: SandboxId(format!("s{}", self.made)),
            attempt,
            ready: true,
            host_network,
            ips: if host_network { Vec::new() } else { vec!["10.0.0.2".parse().unwrap()] },
            created_at: now,
        };
        self.sandboxes.push(record.clone());
        record
    }

    pub(crate) fn stop_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        for sandbox in self.sandboxes.iter_mut().filter(|sandbox| sandbox.id == *id) {
            sandbox.ready = false;
        }
        let inside: Vec<ContainerId> =
            self.containers.iter().filter(|record| record.sandbox == *id).map(|record| record.id.clone()).collect();
        for container in inside {
            self.exit(&container, 137, now);
        }
    }

    pub(crate) fn remove_sandbox(&mut self, id: &SandboxId) {
        self.sandboxes.retain(|sandbox| sandbox.id != *id);
        self.containers.retain(|record| record.sandbox != *id);
    }

    pub(crate) fn create(&mut self, request: &CreateContainer, image: &str, now: Timestamp) -> Option<ContainerId> {
        self.sandboxes.iter().find(|sandbox| sandbox.id == request.sandbox && sandbox.ready)?;
        self.made += 1;
        let id = ContainerId(format!("c{}-{}-{}", self.made, request.name, request.attempt));
        self.containers.push(ContainerRecord {
            id: id.clone(),
            sandbox: request.sandbox.clone(),
            name: request.name.clone(),
            role: request.role,
            attempt: request.attempt,
            spec_image: image.to_owned(),
            image: image.to_owned(),
            image_id: request.image_id.clone(),
            created_at: now,
            state: RuntimeState::Created,
            user: None,
        });
        Some(id)
    }

    pub(crate) fn start(&mut self, id: &ContainerId, now: Timestamp) -> bool {
        let record = self.containers.iter_mut().find(|record| record.id == *id);
        match record {
            Some(record) if record.state == RuntimeState::Created => {
                record.state = RuntimeState::Running { started_at: now };
                true
            }
            Some(record) => matches!(record.state, RuntimeState::Running { .. }),
            None => false,
        }
    }

    pub(crate) fn exit(&mut self, id: &ContainerId, code: i32, now: Timestamp) {
        for record in self.containers.iter_mut().filter(|record| record.id == *id) {
            if let RuntimeState::Running { started_at } = record.state {
                record.state = RuntimeState::Exited(Exit {
                    exit_code: code,
                    reason: None,
                    message: String::new(),
                    started_at: Some(started_at),
                    finished_at: now,
                });
            }
        }
    }

    pub(crate) fn remove(&mut self, id: &ContainerId) {
        self.containers.retain(|record| record.id != *id);
    }

    pub(crate) fn running(&self) -> Vec<ContainerId> {
        self.containers.iter().filter(|record| is_running(record)).map(|record| record.id.clone()).collect()
    }

    pub(crate) fn find(&self, id: &ContainerId) -> Option<&ContainerRecord> {
        self.containers.iter().find(|record| record.id == *id)
    }
}

pub(crate) fn is_running(record: &ContainerRecord) -> bool {
    matches!(record.state, RuntimeState::Running { .. })
}
