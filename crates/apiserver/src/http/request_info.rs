//! What a request is about, read from its method and path alone.
//!
//! Pure: no header and no body is looked at, and of the query only `watch` and the name in a field selector.
//! Kubernetes: apiserver/pkg/endpoints/request, RequestInfo.

use http::Method;

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// True if it is about a resource of an API group, false for everything else (`/version`, `/openapi/v3`, ...).
    pub is_resource: bool,
    /// The path without a slash at its end.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`;
    /// for what is no resource the method in lower case.
    pub verb: String,
    /// The API group; empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace; empty for cluster scope or all namespaces.
    pub namespace: String,
    /// The resource: `pods`.
    pub resource: String,
    /// The subresource: `status`; empty for the resource itself.
    pub subresource: String,
    /// The name; empty for a collection.
    pub name: String,
    /// What follows the subresource, as in `.../proxy/a/b`.
    pub rest: Vec<String>,
}

impl RequestInfo {
    /// Reads method and path; `watch` is the query parameter of that name.
    ///
    /// The path's segments are percent-decoded. It never fails: what is not understood is no resource.
    pub fn parse(method: &Method, path: &str, watch: bool) -> Self {
        let trimmed = path.trim_end_matches('/');
        let mut info = Self {
            path: if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() },
            verb: method.as_str().to_lowercase(),
            ..Self::default()
        };
        let segments: Vec<String> = trimmed.split('/').filter(|segment| !segment.is_empty()).map(decode).collect();
        if info.read_group(&segments).is_none() {
            return Self { path: info.path, verb: info.verb, ..Self::default() };
        }
        info.verb = info.verb_of(method, watch).to_owned();
        info
    }

    /// Reads `/api/v1/...` and `/apis/{group}/{version}/...`; `None` if no resource follows.
    fn read_group(&mut self, segments: &[String]) -> Option<()> {
        let rest = match segments.first().map(String::as_str) {
            Some("api") => {
                self.version = segments.get(1)?.clone();
                segments.get(2..)?
            }
            Some("apis") => {
                self.group = segments.get(1)?.clone();
                self.version = segments.get(2)?.clone();
                segments.get(3..)?
            }
            _ => return None,
        };
        self.read_resource(rest)
    }

    /// Reads `[namespaces/{namespace}/]{resource}[/{name}[/{subresource}...]]`.
    fn read_resource(&mut self, segments: &[String]) -> Option<()> {
        let core = self.group.is_empty();
        let parts = match segments {
            // `namespaces/{name}` with nothing behind it, or with a subresource, is a namespace itself.
            [first, name, rest @ ..]
                if first == "namespaces" && !(core && is_namespace_itself(rest)) && !rest.is_empty() =>
            {
                self.namespace = name.clone();
                rest
            }
            all => all,
        };
        self.is_resource = true;
        self.resource = parts.first()?.clone();
        self.name = parts.get(1).cloned().unwrap_or_default();
        self.subresource = parts.get(2).cloned().unwrap_or_default();
        self.rest = parts.get(3..).map(<[String]>::to_vec).unwrap_or_default();
        if core && self.resource == "namespaces" && !self.name.is_empty() {
            self.namespace = self.name.clone();
        }
        Some(())
    }

    fn verb_of(&self, method: &Method, watch: bool) -> &'static str {
        let one = !self.name.is_empty();
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            Method::GET | Method::HEAD if one => "get",
            Method::GET | Method::HEAD if watch => "watch",
            Method::GET | Method::HEAD => "list",
            _ => "",
        }
    }
}

fn is_namespace_itself(rest: &[String]) -> bool {
    match rest {
        [] => true,
        [subresource] => subresource == "status" || subresource == "finalize",
        _ => false,
    }
}

/// Undoes percent-encoding; what is not valid stays as it is.
fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.first_chunk::<2>().and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = digits.filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &Method, path: &str, expected: [&str; 7]) {
        let info = RequestInfo::parse(method, path, path.contains("watch"));
        let RequestInfo { verb, group, version, namespace, resource, subresource, name, .. } = &info;
        assert_eq!(
            [verb, group, version, namespace, resource, subresource, name].map(String::as_str),
            expected,
            "{path}"
        );
    }

    #[test]
    fn resources_are_read_from_the_path() {
        check(&Method::GET, "/api/v1/pods", ["list", "", "v1", "", "pods", "", ""]);
        check(&Method::GET, "/api/v1/namespaces/n/pods/p", ["get", "", "v1", "n", "pods", "", "p"]);
        check(&Method::POST, "/api/v1/namespaces/n/pods/p/exec", ["create", "", "v1", "n", "pods", "exec", "p"]);
        check(
            &Method::DELETE,
            "/apis/batch/v1/namespaces/n/jobs",
            ["deletecollection", "batch", "v1", "n", "jobs", "", ""],
        );
        check(&Method::GET, "/api/v1/namespaces", ["list", "", "v1", "", "namespaces", "", ""]);
        check(&Method::GET, "/api/v1/namespaces/n", ["get", "", "v1", "n", "namespaces", "", "n"]);
        check(&Method::PUT, "/api/v1/namespaces/n/finalize", ["update", "", "v1", "n", "namespaces", "finalize", "n"]);
        check(&Method::PUT, "/api/v1/nodes/n/status", ["update", "", "v1", "", "nodes", "status", "n"]);
    }

    #[test]
    fn what_is_no_resource_keeps_its_method() {
        for path in ["/", "/version", "/api", "/apis", "/apis/batch", "/apis/batch/v1", "/api/v1", "/api/v1/"] {
            let info = RequestInfo::parse(&Method::GET, path, false);
            assert_eq!((info.is_resource, info.verb.as_str()), (false, "get"), "{path}");
        }
    }

    #[test]
    fn a_7_a_slash_at_the_end_says_nothing() {
        assert_eq!(RequestInfo::parse(&Method::GET, "/version/", false).path, "/version");
        assert_eq!(RequestInfo::parse(&Method::GET, "/", false).path, "/");
    }

    #[test]
    fn segments_are_percent_decoded_and_nonsense_is_kept() {
        check(&Method::GET, "/api/v1/nodes/a%3Ab", ["get", "", "v1", "", "nodes", "", "a:b"]);
        check(&Method::GET, "/api/v1/nodes/a%zz%", ["get", "", "v1", "", "nodes", "", "a%zz%"]);
    }
}
