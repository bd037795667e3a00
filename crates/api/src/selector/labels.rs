//! Label selectors: requirements that must all hold.
//!
//! Kubernetes: apimachinery, pkg/labels.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

use super::parse::{self, LabelSelectorError};
use crate::absent::{entries, items};
use crate::validation::names;

/// Requirements on an object's labels, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    selects_nothing: bool,
}

/// What is asked of one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must hold of it.
    pub test: Test,
}

/// What must hold of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// It is there with this value: `k=v`.
    Equal(String),
    /// It has another value or is not there: `k!=v`.
    NotEqual(String),
    /// It is there with one of the values: `k in (a,b)`.
    In(BTreeSet<String>),
    /// It has none of the values or is not there: `k notin (a,b)`.
    NotIn(BTreeSet<String>),
    /// It is there: `k`.
    Exists,
    /// It is not there: `!k`.
    DoesNotExist,
    /// It is there with a larger number: `k>1`.
    GreaterThan(i64),
    /// It is there with a smaller number: `k<1`.
    LessThan(i64),
}

/// Why something is no requirement; the texts are Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The operator of a `matchExpressions` entry is unknown.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// The key or a value is none that a label can have, or there are too many or too few values.
    #[error("{field}: Invalid value: {value}: {detail}")]
    Invalid {
        /// Where it stands: `key`, `values`, `values[0][app]`.
        field: String,
        /// What stands there.
        value: String,
        /// What is wrong with it.
        detail: String,
    },
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> LabelSelector {
        LabelSelector::default()
    }

    /// Selects no object.
    pub fn nothing() -> LabelSelector {
        LabelSelector { requirements: Vec::new(), selects_nothing: true }
    }

    /// Reads `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, `k>n`, `k<n`, joined by commas.
    ///
    /// The empty text selects everything.
    pub fn parse(text: &str) -> Result<LabelSelector, LabelSelectorError> {
        parse::requirements(text).map(LabelSelector::new)
    }

    /// Selects what has exactly these labels among its own.
    pub fn from_labels(labels: &BTreeMap<String, String>) -> LabelSelector {
        let equal =
            |(key, value): (&String, &String)| Requirement { key: key.clone(), test: Test::Equal(value.clone()) };
        LabelSelector::new(labels.iter().map(equal).collect())
    }

    /// The selector of a spec: an absent one selects nothing, an empty one everything.
    pub fn from_spec(selector: Option<&meta::LabelSelector>) -> Result<LabelSelector, RequirementError> {
        let Some(selector) = selector else { return Ok(LabelSelector::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in entries(&selector.match_labels) {
            requirements.push(Requirement::new(key, Test::Equal(value.to_owned()))?);
        }
        for expression in items(&selector.match_expressions) {
            requirements.push(from_expression(expression)?);
        }
        Ok(LabelSelector::new(requirements))
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// True if every object is meant.
    pub fn selects_everything(&self) -> bool {
        self.requirements.is_empty() && !self.selects_nothing
    }

    /// True if an object with these labels is meant.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// True if an object is meant whose labels the function looks up.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.selects_nothing
            && self.requirements.iter().all(|requirement| requirement.test.holds(label(&requirement.key)))
    }

    fn new(mut requirements: Vec<Requirement>) -> LabelSelector {
        requirements.sort_by(|one, other| one.key.cmp(&other.key));
        LabelSelector { requirements, selects_nothing: false }
    }
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<LabelSelector, LabelSelectorError> {
        LabelSelector::parse(text)
    }
}

impl Requirement {
    /// A requirement whose key and values labels can have.
    pub fn new(key: &str, test: Test) -> Result<Requirement, RequirementError> {
        check_key(key, "key")?;
        if let Test::In(values) | Test::NotIn(values) = &test
            && values.is_empty()
        {
            return Err(invalid("values", "[]".to_owned(), "for 'in', 'notin' operators, values set can't be empty"));
        }
        for (index, value) in test.values().into_iter().enumerate() {
            check_value(key, value, index)?;
        }
        Ok(Requirement { key: key.to_owned(), test })
    }
}

pub(super) fn check_key(key: &str, field: &str) -> Result<(), RequirementError> {
    match names::qualified_name(key) {
        problems if problems.is_empty() => Ok(()),
        problems => Err(invalid(field, format!("{key:?}"), &problems.join("; "))),
    }
}

pub(super) fn check_value(key: &str, value: &str, index: usize) -> Result<(), RequirementError> {
    match names::label_value(value) {
        problems if problems.is_empty() => Ok(()),
        problems => Err(invalid(&format!("values[{index}][{key}]"), format!("{value:?}"), &problems.join("; "))),
    }
}

pub(super) fn invalid(field: &str, value: String, detail: &str) -> RequirementError {
    RequirementError::Invalid { field: field.to_owned(), value, detail: detail.to_owned() }
}

impl Test {
    /// True if a label with this value, or one that is not there, passes.
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Test::Equal(wanted) => value == Some(wanted),
            Test::NotEqual(wanted) => value != Some(wanted),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }

    fn values(&self) -> Vec<&str> {
        match self {
            Test::Equal(value) | Test::NotEqual(value) => vec![value],
            Test::In(values) | Test::NotIn(values) => values.iter().map(String::as_str).collect(),
            Test::Exists | Test::DoesNotExist | Test::GreaterThan(_) | Test::LessThan(_) => Vec::new(),
        }
    }
}

