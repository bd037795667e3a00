//! Trees of values to Kubernetes' types, as the API server reads them.
//!
//! [`decode`] does it for JSON; the reader of manifests does it for nodes that know where they stand.
//! All that does not fit is found in one pass: unknown fields, with the nearest known name, and values of the wrong type.
//! Null is nothing: an absent field, an empty text, zero; a bare number is a quantity. What values mean is validation's affair.

mod cursor;
mod hints;
mod tree;

use std::cell::RefCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::field::FieldPath;
pub(crate) use hints::nearest;
pub(crate) use tree::{Tree, View};

/// An object in its type, and what the type does not know.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded<K> {
    /// The object.
    pub object: K,
    /// The fields that the type does not have; they are not in the object.
    pub unknown: Vec<UnfitField>,
}

/// A field that does not fit the type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct UnfitField {
    /// Where it is.
    pub path: FieldPath,
    /// What is wrong: `expected a string, found a number`, `unknown field`.
    pub message: String,
    /// What to do, where something is likely.
    pub hint: Option<String>,
    /// True if the type has no such field, false if the value is of the wrong type.
    pub is_unknown: bool,
}

/// Decodes an object; fails with every value that is of the wrong type.
pub fn decode<K: DeserializeOwned>(value: &Value) -> Result<Decoded<K>, Vec<UnfitField>> {
    let (object, unfit) = decode_tree::<K, Value>(value);
    match object {
        Some(object) if unfit.iter().all(|field| field.is_unknown) => Ok(Decoded { object, unknown: unfit }),
        _ => Err(unfit.into_iter().filter(|field| !field.is_unknown).collect()),
    }
}

/// Decodes a tree as far as it goes, and finds all that does not fit.
///
/// The object is there if nothing stopped the decoding; values of the wrong type are replaced by nothing in it.
pub(crate) fn decode_tree<K: DeserializeOwned, T: Tree>(tree: &T) -> (Option<K>, Vec<UnfitField>) {
    let unfit = RefCell::new(Vec::new());
    let decoded = K::deserialize(cursor::Cursor::root(tree, &unfit));
    let mut unfit = unfit.into_inner();
    match decoded {
        Ok(object) => (Some(object), unfit),
        Err(fault) => {
            unfit.push(fault.into_unfit());
            (None, unfit)
        }
    }
}

#[cfg(test)]
mod tests;
