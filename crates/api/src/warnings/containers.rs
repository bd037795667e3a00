//! Warnings of one container: fractions of bytes, variables that hide others, annotations that do nothing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{AppArmorProfile, Container, EnvVar};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::absent::{entry, items, text};
use crate::field::{FieldPath, quote};
use crate::quantity;
use crate::strategy::pod::app_armor_profile;
use crate::validation::pod::APP_ARMOR_CONTAINER;

/// The resource of volumes.
pub(super) const STORAGE: &str = "storage";
/// The resources of containers that are counted in bytes.
pub(super) const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_TEXT: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

/// The pod's annotations, and what else of it matters for its containers.
pub(super) struct Surroundings<'a> {
    pub(super) annotations: &'a Option<BTreeMap<String, String>>,
    pub(super) annotations_at: FieldPath,
    /// A pod's annotations of AppArmor became fields when it was created; a template keeps them.
    pub(super) is_template: bool,
    pub(super) app_armor: Option<AppArmorProfile>,
}

impl Surroundings<'_> {
    /// Warns of an annotation, if it is there.
    pub(super) fn warn_of_annotation(&self, key: &str, text: &str, warnings: &mut Vec<String>) {
        if entry(self.annotations, key).is_some() {
            warnings.push(format!("{}: {text}", self.annotations_at.key(key)));
        }
    }

    /// Warns of the seccomp annotation of the pod or, with a name, of a container.
    pub(super) fn warn_of_seccomp(&self, container: Option<&str>, warnings: &mut Vec<String>) {
        let key = match container {
            Some(name) => format!("{SECCOMP_CONTAINER}{name}"),
            None => "seccomp.security.alpha.kubernetes.io/pod".to_owned(),
        };
        self.warn_of_annotation(&key, SECCOMP_TEXT, warnings);
    }

    fn warn_of_app_armor(&self, container: &str, warnings: &mut Vec<String>) {
        let key = format!("{APP_ARMOR_CONTAINER}{container}");
        let Some(annotation) = entry(self.annotations, &key) else { return };
        if self.app_armor.is_none() || self.app_armor != app_armor_profile(annotation) {
            self.warn_of_annotation(
                &key,
                r#"deprecated since v1.30; use the "appArmorProfile" field instead"#,
                warnings,
            );
        }
    }
}

/// Warns of one container of any list.
pub(super) fn warn_of_container(
    container: &Container,
    around: &Surroundings<'_>,
    at: &FieldPath,
    warnings: &mut Vec<String>,
) {
    let context = container.security_context.as_ref();
    if context.is_none_or(|context| context.seccomp_profile.is_none()) {
        around.warn_of_seccomp(Some(&container.name), warnings);
    }
    if around.is_template && context.is_none_or(|context| context.app_armor_profile.is_none()) {
        around.warn_of_app_armor(&container.name, warnings);
    }
    if let Some(resources) = &container.resources {
        let at = at.child("resources");
        for resource in BYTES {
            warn_of_fractions(&resources.limits, &[resource], &at.child("limits"), warnings);
            warn_of_fractions(&resources.requests, &[resource], &at.child("requests"), warnings);
        }
    }
    warn_of_hidden_variables(items(&container.env), &at.child("env"), warnings);
}

/// Half a byte can't be had.
pub(super) fn warn_of_fractions(
    quantities: &Option<BTreeMap<String, Quantity>>,
    resources: &[&str],
    at: &FieldPath,
    warnings: &mut Vec<String>,
) {
    for resource in resources {
        let Some(quantity) = entry(quantities, resource) else { continue };
        let is_fraction = quantity::parse(&quantity.0).is_ok_and(|amount| amount.milli_value() % 1000 != 0);
        if is_fraction {
            let value = quote(&quantity::canonical(quantity));
            let at = at.key(resource);
            warnings.push(format!("{at}: fractional byte value {value} is invalid, must be an integer"));
        }
    }
}

/// A variable may be defined again if its new value builds on the old one.
fn warn_of_hidden_variables(variables: &[EnvVar], at: &FieldPath, warnings: &mut Vec<String>) {
    let mut known = BTreeSet::new();
    for (index, variable) in variables.iter().enumerate() {
        if known.insert(variable.name.as_str()) {
            continue;
        }
        let reference = format!("$({})", variable.name);
        let value = text(&variable.value);
        let builds_on_old = variable.value_from.is_none() && value != reference && value.contains(&reference);
        if !builds_on_old {
            let (at, name) = (at.index(index), quote(&variable.name));
            let text = "which may be dropped when using apply";
            warnings.push(format!("{at}: hides previous definition of {name}, {text}"));
        }
    }
}
