//! The rules of pod lifecycle that the engine keeps, each with a test that names it.
//!
//! A test says how containers behave, lets virtual time run and looks at what was done, written and told.

#![expect(clippy::indexing_slicing, reason = "a missing entry fails the test that looks at it")]

mod world;

#[path = "rules/containers.rs"]
mod containers;
#[path = "rules/endings.rs"]
mod endings;
#[path = "rules/events.rs"]
mod events;
#[path = "rules/hooks.rs"]
mod hooks;
#[path = "rules/node.rs"]
mod node;
#[path = "rules/probes.rs"]
mod probes;
#[path = "rules/restarts.rs"]
mod restarts;
#[path = "rules/roles.rs"]
mod roles;
#[path = "rules/sandbox.rs"]
mod sandbox;
#[path = "rules/start.rs"]
mod start;
#[path = "rules/status.rs"]
mod status;
#[path = "rules/termination.rs"]
mod termination;
#[path = "rules/whole_life.rs"]
mod whole_life;
