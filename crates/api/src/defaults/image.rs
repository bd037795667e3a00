//! The tag of an image reference, as far as defaulting must know it.
//!
//! The pull policy of a container hangs on whether its image's tag is `latest` or absent (L-110).
//! This reads the familiar form of references (`nginx`, `nginx:1.27`, `host:5000/a/b@sha256:...`) as Kubernetes does.
//! It does not resolve or pull anything, and it does not report what is wrong with a reference.

/// What defaulting sees of an image reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageTag<'a> {
    /// The tag that is written, or `latest` where neither tag nor digest is.
    Tag(&'a str),
    /// There is a digest and no tag.
    DigestOnly,
    /// The text is no image reference.
    Malformed,
}

const TAG_LENGTH_MAX: usize = 128;
const REPOSITORY_LENGTH_MAX: usize = 255;

/// Reads the tag of an image reference.
pub fn image_tag(reference: &str) -> ImageTag<'_> {
    parse(reference).unwrap_or(ImageTag::Malformed)
}

fn parse(reference: &str) -> Option<ImageTag<'_>> {
    if reference.len() == 64 && reference.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        // 64 hexadecimal digits name an image by its id, which a manifest can't do.
        return None;
    }
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    let (domain, remainder) = split_domain(rest);
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder, None),
    };
    let is_name = domain.is_none_or(is_domain) && path.split('/').all(is_path_component);
    let length = domain.unwrap_or("docker.io/library").len() + 1 + path.len();
    if !is_name || length > REPOSITORY_LENGTH_MAX || !tag.is_none_or(is_tag) || !digest.is_none_or(is_digest) {
        return None;
    }
    Some(match (tag, digest) {
        (Some(tag), _) => ImageTag::Tag(tag),
        (None, Some(_)) => ImageTag::DigestOnly,
        (None, None) => ImageTag::Tag("latest"),
    })
}

/// The registry's host and port, if the first component is one rather than part of the name.
fn split_domain(reference: &str) -> (Option<&str>, &str) {
    match reference.split_once('/') {
        Some((first, rest))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.chars().any(|character| character.is_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, reference),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                let is_address = !address.is_empty() && address.bytes().all(|it| it.is_ascii_hexdigit() || it == b':');
                return is_address && (port.is_empty() || port.strip_prefix(':').is_some_and(is_number));
            }
            None => return false,
        },
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    port.is_none_or(is_number) && host.split('.').all(is_host_component)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_host_component(component: &str) -> bool {
    !component.is_empty()
        && !component.starts_with('-')
        && !component.ends_with('-')
        && component.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lower-case letters and digits, between them one dot, one or two underscores, or any number of dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    is_word(*first)
        && is_word(*last)
        && bytes.chunk_by(|a, b| is_word(*a) == is_word(*b)).all(|run| {
            run.iter().all(|byte| is_word(*byte))
                || matches!(run, b"." | b"_" | b"__")
                || run.iter().all(|byte| *byte == b'-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_LENGTH_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hexadecimal)) = digest.split_once(':') else { return false };
    let is_algorithm = algorithm.split(['-', '_', '+', '.']).all(|part| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    // Known algorithms have a fixed length; a reference with another length is refused.
    let is_long_enough = match algorithm {
        "sha256" => hexadecimal.len() == 64,
        "sha384" => hexadecimal.len() == 96,
        "sha512" => hexadecimal.len() == 128,
        _ => false,
    };
    is_algorithm && is_long_enough && hexadecimal.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::{ImageTag, image_tag};

    #[test]
    fn tags_are_read_as_kubernetes_reads_them() {
        let digest = format!("a@sha256:{}", "0".repeat(64));
        let both = format!("a:latest@sha256:{}", "0".repeat(64));
        let short = format!("a@sha256:{}", "0".repeat(32));
        let id = "0".repeat(64);
        let cases = [
            ("nginx", ImageTag::Tag("latest")),
            ("nginx:latest", ImageTag::Tag("latest")),
            ("nginx:1.27", ImageTag::Tag("1.27")),
            ("library/nginx:1.27", ImageTag::Tag("1.27")),
            ("host:5000/nginx", ImageTag::Tag("latest")),
            ("host:5000/a/b:v1", ImageTag::Tag("v1")),
            ("[::1]:5000/a", ImageTag::Tag("latest")),
            ("localhost/a:x", ImageTag::Tag("x")),
            ("EXAMPLE/a", ImageTag::Tag("latest")),
            ("gcr.io/a__b/c-d.e:x_Y.z-1", ImageTag::Tag("x_Y.z-1")),
            (&digest, ImageTag::DigestOnly),
            (&both, ImageTag::Tag("latest")),
            (&short, ImageTag::Malformed),
            (&id, ImageTag::Malformed),
            ("", ImageTag::Malformed),
            ("Nginx", ImageTag::Malformed),
            ("a..b", ImageTag::Malformed),
            ("nginx:", ImageTag::Malformed),
            ("nginx:-x", ImageTag::Malformed),
            (" nginx", ImageTag::Malformed),
            ("a/", ImageTag::Malformed),
        ];
        let found: Vec<_> = cases.iter().map(|(reference, _)| (*reference, image_tag(reference))).collect();
        assert_eq!(found, cases);
    }
}
