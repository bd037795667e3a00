//! One repository of a registry, asked through `oci-client`.
//!
//! The crate speaks the protocol and the logins; digests, sizes and the words of errors are looked after here.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use futures::StreamExt as _;
use oci_client::client::{BlobResponse, Client, ClientConfig, ClientProtocol};
use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use tokio::io::AsyncWriteExt as _;

use super::credentials::Login;
use super::digest::{Digest, Hasher};
use super::documents::{DOCUMENT_BYTES_MAX, Descriptor};
use super::progress::{Progress, short};
use super::reference::Reference;
use super::store::chain;

const MANIFEST_TYPES: &[&str] = &[
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
];
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest silence within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a broken download is taken up again where it broke.
const RESUMPTIONS_MAX: usize = 5;

/// A repository, and who we are there.
pub(crate) struct Registry {
    client: Result<Client, RegistryError>,
    auth: RegistryAuth,
    reference: Reference,
}

/// What a registry says when it does not give something; the words are close to containerd's.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RegistryError {
    /// It has no such image or blob.
    #[error("{0}: not found")]
    NotFound(String),
    /// It does not let us.
    #[error("pull access denied, repository does not exist or may require authorization: {0}")]
    Denied(String),
    /// It does not answer.
    #[error("failed to do request: {0}")]
    Unreachable(String),
    /// It answers something else.
    #[error("unexpected answer of the registry: {0}")]
    Answer(String),
    /// What it gave is not what was asked for.
    #[error("unexpected content: {0}")]
    Content(String),
    /// What it gave could not be written.
    #[error("cannot write below `{}`: {problem}", place.display())]
    Write {
        /// Where.
        place: PathBuf,
        /// Why.
        problem: String,
    },
}

impl Registry {
    pub(crate) fn new(reference: &Reference, login: Option<Login>, insecure: &[String]) -> Registry {
        let host = reference.registry();
        let is_plain = is_loopback(host) || insecure.iter().any(|registry| registry == host);
        let protocol =
            if is_plain { ClientProtocol::HttpsExcept(vec![host.to_owned()]) } else { ClientProtocol::Https };
        install_crypto();
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            user_agent: concat!("monopod/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let auth = login.map_or(RegistryAuth::Anonymous, |login| RegistryAuth::Basic(login.username, login.password));
        let client = Client::try_from(config).map_err(|error| RegistryError::Unreachable(chain(&error)));
        Registry { client, auth, reference: reference.clone() }
    }

    /// The manifest or index that the reference names, or another one of the repository.
    pub(crate) async fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, RegistryError> {
        let asked = match digest {
            Some(digest) => self.reference.at(digest.clone()),
            None => self.reference.clone(),
        };
        let answer = self.client()?.pull_manifest_raw(&foreign(&asked), &self.auth, MANIFEST_TYPES).await;
        let (bytes, _) = answer.map_err(|error| explain(error, &asked.to_string()))?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(RegistryError::Content(format!("a manifest of {} bytes", bytes.len())));
        }
        match digest {
            Some(digest) if Digest::of(&bytes) != *digest => {
                Err(RegistryError::Content(format!("its digest is {}", Digest::of(&bytes))))
            }
            _ => Ok(bytes.to_vec()),
        }
    }

    /// A blob that has to be small.
    pub(crate) async fn small_blob(&self, descriptor: &Descriptor) -> Result<Vec<u8>, RegistryError> {
        if descriptor.size > DOCUMENT_BYTES_MAX {
            return Err(RegistryError::Content(format!("a configuration of {} bytes", descriptor.size)));
        }
        let mut sink = Sink::new(descriptor);
        let mut content = Vec::new();
        let mut stream = self.stream(descriptor, 0).await?.0;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| RegistryError::Unreachable(chain(&error)))?;
            sink.take(&chunk)?;
            content.extend_from_slice(&chunk);
        }
        sink.finish()?;
        Ok(content)
    }

    /// Downloads a blob into a file. A download that breaks is taken up again a few times if the registry can do that.
    pub(crate) async fn blob(
        &self,
        descriptor: &Descriptor,
        mut file: tokio::fs::File,
        place: &Path,
        progress: &dyn Progress,
    ) -> Result<(), RegistryError> {
        let item = Item::begin(progress, descriptor);
        let unwritten =
            |error: std::io::Error| RegistryError::Write { place: place.to_owned(), problem: error.to_string() };
        let mut sink = Sink::new(descriptor);
        let mut resumptions = 0;
        while !sink.is_full() {
            let (mut stream, is_resumed) = self.stream(descriptor, sink.bytes).await?;
            if sink.bytes > 0 && !is_resumed {
                // It starts from the beginning, and so do we.
                sink = Sink::new(descriptor);
                file.set_len(0).await.map_err(unwritten)?;
                tokio::io::AsyncSeekExt::rewind(&mut file).await.map_err(unwritten)?;
            }
            let broken = loop {
                match stream.next().await {
                    Some(Ok(chunk)) => {
                        sink.take(&chunk)?;
                        file.write_all(&chunk).await.map_err(unwritten)?;
                        item.advance(chunk.len() as u64);
                    }
                    Some(Err(error)) => break chain(&error),
                    None => break format!("it ended after {} of {} bytes", sink.bytes, descriptor.size),
                }
            };
            resumptions += 1;
            if !sink.is_full() && resumptions > RESUMPTIONS_MAX {
                return Err(RegistryError::Unreachable(broken));
            }
        }
        sink.finish()?;
        file.flush().await.map_err(unwritten)
    }

    /// The content of a blob from an offset on, and whether the registry heeded the offset.
    async fn stream(
        &self,
        descriptor: &Descriptor,
        offset: u64,
    ) -> Result<(impl futures::Stream<Item = std::io::Result<bytes::Bytes>> + Unpin + use<>, bool), RegistryError> {
        let size = i64::try_from(descriptor.size)
            .map_err(|_| RegistryError::Content(format!("a blob of {} bytes", descriptor.size)))?;
        let wanted = OciDescriptor { digest: descriptor.digest.to_string(), size, ..OciDescriptor::default() };
        let at = foreign(&self.reference);
        let explain = |error| explain(error, descriptor.digest.as_str());
        let client = self.client()?;
        // Logins are kept for each registry; a blob may be the first thing that is asked for.
        client.store_auth_if_needed(at.resolve_registry(), &self.auth).await;
        if offset == 0 {
            let stream = client.pull_blob_stream(&at, &wanted).await.map_err(explain)?;
            return Ok((stream.stream, false));
        }
        Ok(match client.pull_blob_stream_partial(&at, &wanted, offset, None).await.map_err(explain)? {
            BlobResponse::Full(stream) => (stream.stream, false),
            BlobResponse::Partial(stream) => (stream.stream, true),
        })
    }

    fn client(&self) -> Result<&Client, RegistryError> {
        self.client.as_ref().map_err(Clone::clone)
    }
}

