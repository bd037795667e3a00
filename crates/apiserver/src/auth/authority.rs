//! The server's own certificate authority.
//!
//! Its certificate, its key and the key that signs tokens are kept in a directory (or in memory alone);
//! every other certificate is made anew at each start, and older ones stay good as long as the authority does.

use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::token::TokenSigner;

/// Certificates are good for so long; kubeadm gives its authority as much.
const VALIDITY_YEARS: i16 = 10;
/// Names that pods call the server by.
const SERVICE_NAMES: [&str; 5] =
    ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];

/// Why the authority could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A certificate or key could not be made or read.
    #[error("the certificate of {what} cannot be made: {source}")]
    Certificate {
        /// For what.
        what: String,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// TLS refused the certificates.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The key that signs tokens is no such key.
    #[error(
        "the key in {path} cannot sign tokens; hint: remove the file to have a new one made (issued tokens end with it)"
    )]
    TokenKey {
        /// The file.
        path: PathBuf,
    },
}

/// Names and addresses that the serving certificate is good for, besides loopback and the cluster's own.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    /// Host names.
    pub names: Vec<String>,
    /// Addresses, that of the `kubernetes` service among them.
    pub addresses: Vec<IpAddr>,
}

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// The certificate authority.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
    tokens: TokenSigner,
}

