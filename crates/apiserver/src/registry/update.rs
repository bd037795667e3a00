//! Changing an object that is there: PUT, PATCH and the parts of an object that subresources write.
//!
//! Every change is a function of the stored object, tried again when somebody else was faster,
//! unless the caller named the version it knew.

use std::sync::Arc;

use serde_json::Value;

use super::create::decode;
use super::{Answer, Registry, WriteOptions, laws, managed, metadata};
use crate::error::{ApiError, cause};
use crate::resource::ResourceType;
use crate::store::{Expected, StoreError, StoredObject, Write};
use crate::value;

/// Tries of a write that names no version, before it gives up with a conflict.
const RACES_MAX: usize = 64;

/// The part of an object that a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// The status, and labels, annotations and finalizers.
    Status,
    /// A pod's ephemeral containers.
    EphemeralContainers,
    /// A namespace's `spec.finalizers`.
    Finalize,
    /// A pod's node and what comes with it.
    Binding,
}

/// What server-side apply is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The fields that are wanted, with `apiVersion` and `kind`.
    pub object: Value,
    /// True to take fields from whoever set them to another value.
    pub force: bool,
}

/// Which object a write is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) resource: &'a ResourceType,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) part: Part,
    pub(super) how: How,
}

/// How a change was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// As a whole object.
    Whole,
    /// As a patch, whose result is refused in other words.
    Patch,
    /// As a configuration to apply, which brings its managed fields.
    Apply,
}

