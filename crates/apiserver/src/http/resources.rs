//! The verbs on resources.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::body::{self, SentObject};
use super::front::{Front, Incoming};
use super::negotiate::Accepted;
use super::present::{IncludeObject, Presenter};
use super::query::Query;
use super::respond::{self, Answered};
use super::{patch, pods, reviews, tokens, watch};
use crate::error::ApiError;
use crate::registry::{Answer, DeleteOptions, FieldValidation, Part, WatchOptions, WriteOptions};
use crate::resource::ResourceType;

/// Answers a request about a resource.
pub(super) async fn answer(front: Arc<Front>, request: Incoming) -> Answered {
    let info = &request.info;
    let Some(resource) = ResourceType::find(&info.group, &info.version, &info.resource) else {
        return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    if resource.traits.review {
        return reviews::answer(&front, resource, request).await;
    }
    if !info.subresource.is_empty() {
        return answer_subresource(front, resource, request).await;
    }
    match info.verb.as_str() {
        "get" => get(&front, resource, &request),
        "list" => list(&front, resource, &request),
        "watch" => start_watch(&front, resource, &request),
        "create" if info.name.is_empty() => create(&front, resource, request).await,
        "update" if !info.name.is_empty() => update(&front, resource, Part::Main, request).await,
        "patch" if !info.name.is_empty() => patch::answer(&front, resource, Part::Main, request).await,
        "delete" => delete(&front, resource, request).await,
        "deletecollection" if resource.verbs().contains(&"deletecollection") => {
            delete_collection(&front, resource, request).await
        }
        verb => Err(ApiError::method_not_allowed(verb, &resource.qualified())),
    }
}

async fn answer_subresource(front: Arc<Front>, resource: &'static ResourceType, request: Incoming) -> Answered {
    let info = &request.info;
    let Some(subresource) = resource.subresource(&info.subresource).filter(|_| request.info.rest.is_empty()) else {
        return Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n"));
    };
    if !subresource.verbs.contains(&info.verb.as_str()) {
        return Err(ApiError::method_not_allowed(&info.verb, &resource.qualified()));
    }
    let part = match subresource.name {
        "status" => Part::Status,
        "ephemeralcontainers" => Part::EphemeralContainers,
        "finalize" => Part::Finalize,
        "token" => return tokens::answer(&front, request).await,
        _ => return pods::answer(front, resource, request).await,
    };
    match info.verb.as_str() {
        "get" => get(&front, resource, &request),
        "update" => update(&front, resource, part, request).await,
        _ => patch::answer(&front, resource, part, request).await,
    }
}

fn presenter(
    front: &Front,
    resource: &'static ResourceType,
    accepted: Accepted,
    query: &Query,
) -> Result<Presenter, ApiError> {
    Ok(Presenter::new(resource, accepted.shape, IncludeObject::of(query)?, front.registry.clock()))
}

fn get(front: &Front, resource: &'static ResourceType, request: &Incoming) -> Answered {
    let accepted = request.accepted()?;
    let object = front.registry.get(resource, &request.info.namespace, &request.info.name)?;
    let shown = presenter(front, resource, accepted, &request.query)?.one(&object)?;
    respond::object(StatusCode::OK, accepted.format, &*shown)
}

fn list(front: &Front, resource: &'static ResourceType, request: &Incoming) -> Answered {
    let accepted = request.accepted()?;
    let options = request.query.list_options(resource)?;
    let list = front.registry.list(resource, namespace_of(request), &options)?;
    let presenter = presenter(front, resource, accepted, &request.query)?;
    respond::object(StatusCode::OK, accepted.format, &presenter.list(&list)?)
}

/// One namespace, or all of them.
fn namespace_of(request: &Incoming) -> Option<&str> {
    Some(request.info.namespace.as_str()).filter(|namespace| !namespace.is_empty())
}

fn start_watch(front: &Front, resource: &'static ResourceType, request: &Incoming) -> Answered {
    let accepted = request.accepted()?;
    let wanted = request.query.watch(resource)?;
    let options = WatchOptions {
        selection: wanted.selection,
        resource_version: wanted.resource_version,
        send_initial_events: wanted.send_initial_events,
    };
    let watch = front.registry.watch(resource, namespace_of(request), options)?;
    let presenter = presenter(front, resource, accepted, &request.query)?;
    let options = watch::Options { bookmarks: wanted.bookmarks, timeout: wanted.timeout, presenter };
    Ok(watch::answer(watch, resource, options, front.shutdown()))
}

async fn create(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let options = request.query.write_options(request.user_agent())?;
    let (sent, query, namespace) = read_object(request).await?;
    let warnings = check_duplicates(&sent, &options, resource)?;
    let mut answer = front.registry.create(resource, &namespace, sent.object, &options).await?;
    answer.warnings.splice(0..0, warnings);
    written(front, resource, accepted, &query, &answer)
}

async fn update(front: &Front, resource: &'static ResourceType, part: Part, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let options = request.query.write_options(request.user_agent())?;
    let name = request.info.name.clone();
    let (sent, query, namespace) = read_object(request).await?;
    let warnings = check_duplicates(&sent, &options, resource)?;
    let mut object = sent.object;
    match crate::value::text(&object, "/metadata/name") {
        None => crate::value::set(&mut object, &["metadata", "name"], Value::from(name)),
        Some(given) if given != name => {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(ApiError::bad_request(message));
        }
        Some(_) => {}
    }
    let mut answer = front.registry.update(resource, &namespace, part, object, &options).await?;
    answer.warnings.splice(0..0, warnings);
    written(front, resource, accepted, &query, &answer)
}

/// The answer to a write.
pub(super) fn written(
    front: &Front,
    resource: &'static ResourceType,
    accepted: Accepted,
    query: &Query,
    answer: &Answer,
) -> Answered {
    let shown = presenter(front, resource, accepted, query)?.one(&answer.object)?;
    let code = if answer.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = respond::object(code, accepted.format, &*shown)?;
    respond::warn(&mut response, &answer.warnings);
    Ok(response)
}

/// The object in a request's body, with the query and the namespace of the request.
pub(super) async fn read_object(request: Incoming) -> Result<(SentObject, Query, String), ApiError> {
    let media_type = body::media_type(&request.parts.headers);
    let bytes = body::read(request.body).await?;
    Ok((body::decode(&media_type, &bytes)?, request.query, request.info.namespace))
}

/// keys that stand twice are refused, warned of, or let be.
pub(super) fn check_duplicates(
    sent: &SentObject,
    options: &WriteOptions,
    resource: &ResourceType,
) -> Result<Vec<String>, ApiError> {
    let texts: Vec<String> = sent.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    match options.field_validation {
        FieldValidation::Strict if !texts.is_empty() => {
            let (kind, version) = (resource.kind, resource.version);
            let list = texts.join(", ");
            Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {list}"
            )))
        }
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict | FieldValidation::Ignore => Ok(Vec::new()),
    }
}

