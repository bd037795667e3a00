//! Namespaces: phase and finalizer, and the label with the name.

use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};

const FINALIZER: &str = "kubernetes";

/// Makes a new Namespace of what was sent: Active, with the finalizer that its deletion waits for.
pub fn prepare_for_create(namespace: &mut Namespace) {
    namespace.status = Some(NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() });
    let finalizers = namespace.spec.get_or_insert_default().finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
}

/// Keeps the finalizers and the status.
pub fn prepare_for_update(new: &mut Namespace, old: &Namespace) {
    let finalizers = old.spec.as_ref().and_then(|spec| spec.finalizers.clone());
    new.spec.get_or_insert_default().finalizers = finalizers;
    new.status.clone_from(&old.status);
}

/// Keeps the spec.
pub fn prepare_for_status_update(new: &mut Namespace, old: &Namespace) {
    new.spec.clone_from(&old.spec);
}

/// Keeps the status (`finalize`).
pub fn prepare_for_finalize(new: &mut Namespace, old: &Namespace) {
    new.status.clone_from(&old.status);
}
