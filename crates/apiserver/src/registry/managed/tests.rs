//! Ownership, step by step.

use serde_json::json;

use super::*;

fn write<'a>(manager: &'a str) -> Write<'a> {
    let resource = ResourceType::find("", "v1", "pods").expect("pods are served");
    Write { resource, part: Part::Main, manager, time: "2026-01-01T00:00:00Z" }
}

fn pod(image: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": label}},
        "spec": {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80}]}]}})
}

fn fields_of(object: &Value, manager: &str) -> Value {
    let list = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let entry = list.into_iter().flatten().find(|entry| entry.get("manager") == Some(&json!(manager)));
    entry.and_then(|entry| entry.get("fieldsV1")).cloned().unwrap_or_default()
}

#[test]
fn a_116_what_an_update_sets_is_its_managers() {
    let mut created = pod("x", "1");
    record(write("one"), None, &mut created);
    let container = json!({".": {}, "f:image": {}, "f:name": {},
        "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}});
    let expected = json!({"f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": container}}});
    assert_eq!(fields_of(&created, "one"), expected);
    let mut changed = created.clone();
    value::set(&mut changed, &["metadata", "labels", "a"], json!("2"));
    record(write("two"), Some(&created), &mut changed);
    assert_eq!(fields_of(&changed, "two"), json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
    assert_eq!(fields_of(&changed, "one").get("f:metadata"), None);
}

#[test]
fn a_101_an_update_that_changes_nothing_leaves_the_entries() {
    let mut created = pod("x", "1");
    record(write("one"), None, &mut created);
    let mut same = created.clone();
    record(Write { time: "2027-01-01T00:00:00Z", ..write("one") }, Some(&created), &mut same);
    assert_eq!(same, created);
}

#[test]
fn a_117_an_empty_entry_clears_the_list() {
    let mut created = pod("x", "1");
    record(write("one"), None, &mut created);
    let mut cleared = created.clone();
    value::set(&mut cleared, &["metadata", "managedFields"], json!([{}]));
    record(write("one"), Some(&created), &mut cleared);
    assert_eq!(cleared, pod("x", "1"));
}

#[test]
fn a_121_a_field_of_another_value_conflicts_unless_forced() {
    let mut live = pod("x", "1");
    record(write("one"), None, &mut live);
    let applied = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "y"}]}});
    let refused = apply(write("two"), false, &live, &applied).map_err(|error| error.to_string());
    let message = "Apply failed with 1 conflict: conflict with \"one\" using v1: .spec.containers[name=\"c\"].image";
    assert_eq!(refused, Err(message.to_owned()));
    let forced = apply(write("two"), true, &live, &applied).unwrap_or_default();
    assert_eq!(forced.pointer("/spec/containers/0/image"), Some(&json!("y")));
    let owned = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}});
    assert_eq!(fields_of(&forced, "two"), owned);
    let lost = fields_of(&forced, "one");
    assert_eq!(lost.pointer("/f:spec/f:containers/k:{\"name\":\"c\"}/f:image"), None);
}

#[test]
fn a_118_an_equal_value_is_shared() {
    let mut live = pod("x", "1");
    record(write("one"), None, &mut live);
    let shared = apply(write("two"), false, &live, &pod("x", "1")).unwrap_or_default();
    assert_eq!(fields_of(&shared, "one"), fields_of(&live, "one"));
    assert_eq!(fields_of(&shared, "two"), fields_of(&live, "one"));
}

#[test]
fn a_115_what_is_applied_no_more_goes_unless_somebody_else_owns_it() {
    let applied = apply_new(write("one"), &pod("x", "1"));
    let less = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let pruned = apply(write("one"), false, &applied, &less).unwrap_or_default();
    assert_eq!(pruned.pointer("/metadata/labels"), None);
    assert_eq!(pruned.pointer("/spec/containers/0/ports"), None);
    let shared = apply(write("two"), false, &applied, &pod("x", "1")).unwrap_or_default();
    let kept = apply(write("one"), false, &shared, &less).unwrap_or_default();
    assert_eq!(kept.pointer("/metadata/labels/a"), Some(&json!("1")));
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let applied = apply_new(write("one"), &pod("x", "1"));
    let later = Write { time: "2027-01-01T00:00:00Z", ..write("one") };
    assert_eq!(apply(later, false, &applied, &pod("x", "1")), Ok(applied));
}