impl Registry {
    /// Replaces an object, or a part of it. The name is the object's.
    ///
    /// Fails with 404 if it is not there (but for the kinds that PUT creates, A-99), 409 if `metadata.resourceVersion`
    /// or `metadata.uid` is given and stale, 422 for what breaks rules.
    pub async fn update(
        &self,
        resource: &ResourceType,
        namespace: &str,
        part: Part,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, ApiError> {
        let mut object = object;
        metadata::set_type(resource, &mut object)?;
        metadata::set_namespace(resource, &mut object, namespace)?;
        let name = value::text(&object, "/metadata/name").unwrap_or_default().to_owned();
        if name.is_empty() {
            let cause = cause("FieldValueRequired", "metadata.name", "Required value: name must be provided");
            return Err(ApiError::invalid(resource, "", vec![cause]));
        }
        let target = Target { resource, namespace, name: &name, part, how: How::Whole };
        self.check_conditional(target, &object)?;
        match self.modify(target, options, |_| Ok(object.clone())).await {
            Err(error) if error.is_not_found() && resource.traits.create_on_update && part == Part::Main => {
                value::remove(&mut object, &["metadata", "resourceVersion"]);
                self.create(resource, namespace, object, options).await
            }
            answer => answer,
        }
    }

    /// Changes an object by a function of what is stored; for patches, and for callers in process.
    ///
    /// The function may be called several times. A `metadata.resourceVersion` that it leaves as it found it makes no
    /// condition; another one does.
    pub async fn patch_with(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        part: Part,
        options: &WriteOptions,
        change: impl Fn(&Value) -> Result<Value, ApiError> + Send + Sync,
    ) -> Result<Answer, ApiError> {
        let target = Target { resource, namespace, name, part, how: How::Patch };
        self.modify(target, options, |old| {
            let mut new = change(old)?;
            if new.pointer("/metadata/resourceVersion") == old.pointer("/metadata/resourceVersion") {
                value::remove(&mut new, &["metadata", "resourceVersion"]);
            }
            Ok(new)
        })
        .await
    }

    /// Applies a configuration on the server: creates the object if it is not there.
    ///
    /// Fails with 409 if somebody else set a field to another value, unless it is forced.
    pub async fn apply(
        &self,
        resource: &ResourceType,
        namespace: &str,
        name: &str,
        part: Part,
        configuration: Configuration,
        options: &WriteOptions,
    ) -> Result<Answer, ApiError> {
        let Configuration { object: mut configuration, force } = configuration;
        check_configuration(resource, &configuration, name)?;
        metadata::set_namespace(resource, &mut configuration, namespace)?;
        value::set(&mut configuration, &["metadata", "name"], Value::from(name));
        value::drop_nulls(&mut configuration);
        let (configuration, warnings) = decode(resource, configuration, options)?;
        let time = metadata::time_text(self.now());
        let write = managed::Write { resource, part, manager: &options.field_manager, time: &time };
        let target = Target { resource, namespace, name, part, how: How::Apply };
        let applied = self.modify(target, options, |old| {
            let mut new = managed::apply(write, force, old, &configuration)?;
            if !value::is_set(&configuration, "/metadata/resourceVersion") {
                value::remove(&mut new, &["metadata", "resourceVersion"]);
            }
            Ok(new)
        });
        let mut answer = match applied.await {
            Err(error) if error.is_not_found() && part == Part::Main => {
                let new = managed::apply_new(write, &configuration);
                let options = WriteOptions { field_manager: String::new(), ..options.clone() };
                self.create(resource, namespace, new, &options).await?
            }
            answer => answer?,
        };
        answer.warnings.splice(0..0, warnings);
        Ok(answer)
    }

    /// some kinds take no update that does not name the version it knows.
    fn check_conditional(&self, target: Target<'_>, object: &Value) -> Result<(), ApiError> {
        let resource = target.resource;
        let unnamed = resource.traits.conditional_update && !value::is_set(object, "/metadata/resourceVersion");
        if unnamed && self.stored(resource, target.namespace, target.name).is_ok() {
            let message = "Invalid value: 0x0: must be specified for an update";
            let cause = cause("FieldValueInvalid", "metadata.resourceVersion", message);
            return Err(ApiError::invalid(resource, target.name, vec![cause]));
        }
        Ok(())
    }

    /// The loop of compare-and-set.
    async fn modify(
        &self,
        target: Target<'_>,
        options: &WriteOptions,
        change: impl Fn(&Value) -> Result<Value, ApiError> + Send + Sync,
    ) -> Result<Answer, ApiError> {
        for _ in 0..RACES_MAX {
            let stored = self.stored(target.resource, target.namespace, target.name)?;
            let old = laws::from_storage(target.resource, Arc::clone(&stored.object));
            let new = change(&old)?;
            let conditional = value::is_set(&new, "/metadata/resourceVersion");
            let (new, warnings) = self.prepare_update(target, &old, new, options)?;
            match self.put_changed(target, &stored, new, options).await {
                Err(StoreError::Conflict { .. }) if !conditional => {}
                Err(error) => return Err(ApiError::from_store(&error, target.resource, target.name)),
                Ok(object) => return Ok(Answer { object, warnings, created: false }),
            }
        }
        Err(ApiError::modified(target.resource, target.name))
    }

    /// Everything between what was sent and what can be stored.
    fn prepare_update(
        &self,
        target: Target<'_>,
        old: &Value,
        new: Value,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let resource = target.resource;
        check_preconditions(target, old, &new)?;
        let decoded = decode(resource, new, options);
        let (new, mut warnings) = if target.how != How::Whole {
            decoded.map_err(|error| unfit_patch(resource, target.name, &error))?
        } else {
            decoded?
        };
        let mut new = laws::take_part(target.part, resource, old, new);
        metadata::restore_identity(old, &mut new);
        // Who names no version means the one that is there, and validation asks for one.
        value::copy(old, &mut new, &["metadata", "resourceVersion"]);
        let mut new = laws::default(resource, new)?;
        // Before the strategy: what the server adds belongs to nobody.
        if target.how != How::Apply {
            let time = metadata::time_text(self.now());
            let write = managed::Write { resource, part: target.part, manager: &options.field_manager, time: &time };
            managed::record(write, Some(old), &mut new);
        }
        let mut new = laws::prepare_for_update(resource, target.part, old, new)?;
        // Kubernetes: pkg/registry/core/pod/storage, a binding is not counted although it writes the spec.
        if !laws::counts_generation(resource) {
            metadata::count_generation(resource, old, &mut new);
        }
        let mut causes = metadata::check_finalizers(old, &new);
        causes.extend(laws::validate_update(resource, target.part, old, &new)?);
        if !causes.is_empty() {
            return Err(ApiError::invalid(resource, target.name, causes));
        }
        warnings.extend(laws::warnings(resource, Some(old), &new)?);
        Ok((new, warnings))
    }

    /// Stores the new state, or removes the object if its last finalizer went.
    async fn put_changed(
        &self,
        target: Target<'_>,
        stored: &StoredObject,
        new: Value,
        options: &WriteOptions,
    ) -> Result<Arc<Value>, StoreError> {
        let resource = target.resource;
        if options.dry_run {
            return Ok(new.into());
        }
        let key = self.key(resource, target.namespace, target.name);
        if is_finished(resource, &new) {
            let write = Write::Delete { key, revision: stored.revision };
            let gone = self.store.write(write).await?.into_object().object;
            self.after_delete(resource, &gone).await;
            return Ok(new.into());
        }
        let object = laws::to_storage(resource, new);
        let write = Write::Put { key, object, expected: Expected::Revision(stored.revision) };
        let object = self.store.write(write).await?.into_object().object;
        Ok(laws::from_storage(resource, object))
    }
}

///
fn check_configuration(resource: &ResourceType, configuration: &Value, name: &str) -> Result<(), ApiError> {
    if value::is_set(configuration, "/metadata/managedFields") {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let expected = [("/apiVersion", resource.api_version()), ("/kind", resource.kind.to_owned())];
    for (pointer, wanted) in expected {
        let given = value::text(configuration, pointer).unwrap_or_default();
        if given != wanted {
            let field = pointer.trim_start_matches('/');
            return Err(ApiError::bad_request(format!(
                "{field} must be \"{wanted}\" in a configuration to apply, not \"{given}\""
            )));
        }
    }
    match value::text(configuration, "/metadata/name") {
        Some(given) if given != name => {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            Err(ApiError::bad_request(message))
        }
        _ => Ok(()),
    }
}

/// 422: what a patch makes is no object of the kind.
fn unfit_patch(resource: &ResourceType, name: &str, error: &ApiError) -> ApiError {
    let message = format!("Invalid value: {error}");
    ApiError::invalid(resource, name, vec![cause("FieldValueInvalid", "patch", message)])
}

/// True if nothing keeps a deleted object any more.
fn is_finished(resource: &ResourceType, object: &Value) -> bool {
    let grace = value::integer(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    value::is_set(object, "/metadata/deletionTimestamp")
        && grace == 0
        && value::texts(object, "/metadata/finalizers").is_empty()
        && (resource.kind != "Namespace" || value::texts(object, "/spec/finalizers").is_empty())
}

/// The name, uid and resourceVersion that the new object may carry.
fn check_preconditions(target: Target<'_>, old: &Value, new: &Value) -> Result<(), ApiError> {
    let resource = target.resource;
    if value::text(new, "/metadata/name").is_some_and(|name| name != target.name) {
        let given = value::text(new, "/metadata/name").unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            target.name
        )));
    }
    if target.how != How::Whole
        && value::is_set(new, "/metadata/uid")
        && new.pointer("/metadata/uid") != old.pointer("/metadata/uid")
    {
        let given = new.pointer("/metadata/uid").cloned().unwrap_or_default();
        let message = format!("Invalid value: {given}: field is immutable");
        return Err(ApiError::invalid(
            resource,
            target.name,
            vec![cause("FieldValueInvalid", "metadata.uid", message)],
        ));
    }
    let (stored_uid, given_uid) = (value::text(old, "/metadata/uid"), value::text(new, "/metadata/uid"));
    if let (Some(stored), Some(given)) = (stored_uid, given_uid)
        && stored != given
    {
        let detail = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {stored}");
        return Err(ApiError::conflict(resource, target.name, &detail));
    }
    match value::text(new, "/metadata/resourceVersion") {
        Some(given) if Some(given) != value::text(old, "/metadata/resourceVersion") => {
            Err(ApiError::modified(resource, target.name))
        }
        // A patch takes the version off again, so what arrives here without one is unconditional.
        _ => Ok(()),
    }
}
