//! Creating an object.

use serde_json::Value;

use super::{Answer, FieldValidation, Part, Registry, WriteOptions, laws, managed, metadata, random};
use crate::codec;
use crate::error::{ApiError, cause};
use crate::resource::ResourceType;
use crate::store::{Expected, StoreError, Write};
use crate::value;

/// How often a generated name is drawn before giving up.
const NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Creates an object. `namespace` counts for namespaced resources alone.
    ///
    /// Fails with 400 for what cannot be understood, 403 if admission refuses, 404 if the namespace is missing,
    /// 409 `AlreadyExists`, and 422 for what breaks rules.
    pub async fn create(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, ApiError> {
        let mut object = object;
        metadata::set_type(resource, &mut object)?;
        metadata::set_namespace(resource, &mut object, namespace)?;
        let (mut object, mut warnings) = decode(resource, object, options)?;
        if value::is_set(&object, "/metadata/resourceVersion") {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        }
        self.set_identity(resource, &mut object)?;
        let generated = value::text(&object, "/metadata/name").is_none();
        for attempt in 1..=NAME_ATTEMPTS {
            let mut object = object.clone();
            if generated {
                set_generated_name(resource, &mut object)?;
            }
            let (object, more) = self.complete(resource, namespace, object, options)?;
            let mut object = object;
            let _addresses = self.allocate_address(resource, &mut object).await?;
            let last = !generated || attempt == NAME_ATTEMPTS;
            match self.put_new(resource, namespace, object, options).await {
                Err(error) if error.is_already_exists() && !last => {}
                Err(error) => return Err(error),
                Ok(object) => {
                    warnings.extend(more);
                    return Ok(Answer { object, warnings, created: true });
                }
            }
        }
        Err(ApiError::internal("no free name was found"))
    }

    /// What the server alone says of a new object.
    fn set_identity(&self, resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
            value::remove(object, &["metadata", field]);
        }
        value::set(object, &["metadata", "uid"], Value::String(random::uid()?));
        let now = metadata::time_text(self.now());
        value::set(object, &["metadata", "creationTimestamp"], Value::String(now));
        metadata::bump_generation(resource, object);
        Ok(())
    }

    /// Defaults, admits, prepares and validates a new object that has its name.
    fn complete(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let name = value::text(&object, "/metadata/name").unwrap_or_default().to_owned();
        let mut object = laws::default(resource, object)?;
        // Before admission and strategy: what the server adds belongs to nobody.
        let time = metadata::time_text(self.now());
        let write = managed::Write { resource, part: Part::Main, manager: &options.field_manager, time: &time };
        managed::record(write, None, &mut object);
        let object = self.admit_create(resource, namespace, object)?;
        let (object, mut warnings) = laws::prepare_for_create(resource, object, self.now())?;
        let causes = laws::validate_create(resource, &object)?;
        if !causes.is_empty() {
            return Err(ApiError::invalid(resource, &name, causes));
        }
        warnings.extend(laws::warnings(resource, None, &object)?);
        Ok((object, warnings))
    }

    async fn put_new(
        &self,
        resource: &ResourceType,
        namespace: &str,
        object: Value,
        options: &WriteOptions,
    ) -> Result<std::sync::Arc<Value>, ApiError> {
        let name = value::text(&object, "/metadata/name").unwrap_or_default().to_owned();
        let key = self.key(resource, namespace, &name);
        if options.dry_run {
            return match self.store.get(&key) {
                Some(_) => Err(ApiError::from_store(&StoreError::AlreadyExists(key), resource, &name)),
                None => Ok(object.into()),
            };
        }
        let object = laws::to_storage(resource, object);
        let write = Write::Put { key, object, expected: Expected::Absent };
        let written = self.store.write(write).await.map_err(|error| ApiError::from_store(&error, resource, &name))?;
        let object = written.into_object().object;
        self.after_create(resource, &object).await?;
        Ok(laws::from_storage(resource, object))
    }
}

/// Passes an object through its type and deals with unknown fields as asked.
pub(super) fn decode(
    resource: &ResourceType,
    object: Value,
    options: &WriteOptions,
) -> Result<(Value, Vec<String>), ApiError> {
    let decoded = codec::decode(resource, object).map_err(|error| {
        let (kind, version) = (resource.kind, resource.version);
        ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
    })?;
    let unknown: Vec<String> = decoded.unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match options.field_validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let (kind, version) = (resource.kind, resource.version);
            Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
                unknown.join(", ")
            )))
        }
        FieldValidation::Warn => Ok((decoded.object, unknown)),
        FieldValidation::Strict | FieldValidation::Ignore => Ok((decoded.object, Vec::new())),
    }
}

/// Draws a name from `generateName`.
fn set_generated_name(resource: &ResourceType, object: &mut Value) -> Result<(), ApiError> {
    let Some(base) = value::text(object, "/metadata/generateName") else {
        let cause = cause("FieldValueRequired", "metadata.name", "Required value: name or generateName is required");
        return Err(ApiError::invalid(resource, "", vec![cause]));
    };
    let name = random::generated_name(base)?;
    value::set(object, &["metadata", "name"], Value::String(name));
    Ok(())
}
