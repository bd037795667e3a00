//! ServiceAccounts: references to Secrets are names only.

use k8s_openapi::api::core::v1::{ObjectReference, ServiceAccount};

use crate::absent::items_mut;

/// Strips references, on create and on update.
pub fn prepare(account: &mut ServiceAccount) {
    for secret in items_mut(&mut account.secrets) {
        *secret = ObjectReference { name: secret.name.take(), ..Default::default() };
    }
}
