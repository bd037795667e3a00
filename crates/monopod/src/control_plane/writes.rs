//! One write of a controller is one call of the registry, and its answer one outcome.

use apiserver::{ApiError, DeleteOptions, Part, Registry, ResourceType, WriteOptions};
use controllers::{
    Action, EventRecord, MetadataChange, Object, Outcome, PodStatusPatch, Propagation, Refusal, RefusalCause, Target,
};
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;

pub(crate) use super::events::EventSink;
use super::objects;

/// Carries a write out.
pub(super) async fn carry_out(registry: &Registry, events: &EventSink, action: Action) -> Outcome {
    let done = match action {
        Action::Create(object) => create(registry, &object).await,
        Action::Update(object) => update(registry, &object, Part::Main).await,
        Action::UpdateStatus(object) => update(registry, &object, Part::Status).await,
        Action::PatchPodStatus { pod, patch } => {
            let version = patch.if_version.clone();
            modify(registry, &pod, version, Part::Status, |object| patch_pod_status(object, &patch)).await
        }
        Action::EditMetadata { target, if_version, changes } => {
            modify(registry, &target, if_version, Part::Main, |object| edit_metadata(object, &changes)).await
        }
        Action::Read(target) => read(registry, &target),
        Action::Delete { target, if_version, propagation, grace_seconds } => {
            delete(registry, &target, if_version, propagation, grace_seconds).await
        }
        Action::Bind { pod, node_name } => bind(registry, &pod, &node_name).await,
        Action::FinalizeNamespace { namespace, finalizer } => {
            modify(registry, &namespace, None, Part::Finalize, |object| finalize(object, &finalizer)).await
        }
        Action::RecordEvent(record) => record_event(events, record).await,
    };
    done.unwrap_or_else(|error| Outcome::Refused(refusal(&error)))
}

async fn create(registry: &Registry, object: &Object) -> Result<Outcome, ApiError> {
    let (resource, json) = encoded(object)?;
    let answer = registry.create(resource, object.namespace(), json, &WriteOptions::default()).await?;
    stored(resource, &answer.object)
}

async fn update(registry: &Registry, object: &Object, part: Part) -> Result<Outcome, ApiError> {
    let (resource, json) = encoded(object)?;
    let answer = registry.update(resource, object.namespace(), part, json, &WriteOptions::default()).await?;
    stored(resource, &answer.object)
}

/// Changes whatever is stored, if it is still the object that is meant.
async fn modify(
    registry: &Registry,
    target: &Target,
    if_version: Option<String>,
    part: Part,
    change: impl Fn(&mut Value) -> Result<(), ApiError> + Send + Sync,
) -> Result<Outcome, ApiError> {
    let resource = resource_of(target)?;
    let answer = registry
        .patch_with(resource, &target.namespace, &target.name, part, &WriteOptions::default(), |old| {
            check_uid(resource, old, target)?;
            check_version(resource, old, target, if_version.as_deref())?;
            let mut object = old.clone();
            change(&mut object)?;
            Ok(object)
        })
        .await?;
    // With its last finalizer an object that is being deleted goes.
    match registry.get(resource, &target.namespace, &target.name) {
        Err(error) if error.is_not_found() => Ok(Outcome::Gone),
        Ok(now) if uid(&now) != target.uid => Ok(Outcome::Gone),
        _ => stored(resource, &answer.object),
    }
}

