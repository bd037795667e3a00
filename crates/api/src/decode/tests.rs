//! JSON as clients send it, right and wrong.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use super::*;

fn wrong(value: Value) -> Vec<String> {
    let shown = |field: UnfitField| match field.hint {
        Some(hint) => format!("{}: {} ({hint})", field.path, field.message),
        None => format!("{}: {}", field.path, field.message),
    };
    match decode::<Pod>(&value) {
        Ok(decoded) => decoded.unknown.into_iter().map(shown).collect(),
        Err(unfit) => unfit.into_iter().map(shown).collect(),
    }
}

#[test]
fn a_147_unknown_fields_are_found_with_the_nearest_known_name() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "lables": {}}, "spec": {
        "containers": [{"name": "c", "imag": "x", "Command": [], "restartpolicy": "", "terminationGracePeriodSeconds": 1, "zebra": 1}],
        "template": {}, "status": {},
    }});
    assert_eq!(
        wrong(pod),
        [
            "metadata.lables: unknown field `metadata.lables` (did you mean `labels`?)",
            "spec.template: unknown field `spec.template`",
            "spec.status: unknown field `spec.status` (`status` is a field of the object itself: indent it less)",
            "spec.containers[0].imag: unknown field `spec.containers[0].imag` (did you mean `image`?)",
            "spec.containers[0].Command: unknown field `spec.containers[0].Command` (write `command`: names of fields are case-sensitive)",
            "spec.containers[0].restartpolicy: unknown field `spec.containers[0].restartpolicy` (write `restartPolicy`: names of fields are case-sensitive)",
            "spec.containers[0].terminationGracePeriodSeconds: unknown field `spec.containers[0].terminationGracePeriodSeconds` (`terminationGracePeriodSeconds` is a field of `spec`: indent it less)",
            "spec.containers[0].zebra: unknown field `spec.containers[0].zebra`",
        ]
    );
}

#[test]
fn every_value_of_a_wrong_type_is_found_in_one_pass() {
    let pod = json!({"spec": {
        "terminationGracePeriodSeconds": "30", "hostNetwork": "true", "nodeSelector": {"disk": 1}, "priority": 3_000_000_000i64,
        "containers": [{"name": 1, "args": "sleep", "ports": [{"containerPort": 80.5}], "env": {"A": "b"}, "securityContext": []}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "lots"}}, {"name": "w", "emptyDir": {"sizeLimit": true}}],
    }});
    assert_eq!(
        wrong(pod),
        [
            "spec.terminationGracePeriodSeconds: expected a number, found a string (write it without quotes, and without a unit)",
            "spec.hostNetwork: expected a boolean, found a string (write it without quotes, and without a unit)",
            "spec.nodeSelector[disk]: expected a string, found a number (put it in quotes: without them YAML reads it as something else)",
            "spec.priority: 3000000000 is out of range: it must be between -2147483648 and 2147483647",
            "spec.containers[0].name: expected a string, found a number (put it in quotes: without them YAML reads it as something else)",
            "spec.containers[0].args: expected a list, found a string (put `- ` before each element)",
            "spec.containers[0].ports[0].containerPort: expected a whole number, found 80.5",
            "spec.containers[0].env: expected a list, found an object (put `- ` before each element)",
            "spec.containers[0].securityContext: expected an object, found a list (remove the `- `: one object is due here, not a list)",
            "spec.volumes[0].emptyDir.sizeLimit: `lots` is no quantity: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' (write a number with or without a suffix, as in `500m`, `2`, `128Mi`, `1Gi`)",
            "spec.volumes[1].emptyDir.sizeLimit: expected a quantity, found a boolean",
        ]
    );
}

#[test]
fn a_9_null_is_nothing_and_a_number_is_a_quantity() -> Result<(), Vec<UnfitField>> {
    let given = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": null, "labels": {"a": null}}, "spec": {
        "containers": [{"name": "c", "args": [null], "resources": {"limits": {"cpu": 1, "memory": 0.5}}, "securityContext": null}],
        "volumes": [{"name": "v", "emptyDir": null}], "tolerations": null,
    }});
    let wanted = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": ""}}, "spec": {
        "containers": [{"name": "c", "args": [""], "resources": {"limits": {"cpu": "1", "memory": "0.5"}}}],
        "volumes": [{"name": "v"}],
    }});
    let decoded = decode::<Pod>(&given)?;
    assert_eq!((serde_json::to_value(decoded.object).ok(), decoded.unknown), (Some(wanted), Vec::new()));
    Ok(())
}

#[test]
fn what_a_type_refuses_itself_is_told_with_its_place() {
    let job = decode::<Job>(&json!({"status": {"startTime": "yesterday"}}))
        .map_err(|unfit| unfit.first().map(|unfit| unfit.path.to_string()));
    assert_eq!(job, Err(Some("status.startTime".to_owned())));
    let map = decode::<ConfigMap>(&json!({"binaryData": {"a": "%"}}))
        .map_err(|unfit| unfit.first().map(|unfit| unfit.path.to_string()));
    assert_eq!(map, Err(Some("binaryData[a]".to_owned())));
    let pod = decode::<Pod>(&json!([])).map_err(|unfit| unfit.first().map(ToString::to_string));
    assert_eq!(pod, Err(Some(": expected an object, found a list".to_owned())));
}
