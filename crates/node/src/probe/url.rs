//! Addresses of HTTP requests, and where a redirect leads: as much of RFC 3986 as probes need.
//!
//! Pure. A port that was named stays in the text even if it is the scheme's own: Kubernetes' messages show it.

use std::fmt;

use crate::wording::host_port;

/// An `http` or `https` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// True for `https`.
    pub(crate) is_https: bool,
    /// Name or address, without brackets.
    pub(crate) host: String,
    /// The port, if it is named.
    pub(crate) named_port: Option<u16>,
    /// Path and query, percent-encoded.
    pub(crate) path_and_query: String,
}

/// Why a redirect leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("unsupported protocol scheme \"{scheme}\"")]
    Scheme { scheme: String },
    #[error("failed to parse Location header {}", crate::wording::quoted(location))]
    Syntax { location: String },
}

impl Url {
    /// The address that a probe or hook means; its path may hold a query, and is taken as it is.
    pub(crate) fn new(is_https: bool, host: &str, port: u16, path: &str) -> Url {
        let (path, _) = path.split_once('#').unwrap_or((path, ""));
        // A whole address in place of the path counts for its path only.
        let path = match path.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => {
                rest.find(['/', '?']).and_then(|at| rest.get(at..)).unwrap_or("/")
            }
            _ => path,
        };
        let slash = if path.is_empty() || path.starts_with(['/', '?']) { "" } else { "/" };
        Url {
            is_https,
            host: host.to_owned(),
            named_port: Some(port),
            path_and_query: encoded(&format!("{slash}{path}")),
        }
    }

    /// The port to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.named_port.unwrap_or(if self.is_https { 443 } else { 80 })
    }

    /// Host and port as the `Host` header has them.
    pub(crate) fn authority(&self) -> String {
        match self.named_port {
            Some(port) => host_port(&self.host, port),
            None if self.host.contains(':') => format!("[{}]", self.host),
            None => self.host.clone(),
        }
    }

    /// What stands in the first line of a request.
    pub(crate) fn request_target(&self) -> String {
        let slash = if self.path_and_query.starts_with('/') { "" } else { "/" };
        format!("{slash}{}", self.path_and_query)
    }

    /// Where a `Location` leads from here.
    pub(crate) fn join(&self, location: &str) -> Result<Url, UrlError> {
        let (reference, _) = location.split_once('#').unwrap_or((location, ""));
        if let Some((scheme, rest)) = reference.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) {
            let is_https = match scheme.to_ascii_lowercase().as_str() {
                "http" => false,
                "https" => true,
                _ => return Err(UrlError::Scheme { scheme: scheme.to_owned() }),
            };
            let rest = rest.strip_prefix("//").ok_or_else(|| UrlError::Syntax { location: location.to_owned() })?;
            return Url::of_authority(is_https, rest, location);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Url::of_authority(self.is_https, rest, location);
        }
        let (path, _) = self.path_and_query.split_once('?').unwrap_or((&self.path_and_query, ""));
        let path_and_query = if reference.is_empty() {
            self.path_and_query.clone()
        } else if reference.starts_with('?') {
            format!("{path}{reference}")
        } else if reference.starts_with('/') {
            without_dots(reference)
        } else {
            let directory = path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/");
            without_dots(&format!("{directory}{reference}"))
        };
        Ok(Url { path_and_query: encoded(&path_and_query), ..self.clone() })
    }

    fn of_authority(is_https: bool, rest: &str, location: &str) -> Result<Url, UrlError> {
        let syntax = || UrlError::Syntax { location: location.to_owned() };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or_default();
        let (host, port) = match authority.strip_prefix('[').map(|address| address.split_once(']')) {
            Some(Some((address, port))) => (address, port.strip_prefix(':')),
            Some(None) => return Err(syntax()),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.filter(|port| !port.is_empty()).map(str::parse).transpose().map_err(|_| syntax())?;
        Ok(Url { is_https, host: host.to_owned(), named_port: port, path_and_query: encoded(&without_dots(path)) })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path_and_query)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
}

/// Takes `.` and `..` out of a path (RFC 3986, section 5.2.4).
fn without_dots(path_and_query: &str) -> String {
    let (path, query) = path_and_query.find('?').map_or((path_and_query, ""), |at| path_and_query.split_at(at));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                // The empty segment before the first slash stays.
                if kept.len() > 1 {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    kept.join("/") + query
}

/// Percent-encodes what may not stand in a request line.
fn encoded(path_and_query: &str) -> String {
    let mut encoded = String::with_capacity(path_and_query.len());
    for byte in path_and_query.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_probes_path_becomes_an_address() {
        let url = |path| Url::new(false, "10.0.0.1", 80, path).to_string();
        assert_eq!(url("/"), "http://10.0.0.1:80/");
        assert_eq!(url(""), "http://10.0.0.1:80");
        assert_eq!(url("healthz"), "http://10.0.0.1:80/healthz");
        assert_eq!(url("/a?b=c#d"), "http://10.0.0.1:80/a?b=c");
        assert_eq!(url("?b"), "http://10.0.0.1:80?b");
        assert_eq!(url("/a b/ü%20"), "http://10.0.0.1:80/a%20b/%C3%BC%20");
        assert_eq!(url("http://elsewhere:1/x?y"), "http://10.0.0.1:80/x?y");
        assert_eq!(Url::new(true, "fd00::1", 8443, "/x").to_string(), "https://[fd00::1]:8443/x");
    }

    #[test]
    fn a_request_target_begins_with_a_slash() {
        let target = |path| Url::new(false, "h", 80, path).request_target();
        assert_eq!(["", "?a", "/b?c"].map(target), ["/", "/?a", "/b?c"]);
    }

    #[test]
    fn redirects_lead_where_rfc_3986_says() {
        let base = Url::new(false, "host", 8080, "/a/b?c");
        let join = |location| base.join(location).map(|url| url.to_string()).map_err(|error| error.to_string());
        let cases = [
            ("/x", "http://host:8080/x"),
            ("x", "http://host:8080/a/x"),
            ("../x?y#z", "http://host:8080/x?y"),
            ("../../../x/./.", "http://host:8080/x/"),
            ("?y", "http://host:8080/a/b?y"),
            ("", "http://host:8080/a/b?c"),
            ("//other/x", "http://other/x"),
            ("https://other", "https://other"),
            ("HTTPS://user:pw@other:99/a/../b", "https://other:99/b"),
            ("http://[fd00::1]:81/x", "http://[fd00::1]:81/x"),
            ("http://[fd00::1]/x", "http://[fd00::1]/x"),
        ];
        for (location, expected) in cases {
            assert_eq!(join(location), Ok(expected.to_owned()), "{location}");
        }
        assert_eq!(join("ftp://x"), Err("unsupported protocol scheme \"ftp\"".into()));
        assert_eq!(join("http://x:y/"), Err("failed to parse Location header \"http://x:y/\"".into()));
    }

    #[test]
    fn a_port_that_is_not_named_is_the_schemes() -> Result<(), UrlError> {
        let base = Url::new(false, "host", 8080, "/");
        assert_eq!([base.join("http://x")?.port(), base.join("https://x")?.port(), base.port()], [80, 443, 8080]);
        Ok(())
    }

    proptest! {
        #[test]
        fn any_location_is_taken(location in ".*") {
            let joined = Url::new(false, "host", 1, "/a/b").join(&location);
            prop_assert!(joined.map_or(true, |url| url.request_target().starts_with('/')));
        }
    }
}
