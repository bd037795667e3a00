//! Projected volumes: several sources in one directory.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, KeyToPath, PodCertificateProjection, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::volume::{validate_downward_api_file, validate_key_to_path, validate_mode};
use crate::absent::{entries, items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::labels::validate_label_selector;
use crate::validation::meta::validate_annotations_size;
use crate::validation::names;
use crate::validation::paths::validate_descending_and_free;
use crate::validation::signer::{is_kubernetes_signer, validate_signer_name, validate_trust_bundle_name};

const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// In the order in which Kubernetes names them.
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_SECONDS_MIN: i32 = 3600;
const CERTIFICATE_SECONDS_MAX: i32 = 7_862_400;
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i32 = 86_400;
const CONFLICT: &str = "conflicting duplicate paths";

/// The paths that sources took so far.
type Paths = BTreeSet<String>;

pub(super) fn validate_projected(projected: &ProjectedVolumeSource, at: &FieldPath, errors: &mut Errors) {
    validate_mode(projected.default_mode, &at.child("defaultMode"), errors);
    let mut paths = Paths::new();
    for (index, source) in items(&projected.sources).iter().enumerate() {
        validate_projection(source, &mut paths, at, &at.child("sources").index(index), errors);
    }
}

fn validate_projection(
    source: &VolumeProjection,
    paths: &mut Paths,
    volume_at: &FieldPath,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if let Some(secret) = &source.secret {
        let at = at.child("secret");
        validate_keys(&secret.name, items(&secret.items), paths, volume_at, &at, errors);
    }
    if let Some(config_map) = &source.config_map {
        let at = at.child("configMap");
        validate_keys(&config_map.name, items(&config_map.items), paths, volume_at, &at, errors);
    }
    for file in source.downward_api.iter().flat_map(|projection| items(&projection.items)) {
        validate_downward_api_file(file, &at.child("downwardAPI"), errors);
        if !file.path.is_empty() && !paths.insert(file.path.clone()) {
            errors.invalid(volume_at, file.path.as_str(), CONFLICT);
        }
    }
    if let Some(token) = &source.service_account_token {
        validate_token(token, volume_at, &at.child("serviceAccountToken"), errors);
    }
    if let Some(bundle) = &source.cluster_trust_bundle {
        validate_trust_bundle(bundle, &at.child("clusterTrustBundle"), errors);
        if !paths.insert(bundle.path.clone()) {
            errors.invalid(volume_at, bundle.path.as_str(), CONFLICT);
        }
    }
    if let Some(certificate) = &source.pod_certificate {
        let at = at.child("podCertificate");
        validate_certificate(certificate, &at, errors);
        validate_certificate_paths(certificate, paths, volume_at, &at, errors);
    }
    let sources = [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ];
    if sources.into_iter().filter(|is_set| *is_set).count() > 1 {
        errors.forbidden(at, "may not specify more than 1 volume type per source");
    }
}

fn validate_keys(
    name: &str,
    keys: &[KeyToPath],
    paths: &mut Paths,
    volume_at: &FieldPath,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    }
    for (index, item) in keys.iter().enumerate() {
        validate_key_to_path(item, &at.child("items").index(index), errors);
        if !item.path.is_empty() && !paths.insert(item.path.clone()) {
            errors.invalid(volume_at, name, CONFLICT);
        }
    }
}

/// Kubernetes names the token's path as one of the volume itself.
fn validate_token(token: &ServiceAccountTokenProjection, volume_at: &FieldPath, at: &FieldPath, errors: &mut Errors) {
    let seconds = token.expiration_seconds.unwrap_or(0);
    if seconds < TOKEN_SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&at.child("expirationSeconds"), seconds, detail);
    }
    if seconds > TOKEN_SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&at.child("expirationSeconds"), seconds, detail);
    }
    if token.path.is_empty() {
        errors.required(&volume_at.child("path"), "");
    } else {
        validate_descending_and_free(&token.path, &volume_at.child("path"), errors);
    }
}

fn validate_trust_bundle(bundle: &ClusterTrustBundleProjection, at: &FieldPath, errors: &mut Errors) {
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => errors.invalid_object(at, bundle, "only one of name and signerName may be used"),
        (Some(name), None) => {
            if name.is_empty() {
                errors.required(&at.child("name"), "must be a valid object name");
            }
            for wrong in validate_trust_bundle_name(name) {
                let detail = format!("not a valid clustertrustbundlename: {wrong}");
                errors.invalid(&at.child("name"), name.as_str(), detail);
            }
            if let Some(selector) = &bundle.label_selector {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid_object(&at.child("labelSelector"), selector, detail);
            }
        }
        (None, Some(signer)) => {
            if signer.is_empty() {
                errors.required(&at.child("signerName"), "must be a valid signer name");
            }
            validate_signer_name(signer, &at.child("signerName"), errors);
            validate_label_selector(bundle.label_selector.as_ref(), &at.child("labelSelector"), errors);
        }
        (None, None) => errors.required(at, "either name or signerName must be specified"),
    }
    if bundle.path.is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_descending_and_free(&bundle.path, &at.child("path"), errors);
}

fn validate_certificate(certificate: &PodCertificateProjection, at: &FieldPath, errors: &mut Errors) {
    validate_signer_name(&certificate.signer_name, &at.child("signerName"), errors);
    let annotations_at = at.child("userAnnotations");
    for (key, _) in entries(&certificate.user_annotations) {
        let key = key.to_lowercase();
        let wrong = names::qualified_name(&key);
        if wrong.is_empty() && !key.contains('/') {
            let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            errors.invalid(&annotations_at, key.as_str(), detail);
        }
        errors.invalid_text(&annotations_at, &key, wrong);
    }
    validate_annotations_size(&certificate.user_annotations, &annotations_at, errors);
    errors.one_of(&at.child("keyType"), &certificate.key_type, &KEY_TYPES);
    let Some(seconds) = certificate.max_expiration_seconds else { return };
    let at = at.child("maxExpirationSeconds");
    if seconds < CERTIFICATE_SECONDS_MIN {
        errors.invalid(&at, seconds, "if provided, maxExpirationSeconds must be >= 3600");
    }
    let is_kubernetes = is_kubernetes_signer(&certificate.signer_name);
    let seconds_max = if is_kubernetes { KUBERNETES_CERTIFICATE_SECONDS_MAX } else { CERTIFICATE_SECONDS_MAX };
    if seconds > seconds_max {
        errors.invalid(&at, seconds, format!("if provided, maxExpirationSeconds must be <= {seconds_max}"));
    }
}

fn validate_certificate_paths(
    certificate: &PodCertificateProjection,
    paths: &mut Paths,
    volume_at: &FieldPath,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let fields = [
        ("credentialBundlePath", text(&certificate.credential_bundle_path)),
        ("keyPath", text(&certificate.key_path)),
        ("certificateChainPath", text(&certificate.certificate_chain_path)),
    ];
    let mut has_path = false;
    for (field, path) in fields.into_iter().filter(|(_, path)| !path.is_empty()) {
        has_path = true;
        validate_descending_and_free(path, &at.child(field), errors);
        if !paths.insert(path.to_owned()) {
            errors.invalid(volume_at, path, CONFLICT);
        }
    }
    if !has_path {
        errors.required(at, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}
