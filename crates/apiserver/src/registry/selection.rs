//! Which objects of a collection are meant: label and field selectors.
//!
//! The grammars are `api`'s; which fields can be selected is decided here, by resource.

use api::selector::{FieldSelector, FieldTerm, LabelSelector};
use serde_json::Value;

use crate::error::ApiError;
use crate::resource::ResourceType;
use crate::value;

/// What an object must be like.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Its labels.
    pub labels: LabelSelector,
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

    /// Reads a label and a field selector; fails with 400 if one is malformed or names a field that the resource
    /// cannot be selected by.
    pub fn parse(resource: &ResourceType, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = LabelSelector::parse(labels)
            .map_err(|error| ApiError::bad_request(format!("unable to parse requirement: {error}")))?;
        let fields = FieldSelector::parse(fields).map_err(|error| ApiError::bad_request(error.to_string()))?;
        match fields.terms.iter().find(|term| !is_selectable(resource, &term.field)) {
            None => Ok(Self { labels, fields }),
            Some(term) if resource.kind == "Job" => {
                Err(ApiError::bad_request(format!("field label \"{}\" not supported for Job", term.field)))
            }
            Some(term) => Err(ApiError::bad_request(format!("field label not supported: {}", term.field))),
        }
    }

    /// True if nothing is asked for.
    pub fn selects_all(&self) -> bool {
        self.labels.selects_everything() && self.fields.selects_everything()
    }

    /// True if the object is meant.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.fields.matches_with(|field| field_text(object, field)) && self.labels.matches_with(label)
    }
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
        let selection = Selection::parse(resource, "", selector).map_err(|error| error.to_string())?;
        Ok(selection.matches(object))
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
