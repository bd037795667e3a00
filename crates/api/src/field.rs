//! What is wrong with one field, and where: the API server's field errors (L-1201).
//!
//! Kubernetes: apimachinery, pkg/util/validation/field.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusCause;
use serde_json::Value;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// A member of an object.
    Name(String),
    /// An element of a list.
    Index(usize),
    /// An entry of a map.
    Key(String),
}

/// Where a field is: `spec.containers[0].image`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// A member of the object itself; the empty name is the object.
    pub fn root(name: &str) -> FieldPath {
        if name.is_empty() { FieldPath::default() } else { FieldPath(vec![Segment::Name(name.to_owned())]) }
    }

    /// A member of the object at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> FieldPath {
        self.with(Segment::Name(name.to_owned()))
    }

    /// An element of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> FieldPath {
        self.with(Segment::Index(index))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> FieldPath {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The steps from the object to the field.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    fn with(&self, segment: Segment) -> FieldPath {
        let mut segments = self.0.clone();
        segments.push(segment);
        FieldPath(segments)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Name(name) if position == 0 => f.write_str(name)?,
                Segment::Name(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// The kind of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// It must be there.
    Required,
    /// Its value breaks a rule.
    Invalid,
    /// Its value is none of those that are known.
    NotSupported,
    /// It must not be there.
    Forbidden,
    /// Another has the same value.
    Duplicate,
    /// What it names is not there.
    NotFound,
    /// Its text is too long.
    TooLong,
    /// Its list is too long.
    TooMany,
}

impl FieldErrorKind {
    /// The words of the message.
    pub fn text(self) -> &'static str {
        match self {
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Invalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::NotFound => "Not found",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
        }
    }

    /// The reason of the cause in a Status (L-1202).
    pub fn reason(self) -> &'static str {
        match self {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where.
    pub path: FieldPath,
    /// What kind of wrong.
    pub kind: FieldErrorKind,
    /// The wrong value, where the message shows it.
    pub value: Option<Value>,
    /// Why, or what would be right; may be empty.
    pub detail: String,
}

impl FieldError {
    /// The field must be there.
    pub fn required(at: &FieldPath, detail: &str) -> FieldError {
        FieldError::new(at, FieldErrorKind::Required, None, detail)
    }

    /// The value breaks a rule.
    pub fn invalid(at: &FieldPath, value: Value, detail: String) -> FieldError {
        FieldError::new(at, FieldErrorKind::Invalid, Some(value), detail)
    }

    /// The field is wrong in a way that its value does not show.
    pub fn invalid_without_value(at: &FieldPath, detail: &str) -> FieldError {
        FieldError::new(at, FieldErrorKind::Invalid, None, detail)
    }

    /// The value is none of those supported, which are listed in the order given.
    pub fn not_supported(at: &FieldPath, value: &str, supported: &[&str]) -> FieldError {
        let quoted: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        FieldError::new(at, FieldErrorKind::NotSupported, Some(value.into()), detail)
    }

    /// The field must not be there.
    pub fn forbidden(at: &FieldPath, detail: String) -> FieldError {
        FieldError::new(at, FieldErrorKind::Forbidden, None, detail)
    }

    /// Another has the same value.
    pub fn duplicate(at: &FieldPath, value: Value) -> FieldError {
        FieldError::new(at, FieldErrorKind::Duplicate, Some(value), "")
    }

    /// What the value names is not there.
    pub fn not_found(at: &FieldPath, value: &str, detail: &str) -> FieldError {
        FieldError::new(at, FieldErrorKind::NotFound, Some(value.into()), detail)
    }

    /// The text is longer than so many bytes.
    pub fn too_long(at: &FieldPath, bytes_max: usize) -> FieldError {
        FieldError::new(at, FieldErrorKind::TooLong, None, format!("may not be more than {bytes_max} bytes"))
    }

    /// The list has more than so many items.
    pub fn too_many(at: &FieldPath, count: usize, count_max: usize) -> FieldError {
        let detail = format!("must have at most {count_max} items");
        FieldError::new(at, FieldErrorKind::TooMany, Some(count.into()), detail)
    }

    /// The text after the path: kind, value, detail.
    pub fn body(&self) -> String {
        let mut body = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            body.push_str(": ");
            body.push_str(&show(value));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }

    /// The error as a Status has it among its causes.
    pub fn cause(&self) -> StatusCause {
        StatusCause {
            field: Some(self.path.to_string()),
            message: Some(self.body()),
            reason: Some(self.kind.reason().to_owned()),
        }
    }

    fn new(at: &FieldPath, kind: FieldErrorKind, value: Option<Value>, detail: impl Into<String>) -> FieldError {
        FieldError { path: at.clone(), kind, value, detail: detail.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

/// All errors as one text: one stands alone, several in brackets (L-1202).
pub fn aggregate(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        many => format!("[{}]", many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// A value in a message: texts quoted, all else as JSON.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        value => value.to_string(),
    }
}

/// A text in quotes as Go's `%q` writes it, as far as the two languages differ: control characters.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c < ' ' || c == '\u{7f}' => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l_1201_an_error_says_path_kind_value_and_detail() {
        let at = FieldPath::root("spec").child("containers").index(0).child("restartPolicy");
        let rows = [
            (
                FieldError::not_supported(&at, "Sometimes", &["Always", "Never"]),
                "spec.containers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"Never\"",
            ),
            (FieldError::required(&at, ""), "spec.containers[0].restartPolicy: Required value"),
            (
                FieldError::invalid(&at.key("a b"), Value::from(-1), "must be 1".to_owned()),
                "spec.containers[0].restartPolicy[a b]: Invalid value: -1: must be 1",
            ),
            (
                FieldError::invalid(&at, Value::Null, String::new()),
                "spec.containers[0].restartPolicy: Invalid value: null",
            ),
            (
                FieldError::invalid(&at, serde_json::json!({"a": 1}), "no".to_owned()),
                "spec.containers[0].restartPolicy: Invalid value: {\"a\":1}: no",
            ),
            (
                FieldError::too_many(&at, 21, 20),
                "spec.containers[0].restartPolicy: Too many: 21: must have at most 20 items",
            ),
            (
                FieldError::duplicate(&at, "a\"\n".into()),
                "spec.containers[0].restartPolicy: Duplicate value: \"a\\\"\\n\"",
            ),
        ];
        for (error, wanted) in rows {
            assert_eq!(error.to_string(), wanted);
        }
    }
}