impl Authority {
    /// Reads the authority from a directory, or makes one there (files of mode 0600, the directory 0700).
    ///
    /// Blocks on the disk.
    pub fn open(directory: &Path) -> Result<Self, AuthorityError> {
        let error = |path: &Path, source| AuthorityError::File { path: path.to_owned(), source };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|source| error(directory, source))?;
        let key_path = directory.join("ca.key");
        let key = read_or_make(&key_path, || Ok(new_key("the authority")?.serialize_pem()))?;
        let certificate = read_or_make(&directory.join("ca.crt"), || authority_certificate(&key))?;
        let token_path = directory.join("service-account.key");
        let token_key = read_or_make(&token_path, || Ok(new_key("service accounts")?.serialize_pem()))?;
        Self::from_pem(certificate, &key, &token_key, &token_path)
    }

    /// An authority that lives as long as the process.
    pub fn in_memory() -> Result<Self, AuthorityError> {
        let key = new_key("the authority")?.serialize_pem();
        let certificate = authority_certificate(&key)?;
        let token_key = new_key("service accounts")?.serialize_pem();
        Self::from_pem(certificate, &key, &token_key, Path::new("memory"))
    }

    fn from_pem(certificate: String, key: &str, token_key: &str, token_path: &Path) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Certificate { what: "the authority".to_owned(), source };
        let key = KeyPair::from_pem(key).map_err(failed)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(failed)?;
        let bad_key = || AuthorityError::TokenKey { path: token_path.to_owned() };
        let token_key = KeyPair::from_pem(token_key).map_err(|_| bad_key())?;
        let tokens = TokenSigner::from_pkcs8(token_key.serialized_der()).ok_or_else(bad_key)?;
        Ok(Self { certificate, issuer, tokens })
    }

    /// The authority's certificate in PEM, what clients verify the server by.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// What signs and checks service account tokens.
    pub fn tokens(&self) -> &TokenSigner {
        &self.tokens
    }

    /// A certificate that makes its holder that user in that group.
    pub fn client_credential(&self, user: &str, group: &str) -> Result<Credential, AuthorityError> {
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, user);
        name.push(DnType::OrganizationName, group);
        let mut params = params(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.credential(user, &params)
    }

    /// A kubeconfig for the administrator, with everything inside it.
    pub fn admin_kubeconfig(&self, server: &str) -> Result<String, AuthorityError> {
        let admin = self.client_credential("kubernetes-admin", super::MASTERS)?;
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        let (authority, certificate, key) = (encode(&self.certificate), encode(&admin.certificate), encode(&admin.key));
        Ok(format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: monopod\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {authority}\nusers:\n- name: admin\n  user:\n    \
             client-certificate-data: {certificate}\n    client-key-data: {key}\ncontexts:\n- name: monopod\n  \
             context:\n    cluster: monopod\n    user: admin\ncurrent-context: monopod\npreferences: {{}}\n"
        ))
    }

    /// TLS for the server: its certificate, and client certificates of this authority taken but not asked for.
    pub fn server_tls(&self, names: &ServerNames) -> Result<Arc<ServerConfig>, AuthorityError> {
        let tls = |error: &dyn std::fmt::Display| AuthorityError::Tls(error.to_string());
        let served = self.serving_credential(names)?;
        let chain = pem_certificates(&served.certificate).map_err(|error| tls(&error))?;
        let key =
            rustls::pki_types::pem::PemObject::from_pem_slice(served.key.as_bytes()).map_err(|error| tls(&error))?;
        let mut roots = RootCertStore::empty();
        for root in pem_certificates(&self.certificate).map_err(|error| tls(&error))? {
            roots.add(root).map_err(|error| tls(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| tls(&error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| tls(&error))?;
        // every upgrade is HTTP/1.1, so that is always offered too.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn serving_credential(&self, names: &ServerNames) -> Result<Credential, AuthorityError> {
        let mut name = DistinguishedName::new();
        name.push(DnType::CommonName, "kube-apiserver");
        let mut params = params(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
        params
            .subject_alt_names
            .extend(loopback.into_iter().chain(names.addresses.iter().copied()).map(SanType::IpAddress));
        for name in SERVICE_NAMES.into_iter().chain(names.names.iter().map(String::as_str)) {
            let name =
                name.try_into().map_err(|source| AuthorityError::Certificate { what: name.to_owned(), source })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        self.credential("the server", &params)
    }

    fn credential(&self, what: &str, params: &CertificateParams) -> Result<Credential, AuthorityError> {
        let key = new_key(what)?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(|source| AuthorityError::Certificate { what: what.to_owned(), source })?;
        Ok(Credential { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn new_key(what: &str) -> Result<KeyPair, AuthorityError> {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|source| AuthorityError::Certificate { what: what.to_owned(), source })
}

fn authority_certificate(key: &str) -> Result<String, AuthorityError> {
    let failed = |source| AuthorityError::Certificate { what: "the authority".to_owned(), source };
    let key = KeyPair::from_pem(key).map_err(failed)?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "kubernetes");
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.self_signed(&key).map(|certificate| certificate.pem()).map_err(failed)
}

/// What all certificates have: a name, and a time that begins yesterday, for clocks that run late.
fn params(name: DistinguishedName) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let begin = now.yesterday().unwrap_or(now);
    let date = |date: jiff::civil::Date, years: i16| {
        // The 28th is in every month of every year.
        let day = date.day().unsigned_abs().min(28);
        rcgen::date_time_ymd(i32::from(date.year() + years), date.month().unsigned_abs(), day)
    };
    params.not_before = date(begin, 0);
    params.not_after = date(now, VALIDITY_YEARS);
    params
}

fn pem_certificates(
    pem: &str,
) -> Result<Vec<rustls::pki_types::CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    rustls::pki_types::pem::PemObject::pem_slice_iter(pem.as_bytes()).collect()
}

/// Reads a secret file, or makes it. Two processes that make it at once agree on the first one's.
fn read_or_make(path: &Path, make: impl Fn() -> Result<String, AuthorityError>) -> Result<String, AuthorityError> {
    let failed = |source| AuthorityError::File { path: path.to_owned(), source };
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        read => return read.map_err(failed),
    }
    let text = make()?;
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(mut file) => file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return std::fs::read_to_string(path).map_err(failed);
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_made_once_and_read_again() -> Result<(), Box<dyn std::error::Error>> {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("pki");
        let first = Authority::open(&path)?.certificate().to_owned();
        assert_eq!(Authority::open(&path)?.certificate(), first);
        let mode = std::fs::metadata(path.join("ca.key"))?.permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        Ok(())
    }

    #[test]
    fn tls_is_set_up_with_names_and_addresses() -> Result<(), AuthorityError> {
        let names = ServerNames { names: vec!["host".to_owned()], addresses: vec![IpAddr::from([10, 96, 0, 1])] };
        let config = Authority::in_memory()?.server_tls(&names)?;
        assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        Ok(())
    }
}