async fn delete(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let (namespace, name) = (request.info.namespace.clone(), request.info.name.clone());
    let (options, query) = delete_options(request).await?;
    let deleted = front.registry.delete(resource, &namespace, &name, &options).await?;
    let mut response = if !deleted.gone || resource.traits.returns_deleted {
        let shown = presenter(front, resource, accepted, &query)?.one(&deleted.object)?;
        respond::object(StatusCode::OK, accepted.format, &*shown)?
    } else {
        respond::success(StatusCode::OK, deleted.success(resource))?
    };
    respond::warn(&mut response, &deleted.warnings);
    Ok(response)
}

async fn delete_collection(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let accepted = request.accepted()?;
    let mut list = request.query.list_options(resource)?;
    let namespace = namespace_of(&request).map(str::to_owned);
    let (options, query) = delete_options(request).await?;
    list.limit = None;
    let objects = front.registry.delete_collection(resource, namespace.as_deref(), list, &options).await?;
    let revision = front.registry.revision();
    let list = crate::registry::List { revision, objects, continue_token: None, remaining: None };
    let presenter = presenter(front, resource, accepted, &query)?;
    respond::object(StatusCode::OK, accepted.format, &presenter.list(&list)?)
}

/// Delete options: the body's, or without one the query's.
pub(super) async fn delete_options(request: Incoming) -> Result<(DeleteOptions, Query), ApiError> {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions as Sent, Preconditions};
    let media_type = body::media_type(&request.parts.headers);
    let bytes = body::read(request.body).await?;
    let query = request.query;
    let sent = if bytes.iter().all(u8::is_ascii_whitespace) {
        let flag = |name: &str| query.get(name).map(|_| query.flag(name));
        let text = |name: &str| query.get(name).map(str::to_owned);
        Sent {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            propagation_policy: text("propagationPolicy"),
            orphan_dependents: flag("orphanDependents"),
            preconditions: Some(Preconditions {
                uid: text("uid"),
                resource_version: text("preconditions.resourceVersion"),
            }),
            ..Sent::default()
        }
    } else {
        let object = body::decode(&media_type, &bytes)?.object;
        let unreadable = |error| ApiError::bad_request(format!("the delete options cannot be read: {error}"));
        serde_json::from_value(object).map_err(unreadable)?
    };
    let mut options = DeleteOptions::try_from(&sent)?;
    options.dry_run |= query.write_options("")?.dry_run;
    Ok((options, query))
}
