//! What must be true at every moment, and is checked by tests and by drivers that wish so.

use std::fmt;

use crate::engine::Engine;
use crate::identity::{EffectId, PodUid};
use crate::pod::kill::KillStage;
use crate::pod::{PodWorker, Stage};

/// A fault of the program, or of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An effect was answered that is not awaited: never sent, or answered before.
    UnexpectedAnswer {
        /// Which one.
        effect: EffectId,
    },
    /// Two rules undo each other: the work of one moment has no end.
    Spinning {
        /// The pod.
        pod: PodUid,
    },
    /// Something is started in a pod that ends.
    StartWhileTerminating {
        /// The pod.
        pod: PodUid,
    },
    /// A kill would outlast its grace by more than the floor and the fractions that are not charged.
    GraceExceeded {
        /// The pod.
        pod: PodUid,
        /// The container's id.
        container: String,
    },
    /// A pod waits for something that nothing will bring about.
    Stuck {
        /// The pod.
        pod: PodUid,
        /// What it waits for.
        waits_for: &'static str,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::UnexpectedAnswer { effect } => {
                write!(f, "effect {} was answered but is not awaited", effect.0)
            }
            Violation::Spinning { pod } => write!(f, "the work of one moment has no end in pod {pod}"),
            Violation::StartWhileTerminating { pod } => write!(f, "something is started in pod {pod}, which ends"),
            Violation::GraceExceeded { pod, container } => {
                write!(f, "container {container} of pod {pod} outlasts its grace period")
            }
            Violation::Stuck { pod, waits_for } => write!(f, "pod {pod} waits for {waits_for}, which never comes"),
        }
    }
}

impl Engine {
    /// Everything that is wrong at this moment; nothing, unless the engine or its driver has a fault.
    pub fn check_invariants(&self) -> Vec<Violation> {
        let mut found = self.violations.clone();
        for (key, worker) in &self.workers {
            let in_flight = self.outbox.in_flight().filter(|(_, (owner, _))| owner == key).count();
            check_worker(self, worker, in_flight, &mut found);
        }
        found
    }
}

fn check_worker(engine: &Engine, worker: &PodWorker, in_flight: usize, found: &mut Vec<Violation>) {
    let pod = || worker.reference.uid.clone();
    if worker.is_spinning {
        found.push(Violation::Spinning { pod: pod() });
    }
    let is_ending = !matches!(worker.stage, Stage::Live);
    if is_ending && worker.start.as_ref().is_some_and(|start| !start.is_cancelled) {
        found.push(Violation::StartWhileTerminating { pod: pod() });
    }
    for kill in &worker.kills {
        let is_late = !matches!(kill.stage, KillStage::Killed { .. }) && kill.due() > kill.bound;
        if is_late {
            found.push(Violation::GraceExceeded { pod: pod(), container: kill.container.0.clone() });
        }
    }
    let is_idle = engine.is_synced() && in_flight == 0 && worker.due(engine.time()).is_none();
    if is_idle && let Some(waits_for) = worker.waits_for_nothing() {
        found.push(Violation::Stuck { pod: pod(), waits_for });
    }
}
