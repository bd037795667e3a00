//! The control plane in this process: registry, controllers and node, joined.
//!
//! The crates don't know each other; each adapter here is the whole of what one knows of another.
//! - `cluster`: the registry as the node sees it
//! - `controllers`, `objects`, `writes`: the registry as the controllers see it
//! - `events`: where both record their events

mod cluster;
mod controllers;
mod events;
mod objects;
mod writes;
