//! Deleting: at once, with grace, or marked until the finalizers are gone (A-123 to A-129, L-601).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};
use serde_json::Value;

use super::{ListOptions, Registry, laws, metadata};
use crate::error::{ApiError, cause};
use crate::resource::ResourceType;
use crate::store::{Expected, StoreError, StoredObject, Write};
use crate::value;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
/// Namespaces that always stand.
const KEPT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];
/// J-22, said to clients that did not choose.
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// What becomes of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The owner goes at once, they follow.
    Background,
    /// They go first; the owner stays until they are gone.
    Foreground,
    /// They stay, without their owner.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// True to do everything but delete.
    pub dry_run: bool,
    /// Seconds a pod has to end; its own choice if absent. Zero removes it at once.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of dependents; the kind's default if absent.
    pub propagation: Option<Propagation>,
    /// Only the object of this uid.
    pub uid: Option<String>,
    /// Only the object at this resourceVersion.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// Removes the object of that uid at once, without grace: what a node agent asks for in the end (L-619).
    pub fn now(uid: &str) -> Self {
        Self { grace_period_seconds: Some(0), uid: Some(uid.to_owned()), ..Self::default() }
    }

    /// With the propagation given.
    pub fn with(propagation: Propagation) -> Self {
        Self { propagation: Some(propagation), ..Self::default() }
    }
}

/// What a deletion did.
#[derive(Clone, Debug, PartialEq)]
pub struct Deleted {
    /// The object: as it is marked, or as it last was.
    pub object: Arc<Value>,
    /// True if it is gone, false if it is only marked.
    pub gone: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl Deleted {
    /// The Status that most kinds answer a DELETE with; it names the uid.
    pub fn success(&self, resource: &ResourceType) -> Status {
        let details = StatusDetails {
            name: value::text(&self.object, "/metadata/name").map(str::to_owned),
            group: (!resource.group.is_empty()).then(|| resource.group.to_owned()),
            kind: Some(resource.plural.to_owned()),
            uid: value::text(&self.object, "/metadata/uid").map(str::to_owned),
            ..StatusDetails::default()
        };
        Status { status: Some("Success".to_owned()), details: Some(details), ..Status::default() }
    }
}

/// What a deletion comes to, for one stored state.
enum Plan {
    /// Nothing more: it is being deleted already.
    Leave,
    /// It is marked, and changed so.
    Mark(Value),
    /// It goes at once.
    Remove,
}

impl Registry {
    /// Deletes an object.
    ///
    /// Fails with 404 if it is not there, 409 if a precondition fails, 403 for what has to stay.
    pub async fn delete(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        if resource.kind == "Namespace" && KEPT_NAMESPACES.contains(&name) {
            return Err(ApiError::forbidden(resource, name, "this namespace may not be deleted"));
        }
        loop {
            let stored = self.stored(resource, namespace, name)?;
            check_preconditions(resource, name, &stored.object, options)?;
            let plan = self.plan_delete(resource, &stored.object, options);
            match self.carry_out(resource, namespace, name, &stored, plan, options).await {
                // The preconditions are looked at again against the newer state.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(ApiError::from_store(&error, resource, name)),
                Ok(deleted) => return Ok(deleted),
            }
        }
    }

    /// Deletes every object that matches; goes on after errors and reports the first.
    pub async fn delete_collection(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        list: ListOptions,
        options: &DeleteOptions,
    ) -> Result<Vec<Arc<Value>>, ApiError> {
        let objects = self.list(resource, namespace, &list)?.objects;
        let mut failed = None;
        for object in &objects {
            let namespace = value::text(object, "/metadata/namespace").unwrap_or_default();
            let name = value::text(object, "/metadata/name").unwrap_or_default();
            match self.delete(resource, namespace, name, options).await {
                Err(error) if !error.is_not_found() => {
                    failed.get_or_insert(error);
                }
                _ => {}
            }
        }
        failed.map_or(Ok(objects), Err)
    }

    fn plan_delete(&self, resource: &ResourceType, object: &Value, options: &DeleteOptions) -> Plan {
        let finalizers = with_propagation(resource, object, options.propagation);
        let grace = grace_seconds(resource, object, options);
        let marked = value::is_set(object, "/metadata/deletionTimestamp");
        let kept = !finalizers.is_empty() || is_kept_by_spec(resource, object);
        if grace == 0 && !kept {
            return Plan::Remove;
        }
        let mut new = object.clone();
        set_finalizers(&mut new, &finalizers);
        if marked {
            shorten(&mut new, grace);
        } else {
            mark(resource, &mut new, self.now(), grace);
        }
        if new == *object { Plan::Leave } else { Plan::Mark(new) }
    }

