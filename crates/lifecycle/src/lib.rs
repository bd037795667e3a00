//! The life of a pod as a pure function.
//!
//! [`Engine`] is given `(now, Input)` and yields [`Effect`]s.
//! It owns no clock, socket, file, task or thread, and no random source but the seed it was made with.
//! The node, the simulator and the tests are three drivers of this same object.
//!
//! A driver does four things, over and over:
//! 1. it passes what happened with [`Engine::handle`];
//! 2. it takes every [`Effect`] from [`Engine::poll_effect`] and carries it out;
//! 3. it answers each effect exactly once with [`Input::EffectDone`];
//! 4. it calls [`Engine::handle_timeout`] when the time of [`Engine::poll_timeout`] has come.
//!
//! Decisions are level-triggered: each is a function of the pod object, the newest [`PodObservation`] and a small memory.
//! A driver that starts anew passes the objects and one observation for each pod that it finds, then [`Input::Synced`], and the engine goes on.
//!
//! The rules are those of Kubernetes 1.36; `L-...` in comments and test names are their numbers in the project's specification.
//! Start reading at [`input`], [`effect`] and [`observation`], then `engine`.

mod admission;
pub mod config;
pub mod effect;
mod engine;
mod events;
mod go_duration;
pub mod identity;
pub mod input;
mod invariants;
pub mod observation;
mod outbox;
mod pod;
mod preemption;
mod probe;
mod random;
mod shutdown;
mod status;
mod time;

pub use config::NodeConfig;
pub use effect::{Action, Effect, PodEvent};
pub use engine::Engine;
pub use identity::{ContainerId, ContainerRole, EffectId, PodRef, PodUid, SandboxId};
pub use input::{Failure, Input, Outcome};
pub use invariants::Violation;
pub use observation::{ContainerRecord, Exit, PodObservation, RuntimeState, SandboxRecord};
pub use status::merge::merge_status;
