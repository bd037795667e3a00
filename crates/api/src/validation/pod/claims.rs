//! Claims of dynamic resources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodResourceClaim, ResourceClaim};

use super::Owner;
use crate::absent::text;
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names::{dns_label, dns_subdomain};

pub(super) fn claim_names(claims: &[PodResourceClaim]) -> BTreeSet<&str> {
    claims.iter().map(|claim| claim.name.as_str()).filter(|name| !name.is_empty()).collect()
}

pub(super) fn validate_resource_claims(
    claims: &[PodResourceClaim],
    owner: Owner<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        if matches!(owner, Owner::Pod { is_mirror: true, .. }) {
            errors.forbidden(&FieldPath::root(""), "static pods do not support resource claims");
        } else {
            validate_resource_claim(claim, &mut seen, &at.index(index), errors);
        }
    }
}

fn validate_resource_claim<'a>(
    claim: &'a PodResourceClaim,
    seen: &mut BTreeSet<&'a str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let name = claim.name.as_str();
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else if seen.contains(name) {
        errors.duplicate(&at.child("name"), name);
    } else {
        errors.invalid_text(&at.child("name"), name, dns_label(name));
        seen.insert(name);
    }
    match (&claim.resource_claim_name, &claim.resource_claim_template_name) {
        (Some(_), Some(_)) => {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.invalid_object(at, claim, detail);
        }
        (None, None) => {
            let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.invalid_object(at, claim, detail);
        }
        _ => {}
    }
    let names = [
        ("resourceClaimName", &claim.resource_claim_name),
        ("resourceClaimTemplateName", &claim.resource_claim_template_name),
    ];
    for (field, name) in names {
        if let Some(name) = name {
            errors.invalid_text(&at.child(field), name, dns_subdomain(name));
        }
    }
}

/// The claims that a container uses, each of them one of the pod's.
pub(super) fn validate_claim_references(
    claims: &[ResourceClaim],
    pod_claims: &BTreeSet<&str>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        let (name, request) = (claim.name.as_str(), text(&claim.request));
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        if seen.contains(name) {
            // All requests of the claim are taken already.
            errors.duplicate(&at, name);
        } else if request.is_empty() {
            let overlaps = seen.iter().filter(|key| key.split_once('/').is_some_and(|(claim, _)| claim == name));
            for _ in overlaps {
                errors.duplicate(&at, name);
            }
            seen.insert(name.to_owned());
        } else {
            errors.invalid_text(&at.child("request"), request, dns_label(request));
            let key = format!("{name}/{request}");
            if seen.contains(&key) {
                errors.duplicate(&at, key.as_str());
            }
            seen.insert(key);
        }
        if !pod_claims.contains(name) {
            let list = pod_claims.iter().copied().collect::<Vec<_>>().join(", ");
            let known = if list.is_empty() { " which is empty".to_owned() } else { format!(": {list}") };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.not_found(&at, name, &detail);
        }
    }
}
