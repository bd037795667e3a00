//! From a request to an answer: who asks, what about, may they, and then the one place that does it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use http::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT, VARY};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::negotiate::{self, Accepted, Format};
use super::query::Query;
use super::request_info::RequestInfo;
use super::respond::{self, Answered};
use super::{discovery, health, openapi, resources};
use crate::auth::{Attributes, Authority, User, rbac};
use crate::error::ApiError;
use crate::registry::Registry;
use crate::streams::Streams;

/// What `/version` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionInfo {
    /// `v1.36.2+monopod`: the Kubernetes release whose behaviour is served.
    pub git_version: String,
    /// The commit, where it is known.
    pub git_commit: String,
    /// When it was built, in RFC 3339.
    pub build_date: String,
}

impl Default for VersionInfo {
    fn default() -> Self {
        Self {
            git_version: "v1.36.2+monopod".to_owned(),
            git_commit: String::new(),
            build_date: "1970-01-01T00:00:00Z".to_owned(),
        }
    }
}

/// How the front is made.
#[derive(Default)]
pub struct ServerOptions {
    /// What `/version` says.
    pub version: VersionInfo,
    /// Where clients reach the server: `127.0.0.1:6443`.
    pub advertised_address: String,
    /// Whoever runs the pods; without it logs and streams are answered with 503.
    pub streams: Option<Arc<dyn Streams>>,
}

/// Everything that a request needs.
pub(super) struct Front {
    pub(super) registry: Registry,
    pub(super) authority: Arc<Authority>,
    pub(super) options: ServerOptions,
    pub(super) openapi: openapi::Documents,
    ready: AtomicBool,
    shutdown: OnceLock<CancellationToken>,
}

/// One request, read as far as its head goes.
pub(super) struct Incoming {
    pub(super) info: RequestInfo,
    pub(super) query: Query,
    pub(super) user: User,
    pub(super) parts: Parts,
    pub(super) body: Body,
}

impl Incoming {
    /// What of Accept the server can give; 406 if nothing.
    pub(super) fn accepted(&self) -> Result<Accepted, ApiError> {
        accepted(&self.parts, &self.query)
    }

    /// The client's program.
    pub(super) fn user_agent(&self) -> &str {
        header(&self.parts, &USER_AGENT)
    }
}

impl Front {
    pub(super) fn new(registry: Registry, authority: Arc<Authority>, options: ServerOptions) -> Self {
        Self {
            registry,
            authority,
            options,
            openapi: openapi::Documents::default(),
            ready: AtomicBool::new(false),
            shutdown: OnceLock::new(),
        }
    }

