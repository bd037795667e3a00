//! What a request can fail with: a Kubernetes `Status`.
//!
//! Every failure that a client sees is made here, with the reason, the code and the wording of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::resource::ResourceType;
use crate::store::StoreError;

/// A failed request, as the client sees it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .0.message.as_deref().unwrap_or_default())]
pub struct ApiError(Box<Status>);

impl ApiError {
    /// A failure of the code and reason given, with details where there are any.
    pub fn new(code: i32, reason: &str, message: String, details: Option<StatusDetails>) -> Self {
        Self(Box::new(Status {
            code: Some(code),
            details,
            message: Some(message),
            reason: Some(reason.to_owned()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }))
    }

    /// The `Status` object.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// The HTTP code.
    pub fn code(&self) -> u16 {
        self.0.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    /// The machine-readable reason, as in `NotFound`.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or_default()
    }

    /// True if the object is not there.
    pub fn is_not_found(&self) -> bool {
        self.reason() == "NotFound"
    }

    /// True if the object is there already.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    /// True if the object was changed by somebody else.
    pub fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    /// True if the revision asked for is no longer kept.
    pub fn is_expired(&self) -> bool {
        self.reason() == "Expired"
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), None)
    }

    /// 401: nobody known.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized".to_owned(), None)
    }

    /// 403: refused by admission.
    pub fn forbidden(resource: &ResourceType, name: &str, detail: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {detail}", resource.qualified());
        Self::new(403, "Forbidden", message, Some(details(resource, name)))
    }

    /// 404: no such object.
    pub fn not_found(resource: &ResourceType, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message, Some(details(resource, name)))
    }

    /// 405: the resource does not know the verb.
    pub fn method_not_allowed(verb: &str, resource: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
        Self::new(405, "MethodNotAllowed", message, None)
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &ResourceType, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message, Some(details(resource, name)))
    }

    /// 409: the object cannot be changed so, now.
    pub fn conflict(resource: &ResourceType, name: &str, detail: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {detail}", resource.qualified());
        Self::new(409, "Conflict", message, Some(details(resource, name)))
    }

    /// 409: somebody else was faster.
    pub fn modified(resource: &ResourceType, name: &str) -> Self {
        let detail = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, detail)
    }

    /// 410: the revision is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into(), None)
    }

    /// 422: the object breaks rules; the causes say which.
    pub fn invalid(resource: &ResourceType, name: &str, causes: Vec<StatusCause>) -> Self {
        let texts: Vec<String> = causes.iter().map(cause_text).collect();
        let list = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
        let kind = resource.qualified_kind();
        let message = format!("{kind} \"{name}\" is invalid: {list}");
        let details =
            StatusDetails { causes: Some(causes), kind: Some(resource.kind.to_owned()), ..details(resource, name) };
        Self::new(422, "Invalid", message, Some(details))
    }

    /// 429: try again later.
    pub fn too_many_requests(message: impl Into<String>, causes: Vec<StatusCause>) -> Self {
        let details = StatusDetails { causes: Some(causes), ..StatusDetails::default() };
        Self::new(429, "TooManyRequests", message.into(), Some(details))
    }

    /// 500: our own fault.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"), None)
    }

    /// What the store said, in the API's words.
    pub fn from_store(error: &StoreError, resource: &ResourceType, name: &str) -> Self {
        match error {
            StoreError::AlreadyExists(_) => Self::already_exists(resource, name),
            StoreError::NotFound(_) => Self::not_found(resource, name),
            StoreError::Conflict { .. } => Self::modified(resource, name),
            StoreError::Compacted { .. } => Self::expired(error.to_string()),
            StoreError::Future { requested, current } => Self::too_large_version(*requested, *current),
            StoreError::Closed => Self::new(503, "ServiceUnavailable", "the server is shutting down".to_owned(), None),
            StoreError::Database { .. } | StoreError::Damaged { .. } => Self::internal(chain(error)),
        }
    }

    /// 504: the revision has not happened yet.
    fn too_large_version(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = StatusCause {
            reason: Some("ResourceVersionTooLarge".to_owned()),
            message: Some("Too large resource version".to_owned()),
            field: None,
        };
        let details =
            StatusDetails { causes: Some(vec![cause]), retry_after_seconds: Some(1), ..StatusDetails::default() };
        Self::new(504, "Timeout", message, Some(details))
    }

    /// Adds a cause to the details.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.0.details.get_or_insert_with(StatusDetails::default).causes.get_or_insert_with(Vec::new).push(
            StatusCause {
                reason: Some(reason.to_owned()),
                message: Some(message.to_owned()),
                field: (!field.is_empty()).then(|| field.to_owned()),
            },
        );
        self
    }
}

/// One violated rule: the cause's reason, the field's path, and the text after the path.
pub fn cause(reason: &str, field: impl Into<String>, message: impl Into<String>) -> StatusCause {
    StatusCause { reason: Some(reason.to_owned()), message: Some(message.into()), field: Some(field.into()) }
}

fn cause_text(cause: &StatusCause) -> String {
    let message = cause.message.as_deref().unwrap_or_default();
    match cause.field.as_deref() {
        Some(field) if !field.is_empty() => format!("{field}: {message}"),
        _ => message.to_owned(),
    }
}

fn details(resource: &ResourceType, name: &str) -> StatusDetails {
    StatusDetails {
        group: (!resource.group.is_empty()).then(|| resource.group.to_owned()),
        kind: Some(resource.plural.to_owned()),
        name: (!name.is_empty()).then(|| name.to_owned()),
        ..StatusDetails::default()
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
