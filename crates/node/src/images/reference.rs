//! Names of images, read and completed as Docker and Kubernetes do.
//!
//! `busybox` is `docker.io/library/busybox:latest`; a name with both a tag and a digest means the digest.
//! Nothing here asks a registry.

use std::fmt;

use super::digest::{Digest, DigestError};

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DEFAULT_DOMAIN: &str = "index.docker.io";
const OFFICIAL_PREFIX: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const PATH_LENGTH_MAX: usize = 255;
const TAG_LENGTH_MAX: usize = 128;

/// A complete name of an image: registry, repository, and a tag or a digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    version: Version,
}

/// What stands after the repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Version {
    Tag(String),
    Digest(Digest),
}

/// Why a text names no image; the words are those that a kubelet shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It does not follow the grammar.
    #[error("invalid reference format")]
    Format,
    /// The repository has upper-case letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    UpperCase(String),
    /// It would follow the grammar in lower case.
    #[error("repository name must be lowercase")]
    MustBeLowerCase,
    /// The repository is too long.
    #[error("repository name must not be more than {PATH_LENGTH_MAX} characters")]
    TooLong,
    /// It is the id of an image, not a name.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    /// What follows `@` is no digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

impl Reference {
    /// Reads and completes a name.
    pub fn parse(text: &str) -> Result<Reference, ReferenceError> {
        if is_hex(text, 64..=64) && !text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ReferenceError::Identifier(text.to_owned()));
        }
        let (registry, remainder) = split_domain(text);
        let repository = remainder.split(':').next().unwrap_or_default();
        if repository.to_lowercase() != repository {
            return Err(ReferenceError::UpperCase(repository.to_owned()));
        }
        let Some(parts) = Parts::of(&remainder).filter(|_| is_domain(registry)) else {
            let lower = remainder.to_lowercase();
            let would_do = Parts::of(&lower).is_some() && is_domain(&registry.to_lowercase());
            return Err(if would_do { ReferenceError::MustBeLowerCase } else { ReferenceError::Format });
        };
        if parts.repository.len() > PATH_LENGTH_MAX {
            return Err(ReferenceError::TooLong);
        }
        let version = match parts.digest {
            Some(digest) => Version::Digest(Digest::parse(digest)?),
            None => Version::Tag(parts.tag.unwrap_or(DEFAULT_TAG).to_owned()),
        };
        Ok(Reference { registry: registry.to_owned(), repository: parts.repository.to_owned(), version })
    }

    /// The registry's host, with its port if the name has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository within the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest, if the name has one.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Digest(digest) => Some(digest),
            Version::Tag(_) => None,
        }
    }

    /// The tag, if the name has no digest.
    pub fn tag(&self) -> Option<&str> {
        match &self.version {
            Version::Tag(tag) => Some(tag),
            Version::Digest(_) => None,
        }
    }

    /// The same repository at a digest.
    pub fn at(&self, digest: Digest) -> Reference {
        Reference { version: Version::Digest(digest), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference { registry, repository, version } = self;
        match version {
            Version::Tag(tag) => write!(f, "{registry}/{repository}:{tag}"),
            Version::Digest(digest) => write!(f, "{registry}/{repository}@{digest}"),
        }
    }
}

/// `repository[:tag][@digest]`, split and checked.
struct Parts<'a> {
    repository: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        let good = repository.split('/').all(is_path_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(looks_like_digest);
        good.then_some(Parts { repository, tag, digest })
    }
}

/// The registry and what follows it: the first part is a registry only if it looks like a host.
fn split_domain(text: &str) -> (&str, String) {
    let (domain, remainder) = match text.split_once('/') {
        None => return (DEFAULT_DOMAIN, format!("{OFFICIAL_PREFIX}{text}")),
        Some((first, rest)) if first == LEGACY_DEFAULT_DOMAIN => (DEFAULT_DOMAIN, rest),
        Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first => {
            (first, rest)
        }
        Some(_) => (DEFAULT_DOMAIN, text),
    };
    if domain == DEFAULT_DOMAIN && !remainder.contains('/') {
        return (domain, format!("{OFFICIAL_PREFIX}{remainder}"));
    }
    (domain, remainder.to_owned())
}

