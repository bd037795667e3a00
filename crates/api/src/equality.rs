//! Whether two objects mean the same.
//!
//! Kubernetes compares its own types, in which a field that nobody set and one set to the empty text, list, map, zero or
//! false are one, and quantities are numbers.
//! Here two objects are compared as JSON with such fields left out.
//! Fields that Kubernetes keeps as pointers are not left out when they are empty: `securityContext: {}` differs from none.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::quantity;

/// Maps of texts or quantities, and objects that Kubernetes embeds: empty and absent are one.
const EMPTY_OBJECTS: [&str; 27] = [
    "allocatedResources",
    "annotations",
    "binaryData",
    "capacity",
    "data",
    "default",
    "defaultRequest",
    "divisor",
    "hard",
    "labels",
    "lastState",
    "limits",
    "loadBalancer",
    "matchLabels",
    "max",
    "metadata",
    "min",
    "nodeSelector",
    "options",
    "overhead",
    "requests",
    "resources",
    "spec",
    "state",
    "status",
    "strategy",
    "used",
];
/// Numbers and booleans that Kubernetes keeps without a pointer: zero, false and absent are one.
const ZEROES: [&str; 28] = [
    "active",
    "containerPort",
    "count",
    "exitCode",
    "failed",
    "failureThreshold",
    "generation",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "nodePort",
    "observedGeneration",
    "partition",
    "periodSeconds",
    "port",
    "readOnly",
    "ready",
    "restartCount",
    "stdin",
    "stdinOnce",
    "succeeded",
    "successThreshold",
    "timeoutSeconds",
    "tty",
    "healthCheckNodePort",
    "globalDefault",
];
/// Maps whose values are quantities.
const QUANTITY_MAPS: [&str; 12] = [
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
    "used",
];

/// Maps whose keys are the user's: a key with the empty text is there.
const TEXT_MAPS: [&str; 11] = [
    "annotations",
    "binaryData",
    "data",
    "labels",
    "matchLabels",
    "nodeSelector",
    "options",
    "parameters",
    "selector",
    "userAnnotations",
    "volumeAttributes",
];
/// Texts that Kubernetes keeps as pointers: the empty one is there.
const POINTER_TEXTS: [&str; 5] =
    ["hostnameOverride", "runtimeClassName", "storageClassName", "timeZone", "volumeAttributesClassName"];

/// Whether two values mean the same to Kubernetes. What can't be written as JSON equals nothing.
pub(crate) fn is_semantically_equal<T: Serialize + ?Sized>(left: &T, right: &T) -> bool {
    match (serde_json::to_value(left), serde_json::to_value(right)) {
        (Ok(left), Ok(right)) => normalized("", left) == normalized("", right),
        _ => false,
    }
}

/// The lines in which two values differ as JSON, with a few lines around them, as `diff -u` shows them.
pub(crate) fn difference<T: Serialize + ?Sized>(old: &T, new: &T) -> String {
    let text = |value: &T| {
        let value = serde_json::to_value(value).map(|value| normalized("", value).unwrap_or(Value::Null));
        value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_default()
    };
    crate::unified_diff::unified_diff(&text(old), &text(new))
}

/// The value without fields that mean nothing; `None` if it means nothing itself where it stands.
fn normalized(field: &str, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() && !POINTER_TEXTS.contains(&field) => None,
        Value::String(text) if matches!(field, "divisor" | "sizeLimit") => Some(quantity_text(text)),
        Value::Bool(false) if ZEROES.contains(&field) => None,
        Value::Number(number) if number.as_f64() == Some(0.0) && ZEROES.contains(&field) => None,
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => {
            // The place in a list counts, so nothing is left out of it.
            Some(Value::Array(list.into_iter().map(|item| normalized("", item).unwrap_or(Value::Null)).collect()))
        }
        Value::Object(map) if QUANTITY_MAPS.contains(&field) => {
            let quantities = map.into_iter().map(|(name, value)| match value {
                Value::String(text) => (name, quantity_text(text)),
                other => (name, other),
            });
            non_empty(field, quantities.collect())
        }
        Value::Object(map) if TEXT_MAPS.contains(&field) && map.values().all(Value::is_string) => non_empty(field, map),
        Value::Object(map) => {
            let fields = map.into_iter().filter_map(|(name, value)| Some((name.clone(), normalized(&name, value)?)));
            non_empty(field, fields.collect())
        }
        other => Some(other),
    }
}

fn non_empty(field: &str, map: Map<String, Value>) -> Option<Value> {
    let means_nothing = map.is_empty() && EMPTY_OBJECTS.contains(&field);
    (!means_nothing).then_some(Value::Object(map))
}

/// Quantities are compared as numbers: their number is written in one way.
fn quantity_text(text: String) -> Value {
    match quantity::parse(&text) {
        Ok(amount) => Value::String(amount.to_string()),
        Err(_) => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_empty_are_one_where_kubernetes_has_no_pointer() {
        let same = [
            (json!({"hostname": ""}), json!({})),
            (json!({"args": []}), json!({})),
            (json!({"labels": {}}), json!({})),
            (json!({"hostNetwork": false, "hostPort": 0}), json!({})),
            (json!({"resources": {"limits": {}}}), json!({})),
            (json!({"limits": {"cpu": "1000m"}}), json!({"limits": {"cpu": "1"}})),
            (json!({"sizeLimit": "1024Mi"}), json!({"sizeLimit": "1Gi"})),
        ];
        for (left, right) in same {
            assert!(is_semantically_equal(&left, &right), "{left} and {right}");
        }
    }

    #[test]
    fn all_else_counts() {
        let different = [
            (json!({"securityContext": {}}), json!({})),
            (json!({"suspend": false}), json!({})),
            (json!({"parallelism": 0}), json!({})),
            (json!({"labels": {"a": ""}}), json!({})),
            (json!({"nodeSelector": {"a": ""}}), json!({"nodeSelector": {"b": ""}})),
            (json!({"storageClassName": ""}), json!({})),
            (json!({"args": ["", "a"]}), json!({"args": ["a"]})),
            (json!({"limits": {"cpu": "1"}}), json!({"limits": {"cpu": "2"}})),
            (json!({"env": [{"name": "a"}, {"name": "b"}]}), json!({"env": [{"name": "b"}, {"name": "a"}]})),
        ];
        for (left, right) in different {
            assert!(!is_semantically_equal(&left, &right), "{left} and {right}");
        }
    }
}