/// Counts and hashes what comes.
struct Sink<'a> {
    descriptor: &'a Descriptor,
    hasher: Hasher,
    bytes: u64,
}

impl<'a> Sink<'a> {
    fn new(descriptor: &'a Descriptor) -> Self {
        Sink { descriptor, hasher: Hasher::default(), bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.descriptor.size
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), RegistryError> {
        self.hasher.update(chunk);
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if self.bytes > self.descriptor.size {
            return Err(RegistryError::Content(format!("more than the {} bytes it should have", self.descriptor.size)));
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RegistryError> {
        let (digest, bytes) = self.hasher.finish();
        if bytes != self.descriptor.size {
            return Err(RegistryError::Content(format!("{bytes} bytes instead of {}", self.descriptor.size)));
        }
        if digest != self.descriptor.digest {
            return Err(RegistryError::Content(format!("its digest is {digest}")));
        }
        Ok(())
    }
}

/// An item of progress, ended whatever happens.
struct Item<'a> {
    progress: &'a dyn Progress,
    name: String,
}

impl<'a> Item<'a> {
    fn begin(progress: &'a dyn Progress, descriptor: &Descriptor) -> Self {
        let name = short(&descriptor.digest);
        progress.begin(&name, Some(descriptor.size));
        Item { progress, name }
    }

    fn advance(&self, bytes: u64) {
        self.progress.advance(&self.name, bytes);
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        self.progress.end(&self.name);
    }
}

/// Whether a registry's host is this machine: such registries have no certificates.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// TLS needs one implementation of its algorithms for the process; whoever comes first chooses, and all choose ring.
fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error means that it was chosen before.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
}

fn foreign(reference: &Reference) -> oci_client::Reference {
    let (registry, repository) = (reference.registry().to_owned(), reference.repository().to_owned());
    match (reference.digest(), reference.tag()) {
        (Some(digest), _) => oci_client::Reference::with_digest(registry, repository, digest.to_string()),
        (None, tag) => oci_client::Reference::with_tag(registry, repository, tag.unwrap_or("latest").to_owned()),
    }
}

/// Puts the crate's errors into the words that users of containerd know.
fn explain(error: OciDistributionError, asked: &str) -> RegistryError {
    match &error {
        OciDistributionError::ImageManifestNotFoundError(_) | OciDistributionError::ServerError { code: 404, .. } => {
            RegistryError::NotFound(asked.to_owned())
        }
        OciDistributionError::AuthenticationFailure(text) => RegistryError::Denied(text.trim().to_owned()),
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::ServerError { code: 403, .. } => {
            RegistryError::Denied("authorization failed".to_owned())
        }
        OciDistributionError::RegistryError { envelope, .. } => match envelope.errors.first() {
            Some(first) => match first.code {
                OciErrorCode::ManifestUnknown
                | OciErrorCode::NameUnknown
                | OciErrorCode::NotFound
                | OciErrorCode::BlobUnknown
                | OciErrorCode::ManifestBlobUnknown => RegistryError::NotFound(asked.to_owned()),
                OciErrorCode::Unauthorized | OciErrorCode::Denied => RegistryError::Denied(first.message.clone()),
                _ => RegistryError::Answer(first.message.clone()),
            },
            None => RegistryError::Answer(chain(&error)),
        },
        OciDistributionError::DigestError(DigestError::VerificationError { actual, .. }) => {
            RegistryError::Content(format!("its digest is {actual}"))
        }
        OciDistributionError::RequestError(_) => RegistryError::Unreachable(chain(&error)),
        _ => RegistryError::Answer(chain(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_this_machine_is_asked_without_tls() {
        for host in ["localhost", "localhost:5000", "127.0.0.1:1", "127.1.2.3", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["docker.io", "localhost.example.com", "128.0.0.1:5000", "[::2]", ""] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