/// A host name, an IPv4 address or an IPv6 address in brackets, with an optional port.
fn is_domain(text: &str) -> bool {
    let after_bracket = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if let Some((address, rest)) = after_bracket {
        let address_is_good =
            !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':');
        return address_is_good && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_number));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    host.split('.').all(is_domain_component) && port.is_none_or(is_number)
}

fn is_domain_component(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lower-case letters and digits, joined by one `.`, one or two `_`, or any number of `-`.
fn is_path_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends_are_words = text.bytes().next().is_some_and(is_word) && text.bytes().next_back().is_some_and(is_word);
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends_are_words
        && separators
            .all(|separator| matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= TAG_LENGTH_MAX
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// `algorithm:digits` with at least 32 digits; whether it is a digest that can be used is decided afterwards.
fn looks_like_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        let is_component = |part: &str| {
            part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        algorithm.split(['-', '_', '+', '.']).all(is_component) && is_hex(hex, 32..=usize::MAX)
    })
}

fn is_hex(text: &str, length: std::ops::RangeInclusive<usize>) -> bool {
    length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(text: &str, expected: &str) {
        let found = Reference::parse(text).map_or_else(|error| format!("! {error}"), |found| found.to_string());
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn familiar_names_are_completed_as_docker_does() {
        check("busybox", "docker.io/library/busybox:latest");
        check("busybox:1.36", "docker.io/library/busybox:1.36");
        check("library/busybox", "docker.io/library/busybox:latest");
        check("docker.io/busybox", "docker.io/library/busybox:latest");
        check("index.docker.io/busybox", "docker.io/library/busybox:latest");
        check("prom/node-exporter:v1", "docker.io/prom/node-exporter:v1");
        check("localhost/app", "localhost/app:latest");
        check("localhost:5000/app", "localhost:5000/app:latest");
        check("ghcr.io/a/b/c__d:x_Y.z-1", "ghcr.io/a/b/c__d:x_Y.z-1");
        check("[::1]:5000/app:1", "[::1]:5000/app:1");
        check("Example/app", "Example/app:latest");
        check("a---b/c.d_e", "docker.io/a---b/c.d_e:latest");
    }

    #[test]
    fn a_digest_wins_over_a_tag() {
        check(&format!("busybox@{DIGEST}"), &format!("docker.io/library/busybox@{DIGEST}"));
        check(&format!("busybox:1.36@{DIGEST}"), &format!("docker.io/library/busybox@{DIGEST}"));
        check(&format!("host:1/busybox:1.36@{DIGEST}"), &format!("host:1/busybox@{DIGEST}"));
    }

    #[test]
    fn wrong_names_are_refused_in_the_kubelets_words() {
        for wrong in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "a:",
            ":a",
            "a:b:c",
            "a b",
            "a@b",
            "-a",
            "a-",
            "a._b",
            "a___b",
            "a..b",
            "http://a/b",
            "a:-",
            "a.b:x/c",
            "[::1/a",
            "[]/a",
            "ä",
            "a\nb",
            "a/b\0",
        ] {
            check(wrong, "! invalid reference format");
        }
        check("Busybox", "! invalid reference format: repository name (library/Busybox) must be lowercase");
        check("a/B:C", "! invalid reference format: repository name (a/B) must be lowercase");
        check(&format!("a:{}", "x".repeat(129)), "! invalid reference format");
        check(&format!("a.b/{}", "x".repeat(256)), "! repository name must not be more than 255 characters");
        check("a@sha256:00000000000000000000000000000000", "! invalid checksum digest length");
        check("a@sha512:00000000000000000000000000000000", "! unsupported digest algorithm");
        let id = "0".repeat(64);
        let text = format!("! invalid repository name ({id}), cannot specify 64-byte hexadecimal strings");
        check(&id, &text);
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_an_error(text in ".*") {
            drop(Reference::parse(&text));
        }

        /// What was completed once is not completed again.
        #[test]
        fn a_complete_name_stays_as_it_is(text in "([a-zA-Z0-9.-]{1,9}(:[0-9]{1,4})?/)?[a-z0-9._/-]{1,12}(:[a-zA-Z0-9._-]{1,6})?") {
            if let Ok(reference) = Reference::parse(&text) {
                prop_assert_eq!(Reference::parse(&reference.to_string()), Ok(reference));
            }
        }
    }
}
