//! Warnings of keys that one volume writes to the same path, or to a path below another's.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection};

use crate::absent::{items, text};
use crate::field::quote;

/// A path in a volume, and where its content comes from, empty if the volume has one source only.
struct Origin {
    path: String,
    source: String,
}

impl Origin {
    fn new(path: &str, source: &str) -> Origin {
        Origin { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    fn overlaps(&self, other: &Origin) -> bool {
        let (own, theirs) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (own.starts_with(&theirs) || theirs.starts_with(&own))
    }

    fn describe(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }
}

/// Warns of overlaps in every volume.
pub(super) fn warn_of_overlaps(volumes: &[Volume], warnings: &mut Vec<String>) {
    for volume in volumes {
        let name = volume.name.as_str();
        if let Some(source) = &volume.config_map {
            let kind = format!("ConfigMap {}", quote(&source.name));
            warn_of_volume(name, &kind, of_keys(items(&source.items), ""), warnings);
        }
        if let Some(source) = &volume.secret {
            let kind = format!("Secret {}", quote(text(&source.secret_name)));
            warn_of_volume(name, &kind, of_keys(items(&source.items), ""), warnings);
        }
        if let Some(source) = &volume.downward_api {
            warn_of_volume(name, "DownwardAPI", of_files(items(&source.items), ""), warnings);
        }
        if let Some(source) = &volume.projected {
            warn_of_projected(name, items(&source.sources), warnings);
        }
    }
}

fn warn_of_projected(name: &str, sources: &[VolumeProjection], warnings: &mut Vec<String>) {
    let mut known = Vec::new();
    for source in sources {
        if *source == VolumeProjection::default() {
            warnings.push(format!("volume {} (Projected) has no sources provided", quote(name)));
        }
        for origin in of_projection(source) {
            warn_of_origin(name, "Projected", &origin, &known, warnings);
            known.push(origin);
        }
    }
}

fn warn_of_volume(name: &str, kind: &str, origins: Vec<Origin>, warnings: &mut Vec<String>) {
    let mut known = Vec::new();
    for origin in origins {
        warn_of_origin(name, kind, &origin, &known, warnings);
        known.push(origin);
    }
}

fn warn_of_origin(name: &str, kind: &str, origin: &Origin, known: &[Origin], warnings: &mut Vec<String>) {
    for other in known.iter().filter(|other| origin.overlaps(other)) {
        let (one, other) = (origin.describe(), other.describe());
        warnings.push(format!("volume {} ({kind}): overlapping paths: {one} with {other}", quote(name)));
    }
}

fn of_keys(keys: &[KeyToPath], source: &str) -> Vec<Origin> {
    keys.iter().map(|key| Origin::new(&key.path, source)).collect()
}

fn of_files(files: &[DownwardAPIVolumeFile], source: &str) -> Vec<Origin> {
    files.iter().map(|file| Origin::new(&file.path, source)).collect()
}

/// A source that names no keys writes paths that are not known here.
fn of_projection(projection: &VolumeProjection) -> Vec<Origin> {
    if let Some(source) = projection.config_map.as_ref().filter(|source| source.items.is_some()) {
        return of_keys(items(&source.items), &format!("ConfigMap {}", quote(&source.name)));
    }
    if let Some(source) = projection.secret.as_ref().filter(|source| source.items.is_some()) {
        return of_keys(items(&source.items), &format!("Secret {}", quote(&source.name)));
    }
    if let Some(source) = projection.downward_api.as_ref().filter(|source| source.items.is_some()) {
        return of_files(items(&source.items), "DownwardAPI");
    }
    if let Some(token) = &projection.service_account_token {
        return vec![Origin::new(&token.path, "ServiceAccountToken")];
    }
    if let Some(bundle) = &projection.cluster_trust_bundle {
        let name = bundle.name.as_ref().or(bundle.signer_name.as_ref()).map_or("", String::as_str);
        return vec![Origin::new(&bundle.path, &format!("ClusterTrustBundle {}", quote(name)))];
    }
    let Some(certificate) = &projection.pod_certificate else { return Vec::new() };
    let files = [
        (&certificate.certificate_chain_path, "PodCertificate chain"),
        (&certificate.key_path, "PodCertificate key"),
        (&certificate.credential_bundle_path, "PodCertificate credential bundle"),
    ];
    files
        .into_iter()
        .filter(|(path, _)| !text(path).is_empty())
        .map(|(path, source)| Origin::new(text(path), source))
        .collect()
}