    pub(super) fn mark_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.shutdown().is_cancelled()
    }

    pub(super) fn stop_with(&self, shutdown: &CancellationToken) {
        // A second listener of the same front ends with the first one's token.
        drop(self.shutdown.set(shutdown.clone()));
    }

    /// Ends what goes on for ever: watches and followed logs.
    pub(super) fn shutdown(&self) -> CancellationToken {
        self.shutdown.get().cloned().unwrap_or_default()
    }

    /// Answers one request; failures become Status objects here.
    pub(super) async fn handle(self: Arc<Self>, request: Request<Body>, certified: Option<User>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::parse(&parts.method, parts.uri.path(), query.flag("watch"));
        let described = format!("{} {}", parts.method, parts.uri.path());
        let answered = self.answer(info, query, parts, body, certified).await;
        let response = answered.unwrap_or_else(|error| {
            if error.code() >= 500 {
                tracing::warn!(request = described, %error, "a request failed");
            }
            respond::failure(&error)
        });
        tracing::debug!(request = described, code = response.status().as_u16());
        response
    }

    async fn answer(
        self: Arc<Self>,
        info: RequestInfo,
        query: Query,
        parts: Parts,
        body: Body,
        certified: Option<User>,
    ) -> Answered {
        if let Some(response) = self.answer_public(&info, &query) {
            return response;
        }
        let user = self.authenticate(&parts, certified)?;
        self.authorize(&user, &info, &query)?;
        if info.is_resource {
            return resources::answer(self, Incoming { info, query, user, parts, body }).await;
        }
        if !matches!(info.verb.as_str(), "get" | "head") {
            return Err(ApiError::method_not_allowed(&info.verb, &info.path));
        }
        self.answer_path(&info, &query, &parts)
    }

    /// What everybody may see.
    fn answer_public(&self, info: &RequestInfo, query: &Query) -> Option<Answered> {
        match info.path.as_str() {
            "/version" => Some(respond::object(StatusCode::OK, Format::PrettyJson, &self.version())),
            path => health::answer(self, path, query).map(Ok),
        }
    }

    /// A bad token is refused even with a good certificate.
    fn authenticate(&self, parts: &Parts, certified: Option<User>) -> Result<User, ApiError> {
        let Some(header) = parts.headers.get(AUTHORIZATION) else {
            return certified.ok_or_else(ApiError::unauthorized);
        };
        let token = header.to_str().ok().and_then(|text| text.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        token
            .and_then(|token| User::from_token(&self.registry, self.authority.tokens(), token))
            .ok_or_else(ApiError::unauthorized)
    }

    fn authorize(&self, user: &User, info: &RequestInfo, query: &Query) -> Result<(), ApiError> {
        let mut wanted = if info.is_resource {
            Attributes {
                verb: info.verb.clone(),
                path: None,
                group: info.group.clone(),
                resource: info.resource.clone(),
                subresource: info.subresource.clone(),
                namespace: info.namespace.clone(),
                name: info.name.clone(),
            }
        } else {
            Attributes { verb: info.verb.clone(), path: Some(info.path.clone()), ..Attributes::default() }
        };
        // what runs something in a pod creates, whatever the method.
        if matches!(info.subresource.as_str(), "exec" | "attach" | "portforward") {
            wanted.verb = "create".to_owned();
        }
        // Kubernetes: a collection that is narrowed to one name is authorised as that name.
        if let Some(name) = query.get("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="))
            && wanted.name.is_empty()
            && !name.contains(',')
        {
            wanted.name = name.to_owned();
        }
        if rbac::authorize(&self.registry, user, &wanted).allowed {
            Ok(())
        } else {
            Err(rbac::forbidden(user, &wanted))
        }
    }

    /// Discovery and documents.
    fn answer_path(&self, info: &RequestInfo, query: &Query, parts: &Parts) -> Answered {
        let segments: Vec<&str> = info.path.trim_start_matches('/').split('/').collect();
        let aggregated = negotiate::accepts_aggregated_discovery(header(parts, &ACCEPT));
        let found = match segments.as_slice() {
            ["api" | "apis"] if aggregated => {
                return aggregated_discovery(&discovery::aggregated(info.path == "/api"), parts);
            }
            ["api"] => Some(discovery::core_versions(&self.options.advertised_address)),
            ["apis"] => Some(discovery::group_list()),
            ["api", version] => discovery::resource_list("", version),
            ["apis", group] => discovery::group(group),
            ["apis", group, version] => discovery::resource_list(group, version),
            ["openapi", ..] => return self.openapi.answer(&info.path, query, header(parts, &ACCEPT)),
            [""] => Some(
                json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}),
            ),
            _ => None,
        };
        match found {
            Some(document) => respond::object(StatusCode::OK, accepted(parts, query)?.format, &document),
            None => Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }

    fn version(&self) -> Value {
        let version = &self.options.version;
        let mut parts = version.git_version.trim_start_matches('v').split('.');
        let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        json!({"major": major, "minor": minor, "gitVersion": version.git_version, "gitCommit": version.git_commit,
            "gitTreeState": "clean", "buildDate": version.build_date, "goVersion": "", "compiler": "rustc",
            "platform": platform()})
    }
}

fn aggregated_discovery(document: &Value, parts: &Parts) -> Answered {
    let etag = discovery::etag(document);
    let unchanged = header(parts, &IF_NONE_MATCH) == etag;
    let mut response = if unchanged {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::bytes(StatusCode::OK, discovery::AGGREGATED, document.to_string().into_bytes())
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(etag) = HeaderValue::try_from(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    Ok(response)
}

/// What of Accept the server can give; 406 if nothing.
fn accepted(parts: &Parts, query: &Query) -> Result<Accepted, ApiError> {
    let mut accepted = negotiate::accept(header(parts, &ACCEPT)).ok_or_else(|| {
        let message = "only the following media types are accepted: application/json, application/yaml";
        ApiError::new(406, "NotAcceptable", message.to_owned(), None)
    })?;
    let agent = header(parts, &USER_AGENT);
    let by_hand = ["curl", "Wget", "Mozilla/5.0"].iter().any(|program| agent.starts_with(program));
    if accepted.format == Format::Json && (query.flag("pretty") || (by_hand && query.get("pretty").is_none())) {
        accepted.format = Format::PrettyJson;
    }
    Ok(accepted)
}

pub(super) fn header<'a>(parts: &'a Parts, name: &http::HeaderName) -> &'a str {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn platform() -> String {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{machine}", std::env::consts::OS)
}
