//! Names of certificate signers and of the trust bundles made by them.

use super::errors::Errors;
use super::names::{LABEL_LENGTH_MAX, SUBDOMAIN_LENGTH_MAX, dns_label, dns_subdomain};
use crate::field::FieldPath;

pub(crate) fn is_kubernetes_signer(name: &str) -> bool {
    let host = name.split('/').next().unwrap_or("");
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// `example.com/signer-name`.
pub(crate) fn validate_signer_name(name: &str, at: &FieldPath, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.invalid(at, name, detail);
        return;
    };
    if domain.len() > SUBDOMAIN_LENGTH_MAX {
        errors.too_long(at, SUBDOMAIN_LENGTH_MAX);
    }
    validate_first_bad_label(domain, dns_label, at, errors);
    if !domain.contains('.') {
        errors.invalid(at, domain, "should be a domain with at least two segments separated by dots");
    }
    validate_first_bad_label(path, dns_subdomain, at, errors);
    let length_max = SUBDOMAIN_LENGTH_MAX + SUBDOMAIN_LENGTH_MAX + LABEL_LENGTH_MAX + 2;
    if name.len() > length_max {
        errors.too_long(at, length_max);
    }
}

/// What is wrong with the name of a ClusterTrustBundle: it carries its signer's name, if it has one.
pub(crate) fn validate_trust_bundle_name(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        None => dns_subdomain(name),
        Some((_, own)) => dns_subdomain(own),
    }
}

fn validate_first_bad_label(segment: &str, check: impl Fn(&str) -> Vec<String>, at: &FieldPath, errors: &mut Errors) {
    let bad = segment.split('.').map(|label| (label, check(label))).find(|(_, wrong)| !wrong.is_empty());
    if let Some((label, wrong)) = bad {
        for wrong in wrong {
            errors.invalid(at, segment, format!("validating label {label:?}: {wrong}"));
        }
    }
}
