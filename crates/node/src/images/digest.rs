//! Digests: the names of content, and readers that compute them while they read.
//!
//! Only sha256 is known; every registry and tool writes it, and an image that names its parts otherwise is refused with a clear error.

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256";
const HEX_LENGTH: usize = 64;

/// `sha256:` and 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

/// Why a text is no digest; the words are those of other runtimes, because they reach users through pod statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It is not `algorithm:digits`.
    #[error("invalid checksum digest format")]
    Format,
    /// It has too few or too many digits.
    #[error("invalid checksum digest length")]
    Length,
    /// It is not sha256.
    #[error("unsupported digest algorithm")]
    Algorithm,
}

impl Digest {
    /// Parses a digest.
    pub fn parse(text: &str) -> Result<Digest, DigestError> {
        let (algorithm, hex) = text.split_once(':').ok_or(DigestError::Format)?;
        if algorithm != ALGORITHM {
            return Err(DigestError::Algorithm);
        }
        if hex.len() != HEX_LENGTH {
            return Err(DigestError::Length);
        }
        if !hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Format);
        }
        Ok(Digest(text.to_owned()))
    }

    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::finish(Sha256::new_with_prefix(bytes))
    }

    /// The digest as text, with its algorithm.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digits alone.
    pub fn hex(&self) -> &str {
        self.0.get(ALGORITHM.len() + 1..).unwrap_or_default()
    }

    fn finish(state: Sha256) -> Digest {
        let hex: String = state.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Digest(format!("{ALGORITHM}:{hex}"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Digest, DigestError> {
        Digest::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

/// The chain ids of a list of diff ids, the lowest layer first (image-spec: config.md, "layer ChainID").
///
/// A layer is stored under its chain id, not its diff id, because unpacking it needs the layers below:
/// a directory that the archive does not list keeps the owner and mode that it has there.
pub(crate) fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff_id in diff_ids {
        let next = match chain.last() {
            None => diff_id.clone(),
            Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
        };
        chain.push(next);
    }
    chain
}

/// Computes a digest of bytes that come piece by piece.
#[derive(Clone, Default)]
pub(crate) struct Hasher {
    state: Sha256,
    bytes: u64,
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The digest, and how many bytes it is of.
    pub(crate) fn finish(self) -> (Digest, u64) {
        (Digest::finish(self.state), self.bytes)
    }
}

/// Hashes what is read through it, and refuses to read more than a limit.
pub(crate) struct HashingReader<R> {
    inner: R,
    hasher: Hasher,
    limit: u64,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(inner: R, limit: u64) -> Self {
        HashingReader { inner, hasher: Hasher::default(), limit }
    }

    /// Reads what is left, so that the digest is that of the whole, and gives digest and length.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        if self.hasher.bytes > self.limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {} bytes", self.limit)));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_sha256_in_lower_case() {
        assert_eq!(Digest::of(b"").as_str(), EMPTY);
        assert_eq!(Digest::parse(EMPTY), Ok(Digest::of(b"")));
        assert_eq!(Digest::parse("abc"), Err(DigestError::Format));
        assert_eq!(Digest::parse("sha512:00"), Err(DigestError::Algorithm));
        assert_eq!(Digest::parse("sha256:00"), Err(DigestError::Length));
        assert_eq!(Digest::parse(&format!("sha256:{}", "A".repeat(64))), Err(DigestError::Format));
        assert_eq!(Digest::parse(&format!("sha256:{}", "/".repeat(64))), Err(DigestError::Format));
    }

    #[test]
    fn a_chain_id_depends_on_all_layers_below() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let both = Digest::of(format!("{a} {b}").as_bytes());
        assert_eq!(chain_ids(&[a.clone(), b]), vec![a, both]);
    }

    #[test]
    fn a_reader_stops_at_its_limit() {
        let mut reader = HashingReader::new(&b"12345"[..], 4);
        let error = io::copy(&mut reader, &mut io::sink()).map_err(|error| error.kind());
        assert_eq!(error, Err(io::ErrorKind::FileTooLarge));
    }
}
