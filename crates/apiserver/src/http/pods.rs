//! Subresources of pods that do something: logs, streams, eviction, binding.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde_json::Value;

use super::front::{Front, Incoming};
use super::query::{Query, invalid};
use super::resources::read_object;
use super::respond::{self, Answered};
use crate::error::{ApiError, cause};
use crate::registry::DeleteOptions;
use crate::resource::ResourceType;
use crate::streams::{ExecOptions, LogOptions, PodName, Streams, upgrade};
use crate::value;

/// Answers a subresource of a pod.
pub(super) async fn answer(front: Arc<Front>, resource: &'static ResourceType, request: Incoming) -> Answered {
    match request.info.subresource.as_str() {
        "binding" => bind(&front, request).await,
        "eviction" => evict(&front, request).await,
        "log" => log(&front, resource, request).await,
        "exec" | "attach" => run(&front, resource, request).await,
        "portforward" => forward(&front, resource, request).await,
        _ => Ok(respond::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

///
async fn bind(front: &Front, request: Incoming) -> Answered {
    let name = request.info.name.clone();
    let (sent, _, namespace) = read_object(request).await?;
    let node = value::text(&sent.object, "/target/name").ok_or_else(|| {
        let cause = cause("FieldValueRequired", "target.name", "Required value");
        let text = format!("Binding \"{name}\" is invalid: target.name: Required value");
        ApiError::new(422, "Invalid", text, None).with_cause(
            "FieldValueRequired",
            cause.message.as_deref().unwrap_or_default(),
            "target.name",
        )
    })?;
    let uid = value::text(&sent.object, "/metadata/uid");
    front.registry.bind(&namespace, &name, uid, node).await?;
    respond::success(StatusCode::CREATED, Status::default())
}

///
async fn evict(front: &Front, request: Incoming) -> Answered {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions as Sent;
    let name = request.info.name.clone();
    let dry_run = request.query.write_options("")?.dry_run;
    let (sent, _, namespace) = read_object(request).await?;
    if value::text(&sent.object, "/metadata/name").is_some_and(|given| given != name) {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = match sent.object.get("deleteOptions").filter(|options| !options.is_null()) {
        Some(options) => serde_json::from_value(options.clone())
            .map_err(|error| ApiError::bad_request(format!("the delete options cannot be read: {error}")))?,
        None => Sent::default(),
    };
    let mut options = DeleteOptions::try_from(&options)?;
    options.dry_run |= dry_run;
    front.registry.evict(&namespace, &name, &options).await?;
    respond::success(StatusCode::CREATED, Status::default())
}

///
async fn log(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let pod = front.registry.get(resource, &request.info.namespace, &request.info.name)?;
    let options = log_options(&request.query, &pod, front.registry.now())?;
    if value::text(&pod, "/spec/nodeName").is_none() {
        // nothing has run, so there is nothing to read.
        return Ok(respond::text(StatusCode::OK, ""));
    }
    let stream = streams(front)?.log(pod_name(&pod), options).await?;
    let shutdown = front.shutdown();
    let frames = stream.take_until(shutdown.cancelled_owned()).map(|piece: Result<Bytes, _>| piece.map(Frame::data));
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

///
fn log_options(query: &Query, pod: &Value, now: jiff::Timestamp) -> Result<LogOptions, ApiError> {
    if query.get("stream").is_some() {
        let message = "Forbidden: may not be specified";
        return Err(invalid("stream", "FieldValueForbidden", message));
    }
    let at_least = |name: &str, least: i64| match query.number(name)? {
        Some(number) if number < least => {
            let bound = if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
            Err(invalid(name, "FieldValueInvalid", &format!("Invalid value: {number}: {bound}")))
        }
        number => Ok(number.and_then(|number| u64::try_from(number).ok())),
    };
    let since_seconds = at_least("sinceSeconds", 1)?;
    let since_time = query.get("sinceTime").map(str::parse::<jiff::Timestamp>).transpose();
    let since_time = since_time.map_err(|_| ApiError::bad_request("sinceTime is not a time in RFC 3339"))?;
    if since_seconds.is_some() && since_time.is_some() {
        let message = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
        return Err(invalid("sinceSeconds", "FieldValueForbidden", message));
    }
    let since = since_seconds.and_then(|seconds| {
        let seconds = i64::try_from(seconds).ok()?;
        now.checked_sub(jiff::SignedDuration::from_secs(seconds)).ok()
    });
    Ok(LogOptions {
        container: container_of(query, pod, false)?,
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        since: since.or(since_time),
        timestamps: query.flag("timestamps"),
        tail_lines: at_least("tailLines", 0)?,
        limit_bytes: at_least("limitBytes", 1)?,
    })
}

/// The container that is meant: the one named, else the only one.
///
/// For exec and attach a pod with several containers means its first one.
fn container_of(query: &Query, pod: &Value, first_will_do: bool) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array);
        containers.into_iter().flatten().filter_map(|it| value::text(it, "/name")).map(str::to_owned).collect()
    };
    let name = value::text(pod, "/metadata/name").unwrap_or_default();
    let regular = names("containers");
    match (query.get("container"), regular.as_slice()) {
        (Some(container), _) => {
            let all = [regular.clone(), names("initContainers"), names("ephemeralContainers")].concat();
            if all.iter().any(|known| known == container) {
                Ok(container.to_owned())
            } else {
                Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}")))
            }
        }
        (None, [only]) => Ok(only.clone()),
        (None, [first, ..]) if first_will_do => Ok(first.clone()),
        (None, _) => {
            let init = names("initContainers");
            let mut choices = format!("choose one of: [{}]", regular.join(" "));
            if !init.is_empty() {
                choices.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(format!("a container name must be specified for pod {name}, {choices}")))
        }
    }
}

/// everything that can be wrong is told before the upgrade.
async fn run(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let pod = scheduled_pod(front, resource, &request)?;
    let options = exec_options(&request, &pod)?;
    let attach = request.info.subresource == "attach";
    let upgrade = upgrade::Upgrade::of_terminal(request.parts).await?;
    let streams = streams(front)?;
    let session = if attach {
        streams.attach(pod_name(&pod), options.clone()).await?
    } else {
        streams.exec(pod_name(&pod), options.clone()).await?
    };
    Ok(upgrade.run(options, session))
}

fn exec_options(request: &Incoming, pod: &Value) -> Result<ExecOptions, ApiError> {
    let query = &request.query;
    let exec = request.info.subresource == "exec";
    let tty = query.flag("tty");
    let options = ExecOptions {
        container: container_of(query, pod, true)?,
        command: query.all("command").filter(|_| exec).map(str::to_owned).collect(),
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr") && !tty,
        tty,
    };
    if !(options.stdin || options.stdout || options.stderr) {
        return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    if exec && options.command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least one command for the container"));
    }
    Ok(options)
}

///
async fn forward(front: &Front, resource: &'static ResourceType, request: Incoming) -> Answered {
    let pod = scheduled_pod(front, resource, &request)?;
    let ports = upgrade::ports(request.query.all("ports"))?;
    let streams = Arc::clone(front.options.streams.as_ref().ok_or_else(no_streams)?);
    upgrade::Upgrade::of_forward(request.parts, ports).await?.forward(pod_name(&pod), streams)
}

fn scheduled_pod(front: &Front, resource: &ResourceType, request: &Incoming) -> Result<Arc<Value>, ApiError> {
    let pod = front.registry.get(resource, &request.info.namespace, &request.info.name)?;
    match value::text(&pod, "/spec/nodeName") {
        Some(_) => Ok(pod),
        None => Err(ApiError::bad_request(format!("pod {} does not have a host assigned", request.info.name))),
    }
}

fn pod_name(pod: &Value) -> PodName {
    let text = |pointer: &str| value::text(pod, pointer).unwrap_or_default().to_owned();
    PodName { namespace: text("/metadata/namespace"), name: text("/metadata/name"), uid: text("/metadata/uid") }
}

fn streams(front: &Front) -> Result<&dyn Streams, ApiError> {
    front.options.streams.as_deref().ok_or_else(no_streams)
}

fn no_streams() -> ApiError {
    ApiError::new(503, "ServiceUnavailable", "no node runs behind this server".to_owned(), None)
}