/// Looks the object up; another of its name is not meant.
fn read(registry: &Registry, target: &Target) -> Result<Outcome, ApiError> {
    let resource = resource_of(target)?;
    match registry.get(resource, &target.namespace, &target.name) {
        Ok(object) if uid(&object) == target.uid => stored(resource, &object),
        Ok(_) => Ok(Outcome::Gone),
        Err(error) if error.is_not_found() => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

async fn delete(
    registry: &Registry,
    target: &Target,
    if_version: Option<String>,
    propagation: Propagation,
    grace_seconds: Option<i64>,
) -> Result<Outcome, ApiError> {
    let resource = resource_of(target)?;
    let options = DeleteOptions {
        grace_period_seconds: grace_seconds,
        propagation: Some(match propagation {
            Propagation::Background => apiserver::Propagation::Background,
            Propagation::Foreground => apiserver::Propagation::Foreground,
            Propagation::Orphan => apiserver::Propagation::Orphan,
        }),
        uid: Some(target.uid.clone()),
        resource_version: if_version,
        ..DeleteOptions::default()
    };
    match registry.delete(resource, &target.namespace, &target.name, &options).await {
        Ok(deleted) if deleted.gone => Ok(Outcome::Gone),
        Ok(deleted) => stored(resource, &deleted.object),
        Err(error) if error.is_not_found() => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

async fn bind(registry: &Registry, pod: &Target, node_name: &str) -> Result<Outcome, ApiError> {
    let answer = registry.bind(&pod.namespace, &pod.name, Some(&pod.uid), node_name).await?;
    stored(resource_of(pod)?, &answer.object)
}

async fn record_event(events: &EventSink, record: EventRecord) -> Result<Outcome, ApiError> {
    events.record(record.regarding, record.component, record.warning, &record.reason, &record.message).await?;
    Ok(Outcome::Done)
}

fn patch_pod_status(object: &mut Value, patch: &PodStatusPatch) -> Result<(), ApiError> {
    let stored = object.get("status").unwrap_or(&Value::Null);
    let mut status = if stored.is_null() {
        PodStatus::default()
    } else {
        PodStatus::deserialize(stored).map_err(ApiError::internal)?
    };
    for condition in &patch.conditions {
        set_condition(status.conditions.get_or_insert_default(), condition);
    }
    let set = |field: &mut Option<String>, value: &Option<String>| {
        if let Some(value) = value {
            *field = Some(value.clone()).filter(|value| !value.is_empty());
        }
    };
    set(&mut status.phase, &patch.phase);
    set(&mut status.reason, &patch.reason);
    set(&mut status.message, &patch.message);
    set(&mut status.nominated_node_name, &patch.nominated_node_name);
    put(object, "status", serde_json::to_value(status).map_err(ApiError::internal)?)
}

fn set_condition(conditions: &mut Vec<PodCondition>, condition: &PodCondition) {
    match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        Some(old) => *old = condition.clone(),
        None => conditions.push(condition.clone()),
    }
}

fn edit_metadata(object: &mut Value, changes: &[MetadataChange]) -> Result<(), ApiError> {
    let stored = object.get("metadata").unwrap_or(&Value::Null);
    let mut metadata = ObjectMeta::deserialize(stored).map_err(ApiError::internal)?;
    for change in changes {
        change.apply(&mut metadata);
    }
    put(object, "metadata", serde_json::to_value(metadata).map_err(ApiError::internal)?)
}

fn finalize(object: &mut Value, finalizer: &str) -> Result<(), ApiError> {
    let finalizers = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut);
    if let Some(finalizers) = finalizers {
        finalizers.retain(|one| one != finalizer);
    }
    Ok(())
}

fn put(object: &mut Value, field: &str, value: Value) -> Result<(), ApiError> {
    let object = object.as_object_mut().ok_or_else(|| ApiError::internal("a stored object is no object"))?;
    object.insert(field.to_owned(), value);
    Ok(())
}

fn check_uid(resource: &ResourceType, object: &Value, target: &Target) -> Result<(), ApiError> {
    if uid(object) == target.uid { Ok(()) } else { Err(ApiError::not_found(resource, &target.name)) }
}

fn check_version(
    resource: &ResourceType,
    object: &Value,
    target: &Target,
    version: Option<&str>,
) -> Result<(), ApiError> {
    let stored = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    match version {
        Some(version) if stored != Some(version) => Err(ApiError::modified(resource, &target.name)),
        _ => Ok(()),
    }
}

fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

fn resource_of(target: &Target) -> Result<&'static ResourceType, ApiError> {
    objects::resource_of(&target.kind).ok_or_else(|| ApiError::internal(format!("{} is not served", target.kind)))
}

fn encoded(object: &Object) -> Result<(&'static ResourceType, Value), ApiError> {
    let json = objects::encode(object);
    let json = json.ok_or_else(|| ApiError::internal(format!("{} can't be written", object.target())))?;
    Ok((resource_of(&object.target())?, json))
}

fn stored(resource: &ResourceType, object: &Value) -> Result<Outcome, ApiError> {
    objects::decode(resource, object).map(Outcome::Stored).map_err(ApiError::internal)
}

fn refusal(error: &ApiError) -> Refusal {
    let causes = error.status().details.iter().flat_map(|details| details.causes.iter().flatten());
    let terminating = causes.filter_map(|cause| cause.reason.as_deref()).any(|reason| reason == "NamespaceTerminating");
    let cause = match error.reason() {
        _ if terminating => RefusalCause::NamespaceTerminating,
        "NotFound" => RefusalCause::NotFound,
        "Conflict" => RefusalCause::Conflict,
        "AlreadyExists" => RefusalCause::AlreadyExists,
        "Invalid" | "BadRequest" | "Forbidden" => RefusalCause::Invalid,
        _ => RefusalCause::Unavailable,
    };
    Refusal { cause, message: error.to_string() }
}
