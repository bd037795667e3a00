//! Selectors: which objects are meant, by their labels or by a few of their fields.
//!
//! - [`LabelSelector`]: the text of `labelSelector=` and of `kubectl -l`, and the `selector` of specs
//! - [`FieldSelector`]: the text of `fieldSelector=`; which fields a kind can be selected by is the server's affair
//!
//! Errors have the API server's words. Nothing here looks anything up.

mod fields;
mod labels;
mod parse;

pub use fields::{FieldSelector, FieldSelectorError, FieldTerm};
pub use labels::{LabelSelector, Requirement, RequirementError, Test, format_label_selector};
pub use parse::LabelSelectorError;
