//! Which objects of a collection are meant: label and field selectors.
//!
//! The label grammar is `api`'s; which fields can be selected is decided here, by resource.

use serde_json::Value;

use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// What an object must be like.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Its labels.
    pub labels: kube_core::Selector,
    /// Its fields.
    pub fields: FieldSelector,
}

impl Selection {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// The one object of that name.
    pub fn name(name: &str) -> Self {
        let term = FieldTerm { field: "metadata.name".to_owned(), value: name.to_owned(), equal: true };
        Self { fields: FieldSelector { terms: vec![term] }, ..Self::default() }
    }

    /// True if nothing is asked for.
    pub fn selects_all(&self) -> bool {
        self.labels.selects_all() && self.fields.terms.is_empty()
    }

    /// True if the object is meant.
    pub fn matches(&self, object: &Value) -> bool {
        use kube_core::SelectorExt;
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let labels =
            labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        self.fields.matches(object) && (self.labels.selects_all() || self.labels.matches(&labels.collect()))
    }
}

/// A field selector: every term must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Reads `a=b,c!=d`; values may be empty and may escape `\,`, `\=` and `\\`.
    ///
    /// Fails with 400 if a term is malformed or names a field that the resource cannot be selected by.
    pub fn parse(resource: &ResourceType, text: &str) -> Result<Self, ApiError> {
        let terms: Result<Vec<_>, _> = split_terms(text)
            .into_iter()
            .filter(|term| !term.is_empty())
            .map(|term| parse_term(resource, &term))
            .collect();
        Ok(Self { terms: terms? })
    }

    /// True if the object's fields are as asked for.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| (field_text(object, &term.field) == term.value) == term.equal)
    }

    /// The value that the field must have, if one term says so.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for character in text.chars() {
        if character == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = character == '\\' && !escaped;
        if let Some(term) = terms.last_mut() {
            term.push(character);
        }
    }
    terms
}

fn parse_term(resource: &ResourceType, term: &str) -> Result<FieldTerm, ApiError> {
    let (field, equal, value) = if let Some((field, value)) = term.split_once("!=") {
        (field, false, value)
    } else if let Some((field, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (field, true, value)
    } else {
        return Err(ApiError::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'")));
    };
    let field = field.trim();
    if !is_selectable(resource, field) {
        return Err(ApiError::bad_request(match resource.kind {
            "Job" => format!("field label \"{field}\" not supported for Job"),
            _ => format!("field label not supported: {field}"),
        }));
    }
    Ok(FieldTerm { field: field.to_owned(), value: unescape(value.trim()), equal })
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

fn is_selectable(resource: &ResourceType, field: &str) -> bool {
    if field == "metadata.name" || (field == "metadata.namespace" && resource.namespaced) {
        return true;
    }
    let fields: &[&str] = match (resource.group, resource.plural) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "events") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("batch", "jobs") => &["status.successful"],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        _ => &[],
    };
    fields.contains(&field)
}

/// The field as selectors compare it: text, numbers in decimal, absent booleans as `false`.
fn field_text(object: &Value, field: &str) -> String {
    match field {
        // the component of the source, else the controller that reports.
        "source" => {
            let source =
                value::text(object, "/source/component").or_else(|| value::text(object, "/reportingComponent"));
            source.unwrap_or_default().to_owned()
        }
        "status.successful" => value::integer(object, "/status/succeeded").unwrap_or(0).to_string(),
        "spec.unschedulable" | "spec.hostNetwork" => {
            let set = object.pointer(&pointer(field)).and_then(Value::as_bool).unwrap_or(false);
            set.to_string()
        }
        _ => match object.pointer(&pointer(field)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        },
    }
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(plural: &str, selector: &str, object: &Value) -> Result<bool, String> {
        let resource = ResourceType::find("", "v1", plural).ok_or("no such resource")?;
        let selector = FieldSelector::parse(resource, selector).map_err(|error| error.to_string())?;
        Ok(selector.matches(object))
    }

    #[test]
    fn a_91_terms_are_joined_by_and_and_may_be_empty() {
        let event = json!({"involvedObject": {"name": "n", "kind": "Node"}, "reportingComponent": "kubelet"});
        assert_eq!(check("events", "involvedObject.name=n,involvedObject.namespace=", &event), Ok(true));
        assert_eq!(check("events", "involvedObject.kind!=Node,involvedObject.name==n", &event), Ok(false));
        assert_eq!(check("events", "source=kubelet", &event), Ok(true));
    }

    #[test]
    fn a_91_escapes_are_undone() {
        let event = json!({"reason": "a,b=c"});
        assert_eq!(check("events", "reason=a\\,b\\=c", &event), Ok(true));
    }

    #[test]
    fn a_91_unknown_fields_are_refused() {
        let refused = Err("field label not supported: spec.foo".to_owned());
        assert_eq!(check("pods", "spec.foo=1", &json!({})), refused);
    }

    #[test]
    fn a_91_an_absent_unschedulable_is_false() {
        assert_eq!(check("nodes", "spec.unschedulable=false", &json!({"spec": {}})), Ok(true));
    }
}
