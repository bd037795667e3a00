//! What admission plugins add to a pod before it is validated: what needs more than the object, or is not the API's own.
//!
//! In the order in which the server runs them: the service account, the tolerations, the priority.
//! They run after defaulting and before [`crate::strategy`]; each refuses with a text that follows
//! `pods "<name>" is forbidden: `.
//! Other objects are passed in; nothing is looked up here.

mod priority;
mod service_account;
mod tolerations;

pub use priority::{PriorityRefusal, set_priority};
pub use service_account::{ServiceAccountRefusal, TOKEN_MOUNT_PATH, name_service_account, set_service_account};
pub use tolerations::add_default_tolerations;