fn from_expression(expression: &meta::LabelSelectorRequirement) -> Result<Requirement, RequirementError> {
    let values: BTreeSet<String> = items(&expression.values).iter().cloned().collect();
    let test = match expression.operator.as_str() {
        "In" => Test::In(values),
        "NotIn" => Test::NotIn(values),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let shown = format!("{:?}", items(&expression.values));
            return Err(invalid("values", shown, "values set must be empty for exists and does not exist"));
        }
        "Exists" => Test::Exists,
        "DoesNotExist" => Test::DoesNotExist,
        operator => return Err(RequirementError::Operator(operator.to_owned())),
    };
    Requirement::new(&expression.key, test)
}

/// A spec's selector in a column of `kubectl`: `<none>` if it asks for nothing, `<error>` if it is none (L-1123).
pub fn format_label_selector(selector: Option<&meta::LabelSelector>) -> String {
    match LabelSelector::from_spec(selector) {
        Ok(selector) if selector.requirements.is_empty() => "<none>".to_owned(),
        Ok(selector) => selector.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, requirement) in self.requirements.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.test {
            Test::Equal(value) => write!(f, "{key}={value}"),
            Test::NotEqual(value) => write!(f, "{key}!={value}"),
            Test::In(values) => write!(f, "{key} in ({})", list(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_90_every_form_selects_as_kubernetes_says() -> Result<(), LabelSelectorError> {
        let object = labels(&[("app", "web"), ("example.com/tier", "1"), ("n", "5"), ("empty", "")]);
        let rows = [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app=db", false),
            ("app!=db", true),
            ("gone!=x", true),
            ("app", true),
            ("!app", false),
            ("!gone", true),
            ("app in (web, db)", true),
            ("app in (db)", false),
            ("app notin (web)", false),
            ("gone notin (a)", true),
            ("gone in (a)", false),
            ("n>4", true),
            ("n>5", false),
            ("n<6", true),
            ("app>1", false),
            ("gone<1", false),
            ("empty=", true),
            ("empty in (,x)", true),
            ("app in ()", false),
            ("example.com/tier=1,app in (web)", true),
            ("app=web,gone", false),
        ];
        for (text, wanted) in rows {
            assert_eq!(LabelSelector::parse(text)?.matches(&object), wanted, "{text}");
        }
        Ok(())
    }

    fn spec(selector: Value) -> Result<LabelSelector, RequirementError> {
        let selector: Option<meta::LabelSelector> = serde_json::from_value(selector).unwrap_or_default();
        LabelSelector::from_spec(selector.as_ref())
    }

    #[test]
    fn an_absent_selector_selects_nothing_and_an_empty_one_everything() {
        let object = labels(&[("app", "web")]);
        assert_eq!(spec(Value::Null).map(|selector| selector.matches(&object)), Ok(false));
        assert_eq!(spec(json!({})).map(|selector| selector.matches(&object)), Ok(true));
    }

    #[test]
    fn selectors_of_specs_read_as_kubectl_shows_them() {
        let rows = [
            (json!(null), "<none>"),
            (json!({}), "<none>"),
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchLabels": {"b": "2"}, "matchExpressions": [
                    {"key": "c", "operator": "In", "values": ["z", "y"]},
                    {"key": "a", "operator": "NotIn", "values": ["x"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                ]}),
                "a notin (x),b=2,c in (y,z),d,!e",
            ),
            (json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}), "<error>"),
            (json!({"matchExpressions": [{"key": "a", "operator": "In"}]}), "<error>"),
        ];
        for (selector, wanted) in rows {
            let selector: Option<meta::LabelSelector> = serde_json::from_value(selector).unwrap_or_default();
            assert_eq!(format_label_selector(selector.as_ref()), wanted);
        }
    }

    #[test]
    fn requirements_that_no_label_can_meet_are_refused_in_kubernetes_words() {
        let expression = |operator: &str, values: Value| {
            spec(json!({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}))
                .map_err(|error| error.to_string())
        };
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(expression("Near", json!([])), refused("\"Near\" is not a valid label selector operator"));
        assert_eq!(
            expression("In", json!([])),
            refused("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
        );
        assert_eq!(
            expression("Exists", json!(["x"])),
            refused("values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist")
        );
    }
}
