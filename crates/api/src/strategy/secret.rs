//! Secrets: a type that is left out on update stays.

use k8s_openapi::api::core::v1::Secret;

use crate::absent::text;

/// Keeps the type if none is sent; call it before defaulting, which fills one in.
pub fn prepare_for_update(new: &mut Secret, old: &Secret) {
    if text(&new.type_).is_empty() {
        new.type_.clone_from(&old.type_);
    }
}
