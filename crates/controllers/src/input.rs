//! All that can happen to the controllers.

use thiserror::Error;

use crate::object::{Object, Target};
use crate::write::{Outcome, WriteId};

/// One thing that happened.
///
/// Changes of one object are passed in their order.
/// Watches of different kinds may run at their own pace, but what comes in the order of revisions over all kinds needs no look-ups,
/// and a namespace is emptied only of what was passed.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object was created or changed, or was found at start.
    Applied(Object),
    /// An object is gone from the store.
    Deleted(Target),
    /// All objects that existed at start have been passed. Nothing is written before.
    Synced,
    /// The answer to a write. Each write is answered exactly once.
    Answered {
        /// Which one.
        write: WriteId,
        /// How it went.
        outcome: Outcome,
    },
}

/// An input that could not be taken: the driver's fault, not the objects'.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InputError {
    /// A stored object has no uid.
    #[error(
        "{target} has no uid (hint: pass objects as the store returns them, after the server has set their metadata)"
    )]
    NoUid {
        /// The object.
        target: Target,
    },
    /// There is no such write, or it has been answered before.
    #[error("write {} is not awaited (hint: answer each write exactly once)", .0.0)]
    UnknownWrite(WriteId),
}
