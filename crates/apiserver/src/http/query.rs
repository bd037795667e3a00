//! The query of a request: parameters by name, and the ones that take a form of their own.
//!
//! Unknown parameters are ignored. Pure.

use std::time::Duration;

use crate::error::{ApiError, cause};
use crate::registry::{FieldValidation, ListOptions, Selection, VersionMatch, WriteOptions};
use crate::resource::ResourceType;

/// The parameters of a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

/// What a watch request asks for besides what a list does.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchQuery {
    /// Which objects.
    pub(super) selection: Selection,
    /// Changes after this revision.
    pub(super) resource_version: Option<u64>,
    /// True to get bookmarks.
    pub(super) bookmarks: bool,
    /// True for the initial events and their mark.
    pub(super) send_initial_events: bool,
    /// How long the watch lasts.
    pub(super) timeout: Option<Duration>,
}

impl Query {
    /// Reads the part of a URL behind `?`.
    pub(super) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes reads it: `true`, `1`, and the bare name, are true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.all(name).next().is_some_and(|value| !matches!(value, "false" | "0"))
    }

    /// A whole number, 400 if it is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!("invalid value for query parameter {name}: {text:?} is not a whole number"))
        })
    }

    /// What a write is told by its query.
    pub(super) fn write_options(&self, user_agent: &str) -> Result<WriteOptions, ApiError> {
        let field_validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
                return Err(invalid(
                    "fieldValidation",
                    "FieldValueNotSupported",
                    &format!("Unsupported value: \"{other}\": {supported}"),
                ));
            }
        };
        Ok(WriteOptions { dry_run: self.dry_run()?, field_manager: self.field_manager(user_agent)?, field_validation })
    }

    fn dry_run(&self) -> Result<bool, ApiError> {
        match self.all("dryRun").find(|value| !matches!(*value, "All" | "")) {
            Some(other) => {
                let message = format!("Unsupported value: \"{other}\": supported values: \"All\"");
                Err(invalid("dryRun", "FieldValueNotSupported", &message))
            }
            None => Ok(self.get("dryRun").is_some()),
        }
    }

    /// The manager's name, else the client's program: its User-Agent up to the slash.
    fn field_manager(&self, user_agent: &str) -> Result<String, ApiError> {
        let name = self.get("fieldManager").unwrap_or_else(|| user_agent.split('/').next().unwrap_or_default());
        if self.get("fieldManager").is_some() && name.chars().count() > 128 {
            return Err(invalid("fieldManager", "FieldValueTooLong", "Too long: may not be more than 128 bytes"));
        }
        Ok(if name.is_empty() { "unknown".to_owned() } else { name.chars().take(128).collect() })
    }

    /// The label and field selectors.
    pub(super) fn selection(&self, resource: &ResourceType) -> Result<Selection, ApiError> {
        let text = |name: &str| self.get(name).unwrap_or_default();
        Selection::parse(resource, text("labelSelector"), text("fieldSelector"))
    }

    /// What a list asks for.
    pub(super) fn list_options(&self, resource: &ResourceType) -> Result<ListOptions, ApiError> {
        let version_match = self.version_match()?;
        let resource_version = self.resource_version()?;
        self.check_list(version_match, resource_version)?;
        let limit = self.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        Ok(ListOptions {
            selection: self.selection(resource)?,
            limit,
            continue_token: self.get("continue").map(str::to_owned),
            resource_version,
            version_match: version_match.unwrap_or_default(),
        })
    }

    fn check_list(&self, version_match: Option<VersionMatch>, version: Option<u64>) -> Result<(), ApiError> {
        let wrong = |message: &str| Err(invalid("resourceVersionMatch", "FieldValueForbidden", message));
        if self.get("sendInitialEvents").is_some() {
            let message = "Forbidden: sendInitialEvents is forbidden for list";
            return Err(invalid("sendInitialEvents", "FieldValueForbidden", message));
        }
        match version_match {
            Some(_) if self.get("resourceVersion").is_none() => {
                wrong("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            Some(_) if self.get("continue").is_some() => {
                wrong("Forbidden: resourceVersionMatch is forbidden when continue is provided")
            }
            Some(VersionMatch::Exact) if version == Some(0) => {
                wrong("Forbidden: resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"")
            }
            _ => Ok(()),
        }
    }

    /// What a watch asks for.
    pub(super) fn watch(&self, resource: &ResourceType) -> Result<WatchQuery, ApiError> {
        let send_initial_events = self.flag("sendInitialEvents");
        let given = self.get("sendInitialEvents").is_some();
        let forbidden = |field: &str, message: &str| Err(invalid(field, "FieldValueForbidden", message));
        match self.version_match()? {
            None if given => {
                return forbidden(
                    "resourceVersionMatch",
                    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
            }
            Some(VersionMatch::Exact) if given => {
                return forbidden(
                    "resourceVersionMatch",
                    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                );
            }
            Some(_) if !given => {
                return forbidden(
                    "resourceVersionMatch",
                    "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
            _ => {}
        }
        if self.get("continue").is_some() {
            return forbidden("continue", "Forbidden: continue is forbidden for watch");
        }
        let timeout = self.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(WatchQuery {
            selection: self.selection(resource)?,
            resource_version: self.resource_version()?,
            bookmarks: self.flag("allowWatchBookmarks"),
            send_initial_events,
            timeout: timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        })
    }

    fn resource_version(&self) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get("resourceVersion") else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            let message = format!("Invalid value: \"{text}\": must be a decimal number");
            invalid("resourceVersion", "FieldValueInvalid", &message)
        })
    }

    fn version_match(&self) -> Result<Option<VersionMatch>, ApiError> {
        match self.get("resourceVersionMatch") {
            None => Ok(None),
            Some("Exact") => Ok(Some(VersionMatch::Exact)),
            Some("NotOlderThan") => Ok(Some(VersionMatch::NotOlderThan)),
            Some(other) => {
                let message =
                    format!("Unsupported value: \"{other}\": supported values: \"Exact\", \"NotOlderThan\", \"\"");
                Err(invalid("resourceVersionMatch", "FieldValueNotSupported", &message))
            }
        }
    }
}

/// 422 about a parameter of the query.
pub(super) fn invalid(field: &str, reason: &str, message: &str) -> ApiError {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
    let text = format!("Options.meta.k8s.io \"\" is invalid: {field}: {message}");
    let details = StatusDetails {
        group: Some("meta.k8s.io".to_owned()),
        kind: Some("Options".to_owned()),
        causes: Some(vec![cause(reason, field, message)]),
        ..StatusDetails::default()
    };
    ApiError::new(422, "Invalid", text, Some(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> &'static ResourceType {
        ResourceType::find("", "v1", "pods").expect("pods are served")
    }

    #[test]
    fn a_6_selectors_are_percent_decoded() -> Result<(), ApiError> {
        let query = Query::parse("fieldSelector=metadata.name%3Dp1&limit=500&pretty=true");
        let options = query.list_options(pods())?;
        assert_eq!(options.selection.fields.required("metadata.name"), Some("p1"));
        assert_eq!(options.limit, Some(500));
        Ok(())
    }

    #[test]
    fn a_75_a_match_without_a_version_is_refused() {
        let code = |text: &str| Query::parse(text).list_options(pods()).map_err(|error| error.code()).err();
        assert_eq!(code("resourceVersionMatch=NotOlderThan"), Some(422));
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=0"), Some(422));
        assert_eq!(code("sendInitialEvents=true"), Some(422));
        assert_eq!(code("resourceVersionMatch=Exact&resourceVersion=1"), None);
        assert_eq!(code("resourceVersion=x"), Some(422));
    }

    #[test]
    fn a_87_initial_events_want_their_match() {
        let code = |text: &str| Query::parse(text).watch(pods()).map_err(|error| error.code()).err();
        assert_eq!(code("watch=true&sendInitialEvents=true"), Some(422));
        assert_eq!(code("watch=true&resourceVersionMatch=NotOlderThan"), Some(422));
        assert_eq!(code("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), None);
    }

    #[test]
    fn a_98_an_unknown_dry_run_is_refused() {
        let options =
            |text: &str| Query::parse(text).write_options("kubectl/v1.37 (linux)").map_err(|error| error.code());
        assert_eq!(options("dryRun=Some").map(|_| ()), Err(422));
        let good = options("dryRun=All").map(|options| (options.dry_run, options.field_manager));
        assert_eq!(good, Ok((true, "kubectl".to_owned())));
    }
}
