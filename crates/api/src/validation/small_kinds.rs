//! Kinds with few rules of their own: Namespaces, ServiceAccounts, PriorityClasses, Leases.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::errors::Errors;
use super::meta::{
    Scope, validate_finalizer_name, validate_immutable, validate_object_meta, validate_object_meta_update,
};
use super::names::{self, NameRule};
use super::pod::validate_preemption_policy;
use crate::absent::{flag, items, text};
use crate::field::{FieldError, FieldPath};

const USER_PRIORITY_MAX: i32 = 1_000_000_000;
const SYSTEM_CRITICAL_PRIORITY: i32 = 2 * USER_PRIORITY_MAX;

/// Checks the metadata of an object of any kind whose names are DNS subdomains, and nothing else of it.
pub fn validate_metadata(metadata: &ObjectMeta, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let scope = if is_namespaced { Scope::Namespaced } else { Scope::Cluster };
    validate_object_meta(metadata, scope, NameRule::Subdomain, &FieldPath::root("metadata"), &mut errors);
    errors.into_list()
}

/// Checks the metadata of an object of any kind that is to replace another, and nothing else of it.
pub fn validate_metadata_update(new: &ObjectMeta, old: &ObjectMeta) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(new, old, &FieldPath::root("metadata"), &mut errors);
    errors.into_list()
}

/// Checks a Namespace that is to be created.
pub fn validate_namespace(namespace: &Namespace) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole_namespace(namespace, &mut errors);
    errors.into_list()
}

/// Checks a Namespace that is to replace another.
pub fn validate_namespace_update(new: &Namespace, old: &Namespace) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_whole_namespace(new, &mut errors);
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    errors.into_list()
}

/// Checks a Namespace whose status is to change: the phase says whether it is being deleted.
pub fn validate_namespace_status_update(new: &Namespace, old: &Namespace) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    let phase = new.status.as_ref().map_or("", |status| text(&status.phase));
    let at = FieldPath::root("status").child("Phase");
    if new.metadata.deletion_timestamp.is_none() {
        if phase != "Active" {
            errors.invalid(&at, phase, "may only be 'Active' if `deletionTimestamp` is empty");
        }
    } else if phase != "Terminating" {
        errors.invalid(&at, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
    }
    errors.into_list()
}

/// Checks a Namespace whose finalizers are to change through the subresource `finalize`.
pub fn validate_namespace_finalize_update(new: &Namespace, old: &Namespace) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    let at = FieldPath::root("spec").child("finalizers");
    for (index, finalizer) in namespace_finalizers(new).iter().enumerate() {
        validate_finalizer_name(finalizer, &at.index(index), &mut errors);
    }
    errors.into_list()
}

/// Checks a ServiceAccount that is to be created.
pub fn validate_service_account(account: &ServiceAccount) -> Vec<FieldError> {
    validate_metadata(&account.metadata, true)
}

/// Checks a ServiceAccount that is to replace another.
pub fn validate_service_account_update(new: &ServiceAccount, old: &ServiceAccount) -> Vec<FieldError> {
    let mut errors = validate_metadata_update(&new.metadata, &old.metadata);
    errors.extend(validate_service_account(new));
    errors
}

/// Checks a PriorityClass that is to be created.
pub fn validate_priority_class(class: &PriorityClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&class.metadata, Scope::Cluster, NameRule::Subdomain, &metadata_at, &mut errors);
    let (name, value) = (text(&class.metadata.name), class.value.unwrap_or(0));
    if name.starts_with("system-") {
        if let Some(error) = system_class_error(name, value, flag(class.global_default)) {
            let detail =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {error}");
            errors.forbidden(&metadata_at.child("name"), detail);
        }
    } else if value > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.forbidden(&FieldPath::root("value"), detail);
    }
    if let Some(policy) = &class.preemption_policy {
        validate_preemption_policy(policy, &FieldPath::root("preemptionPolicy"), &mut errors);
    }
    errors.into_list()
}

/// Checks a PriorityClass that is to replace another.
pub fn validate_priority_class_update(new: &PriorityClass, old: &PriorityClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    if new.value.unwrap_or(0) != old.value.unwrap_or(0) {
        errors.forbidden(&FieldPath::root("value"), "may not be changed in an update.");
    }
    let policy_at = FieldPath::root("preemptionPolicy");
    validate_immutable(&new.preemption_policy, &old.preemption_policy, &policy_at, &mut errors);
    errors.into_list()
}

/// Checks a Lease that is to be created.
pub fn validate_lease(lease: &Lease) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&lease.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, &mut errors);
    validate_lease_spec(lease, &mut errors);
    errors.into_list()
}

/// Checks a Lease that is to replace another.
pub fn validate_lease_update(new: &Lease, old: &Lease) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    validate_lease_spec(new, &mut errors);
    errors.into_list()
}

fn validate_whole_namespace(namespace: &Namespace, errors: &mut Errors) {
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&namespace.metadata, Scope::Cluster, NameRule::Label, &metadata_at, errors);
    let at = FieldPath::root("spec").child("finalizers");
    for finalizer in namespace_finalizers(namespace) {
        validate_finalizer_name(finalizer, &at, errors);
    }
}

fn namespace_finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().map_or(&[], |spec| items(&spec.finalizers))
}

/// Why a class that claims to be the system's is not one of it.
fn system_class_error(name: &str, value: i32, is_global_default: bool) -> Option<String> {
    let expected = match name {
        "system-node-critical" => SYSTEM_CRITICAL_PRIORITY + 1000,
        "system-cluster-critical" => SYSTEM_CRITICAL_PRIORITY,
        _ => return Some(format!("{name} is not a known system priority class")),
    };
    if value != expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    is_global_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn validate_lease_spec(lease: &Lease, errors: &mut Errors) {
    let Some(spec) = &lease.spec else { return };
    let at = FieldPath::root("spec");
    if let Some(seconds) = spec.lease_duration_seconds.filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    if let Some(transitions) = spec.lease_transitions.filter(|transitions| *transitions < 0) {
        errors.invalid(&at.child("leaseTransitions"), transitions, "must be greater than or equal to 0");
    }
    let strategy = text(&spec.strategy);
    if spec.strategy.is_some() {
        // Kubernetes names the field within itself.
        let at = at.child("strategy").child("strategy");
        if strategy.contains('/') {
            errors.invalid_text(&at, strategy, names::qualified_name(strategy));
        } else {
            errors.one_of(&at, strategy, &["OldestEmulationVersion"]);
        }
    }
    if !text(&spec.preferred_holder).is_empty() && strategy.is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(&at.child("preferredHolder"), detail);
    }
}
