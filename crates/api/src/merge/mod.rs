//! Patches: how an object is changed by a part of it.
//!
//! - [`json_patch()`]: a list of operations, RFC 6902
//! - [`merge_patch`]: an object laid over another, RFC 7396
//! - [`strategic_merge_patch`]: the same, with lists merged by keys and with directives, as Kubernetes has it for its own kinds
//!
//! Pure functions on JSON: what the result must be is the business of decoding and validation.

mod lists;
mod schema;
mod strategic;

use serde_json::{Map, Value};

pub use strategic::strategic_merge_patch;

/// Operations that a JSON patch may have.
pub const JSON_PATCH_OPERATIONS_MAX: usize = 10_000;

/// Bytes that the `copy` operations of a JSON patch may add together.
const COPIED_BYTES_MAX: usize = 3 << 20;

/// Why a patch can't be applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The patch is no JSON patch.
    #[error("error decoding patch: {0}")]
    Operations(#[source] serde_json::Error),
    /// It has too many operations.
    #[error("The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS_MAX}, got {0}")]
    TooManyOperations(usize),
    /// Its `copy` operations add too much.
    #[error(
        "unable to complete the copy, the accumulated size increase of copy is {0}, exceeding the limit {COPIED_BYTES_MAX}"
    )]
    TooManyCopies(usize),
    /// An operation does not fit the object.
    #[error("{0}")]
    Operation(#[source] Box<json_patch::PatchError>),
    /// The patch, or what it is laid over, is no object.
    #[error("a patch of an object must be an object itself")]
    NoObject,
    /// A directive is none that is known at its place.
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive {
        /// The directive.
        directive: String,
        /// The object that has it.
        map: String,
    },
    /// A list that goes with a directive has the wrong form.
    #[error("invalid patch format of {0} list")]
    DirectiveList(&'static str),
    /// `$retainKeys` does not name all keys that the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// The elements of a list stand in another order than its `$setElementOrder`.
    #[error("the order in patch list {list} doesn't match the $setElementOrder list {order}")]
    ElementOrder {
        /// The patch's list.
        list: String,
        /// The order.
        order: String,
    },
    /// An element of a list that is merged by a key does not have it.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element.
        map: String,
        /// The key.
        key: &'static str,
    },
    /// The elements of a list are of several types.
    #[error("list element types are not identical: {0}")]
    MixedList(String),
}

/// What the API server answers to a patch that can't be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFault {
    /// 400: the patch itself is wrong.
    Malformed,
    /// 413: it is too large.
    TooLarge,
    /// 422: it does not fit the object.
    DoesNotFit,
}

impl PatchError {
    /// Whose fault it is.
    pub fn fault(&self) -> PatchFault {
        match self {
            PatchError::TooManyOperations(_) | PatchError::TooManyCopies(_) => PatchFault::TooLarge,
            PatchError::Operation(_) | PatchError::NoMergeKey { .. } | PatchError::MixedList(_) => {
                PatchFault::DoesNotFit
            }
            PatchError::Operations(_)
            | PatchError::NoObject
            | PatchError::Directive { .. }
            | PatchError::DirectiveList(_)
            | PatchError::RetainKeys
            | PatchError::ElementOrder { .. } => PatchFault::Malformed,
        }
    }

    fn directive(directive: &Value, map: &Value) -> PatchError {
        PatchError::Directive { directive: directive.to_string(), map: map.to_string() }
    }
}

/// Applies a JSON patch: all operations, or none.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let count = patch.as_array().map_or(0, Vec::len);
    if count > JSON_PATCH_OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations(count));
    }
    let patch: json_patch::Patch = serde::Deserialize::deserialize(patch).map_err(PatchError::Operations)?;
    let mut patched = object.clone();
    let mut copied_bytes = 0;
    for operation in &patch.0 {
        if let json_patch::PatchOperation::Copy(copy) = operation {
            // Copies of copies double with each operation.
            copied_bytes += patched.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len());
            if copied_bytes > COPIED_BYTES_MAX {
                return Err(PatchError::TooManyCopies(copied_bytes));
            }
        }
        let applied = json_patch::patch(&mut patched, std::slice::from_ref(operation));
        applied.map_err(|error| PatchError::Operation(Box::new(error)))?;
    }
    Ok(patched)
}

/// Lays a patch over an object: null removes, lists are replaced.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else { return Err(PatchError::NoObject) };
    Ok(Value::Object(lay_over(object.clone(), patch)))
}

fn lay_over(mut object: Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    for (name, change) in patch {
        match change {
            Value::Null => {
                object.shift_remove(name);
            }
            Value::Object(change) => {
                let under = match object.get_mut(name).map(Value::take) {
                    Some(Value::Object(under)) => under,
                    _ => Map::new(),
                };
                object.insert(name.clone(), Value::Object(lay_over(under, change)));
            }
            _ => {
                object.insert(name.clone(), change.clone());
            }
        }
    }
    object
}

#[cfg(test)]
mod tests;