    async fn carry_out(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        stored: &StoredObject,
        plan: Plan,
        options: &DeleteOptions,
    ) -> Result<Deleted, StoreError> {
        let key = self.key(resource, namespace, name);
        let warnings = warnings(resource, options);
        let deleted = |object, gone| Deleted { object: laws::from_storage(resource, object), gone, warnings };
        match plan {
            Plan::Leave => Ok(deleted(Arc::clone(&stored.object), false)),
            Plan::Mark(object) if options.dry_run => Ok(deleted(object.into(), false)),
            Plan::Remove if options.dry_run => Ok(deleted(Arc::clone(&stored.object), true)),
            Plan::Mark(object) => {
                let write = Write::Put { key, object, expected: Expected::Revision(stored.revision) };
                Ok(deleted(self.store.write(write).await?.into_object().object, false))
            }
            Plan::Remove => {
                let write = Write::Delete { key, revision: stored.revision };
                let object = self.store.write(write).await?.into_object().object;
                self.after_delete(resource, &object).await;
                Ok(deleted(object, true))
            }
        }
    }
}

/// J-22: whoever deletes a Job without a choice orphans its pods, and is told so.
fn warnings(resource: &ResourceType, options: &DeleteOptions) -> Vec<String> {
    let told = resource.kind == "Job" && options.propagation.is_none();
    told.then(|| JOB_WARNING.to_owned()).into_iter().collect()
}

fn check_preconditions(
    resource: &ResourceType,
    name: &str,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let parts = [
        ("UID", "/metadata/uid", &options.uid),
        ("ResourceVersion", "/metadata/resourceVersion", &options.resource_version),
    ];
    for (what, pointer, wanted) in parts {
        let found = value::text(object, pointer).unwrap_or_default();
        if let Some(wanted) = wanted
            && wanted != found
        {
            let detail =
                format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            return Err(ApiError::conflict(resource, name, &detail));
        }
    }
    Ok(())
}

/// The finalizers that the object has once the propagation asked for is written into them.
fn with_propagation(resource: &ResourceType, object: &Value, propagation: Option<Propagation>) -> Vec<String> {
    let mut finalizers = value::texts(object, "/metadata/finalizers");
    let collected = |name: &String| name == FOREGROUND || name == ORPHAN;
    let propagation = match propagation {
        Some(chosen) => chosen,
        // Who does not choose leaves the choice made before.
        None if finalizers.iter().any(collected) => return finalizers,
        None if resource.kind == "Job" => Propagation::Orphan,
        None => Propagation::Background,
    };
    finalizers.retain(|name| !collected(name));
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
    finalizers
}

/// A namespace stays until its controller has emptied it.
fn is_kept_by_spec(resource: &ResourceType, object: &Value) -> bool {
    resource.kind == "Namespace" && !value::texts(object, "/spec/finalizers").is_empty()
}

/// L-601: only pods end with grace, and only those that may be running somewhere.
fn grace_seconds(resource: &ResourceType, object: &Value, options: &DeleteOptions) -> i64 {
    if resource.kind != "Pod" {
        return 0;
    }
    let running = value::text(object, "/spec/nodeName").is_some()
        && !matches!(value::text(object, "/status/phase"), Some("Succeeded" | "Failed"));
    if !running {
        return 0;
    }
    let own = value::integer(object, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    let marked = value::integer(object, "/metadata/deletionGracePeriodSeconds");
    // A second deletion without a choice changes nothing.
    let grace = options.grace_period_seconds.or(marked).unwrap_or(own);
    let grace = if grace < 0 { 1 } else { grace };
    marked.map_or(grace, |marked| grace.min(marked))
}

fn mark(resource: &ResourceType, object: &mut Value, now: Timestamp, grace: i64) {
    let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
    value::set(object, &["metadata", "deletionTimestamp"], Value::String(metadata::time_text(at)));
    value::set(object, &["metadata", "deletionGracePeriodSeconds"], Value::from(grace));
    metadata::bump_generation(resource, object);
    if resource.kind == "Namespace" {
        value::set(object, &["status", "phase"], Value::String("Terminating".to_owned()));
    }
}

/// A second deletion can only bring the end nearer.
fn shorten(object: &mut Value, grace: i64) {
    let before = value::integer(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    let at = value::text(object, "/metadata/deletionTimestamp").and_then(|text| text.parse::<Timestamp>().ok());
    let Some(at) = at.filter(|_| grace < before) else { return };
    let sooner = at.checked_sub(SignedDuration::from_secs(before - grace)).unwrap_or(at);
    value::set(object, &["metadata", "deletionTimestamp"], Value::String(metadata::time_text(sooner)));
    value::set(object, &["metadata", "deletionGracePeriodSeconds"], Value::from(grace));
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        value::remove(object, &["metadata", "finalizers"]);
    } else {
        value::set(object, &["metadata", "finalizers"], Value::from(finalizers));
    }
}

impl TryFrom<&k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions> for DeleteOptions {
    type Error = ApiError;

    /// Reads what a client sent. Fails with 422 for what is contradictory or unknown.
    fn try_from(sent: &k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions) -> Result<Self, ApiError> {
        let propagation = match (sent.propagation_policy.as_deref(), sent.orphan_dependents) {
            (Some(_), Some(_)) => {
                return Err(invalid_options(
                    "propagationPolicy",
                    "Invalid value: orphanDependents and deletionPropagation cannot be both set",
                ));
            }
            (Some("Background"), None) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
            (None | Some(""), None) => None,
            (Some(other), None) => {
                let message = format!(
                    "Unsupported value: \"{other}\": supported values: \"Background\", \"Foreground\", \"Orphan\""
                );
                return Err(invalid_options("propagationPolicy", &message));
            }
        };
        let dry_run = sent.dry_run.as_deref().unwrap_or_default();
        if let Some(other) = dry_run.iter().find(|value| *value != "All") {
            return Err(invalid_options(
                "dryRun",
                &format!("Unsupported value: \"{other}\": supported values: \"All\""),
            ));
        }
        let preconditions = sent.preconditions.clone().unwrap_or_default();
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            grace_period_seconds: sent.grace_period_seconds,
            propagation,
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        })
    }
}

fn invalid_options(field: &str, message: &str) -> ApiError {
    let text = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {field}: {message}");
    let details = StatusDetails {
        causes: Some(vec![cause("FieldValueInvalid", field, message)]),
        group: Some("meta.k8s.io".to_owned()),
        kind: Some("DeleteOptions".to_owned()),
        ..StatusDetails::default()
    };
    ApiError::new(422, "Invalid", text, Some(details))
}
