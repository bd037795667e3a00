//! Patches as clients send them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Compares what a patch of a pod's spec gives.
fn check_spec(spec: Value, patch: Value, wanted: Value) {
    let (object, patch, wanted) = (json!({"spec": spec}), json!({"spec": patch}), json!({"spec": wanted}));
    assert_eq!(patched("Pod", &object, &patch), Ok(wanted), "{patch}");
}

fn patched(kind: &str, object: &Value, patch: &Value) -> Result<Value, String> {
    strategic_merge_patch("", kind, object, patch).map_err(|error| error.to_string())
}

/// The names of a list's elements in their order.
fn names(object: &Value, pointer: &str) -> Vec<String> {
    let list = object.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().map(|element| element["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_107_a_json_patch_is_applied_whole_or_not_at_all() -> Result<(), PatchError> {
    let object = json!({"metadata": {"labels": {"a": "1"}}, "list": [1, 2]});
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels/b~1c", "value": "2"},
        {"op": "remove", "path": "/metadata/labels/a"},
        {"op": "add", "path": "/list/-", "value": 3},
        {"op": "move", "from": "/list/0", "path": "/first"},
        {"op": "copy", "from": "/first", "path": "/second"},
        {"op": "replace", "path": "/list/0", "value": 20},
    ]);
    let wanted = json!({"metadata": {"labels": {"b/c": "2"}}, "list": [20, 3], "first": 1, "second": 1});
    assert_eq!(json_patch(&object, &patch)?, wanted);
    Ok(())
}

#[test]
fn a_107_a_json_patch_that_does_not_fit_is_refused() {
    let fault = |patch: Value| json_patch(&json!({"a": 1}), &patch).map_err(|error| error.fault());
    assert_eq!(fault(json!([{"op": "remove", "path": "/b"}])), Err(PatchFault::DoesNotFit));
    assert_eq!(fault(json!([{"op": "test", "path": "/a", "value": 2}])), Err(PatchFault::DoesNotFit));
    assert_eq!(fault(json!([{"op": "grow", "path": "/a"}])), Err(PatchFault::Malformed));
    assert_eq!(fault(json!({"a": 2})), Err(PatchFault::Malformed));
    let many = vec![json!({"op": "test", "path": "/a", "value": 1}); JSON_PATCH_OPERATIONS_MAX + 1];
    assert_eq!(fault(many.into()), Err(PatchFault::TooLarge));
}

#[test]
fn a_json_patch_whose_copies_double_is_bounded() {
    let operations = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 64];
    let fault = json_patch(&json!({"a": ["x"]}), &operations.into()).map_err(|error| error.fault());
    assert_eq!(fault, Err(PatchFault::TooLarge));
}

#[test]
fn a_108_a_merge_patch_is_laid_over_the_object() {
    let object =
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "list": [{"x": 1}, {"y": 2}], "gone": {"deep": 1}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}}, "list": [{"z": 3}], "gone": null, "new": {"n": null, "m": 1}});
    let wanted = json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "list": [{"z": 3}], "new": {"m": 1}});
    assert_eq!(merge_patch(&object, &patch).ok(), Some(wanted));
    assert_eq!(merge_patch(&object, &json!([])).map_err(|error| error.fault()), Err(PatchFault::Malformed));
}

#[test]
fn a_109_lists_are_merged_by_their_keys_or_replaced() {
    // `kubectl set image`.
    check_spec(
        json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]}),
        json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"image": "2", "name": "b"}]}),
        json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "2"}]}),
    );
    check_spec(
        json!({"containers": [{"name": "a", "args": ["x"], "ports": [{"containerPort": 80, "name": "http"}]}]}),
        json!({"containers": [{"name": "a", "args": ["y", "z"], "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]}]}),
        json!({"containers": [{"name": "a", "args": ["y", "z"],
            "ports": [{"containerPort": 80, "name": "http", "protocol": "UDP"}, {"containerPort": 81}]}]}),
    );
    check_spec(
        json!({"tolerations": [{"key": "a"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]}),
        json!({"tolerations": [{"key": "b"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]}),
        json!({"tolerations": [{"key": "b"}], "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}]}),
    );
    let account = json!({"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "a"}]});
    let patch = json!({"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "b"}]});
    let wanted = json!({"secrets": [{"name": "b"}, {"name": "a"}], "imagePullSecrets": [{"name": "b"}]});
    assert_eq!(patched("ServiceAccount", &account, &patch), Ok(wanted));
}

#[test]
fn a_109_every_kind_with_a_pod_template_merges_its_containers() -> Result<(), PatchError> {
    let template = |list: &Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
    let (old, change) = (json!([{"name": "a", "image": "1"}]), json!([{"name": "a", "tty": true}]));
    let wanted = json!([{"name": "a", "image": "1", "tty": true}]);
    for (group, kind) in
        [("batch", "Job"), ("apps", "Deployment"), ("apps", "StatefulSet"), ("", "ReplicationController")]
    {
        assert_eq!(
            strategic_merge_patch(group, kind, &template(&old), &template(&change))?,
            template(&wanted),
            "{kind}"
        );
    }
    let nested = |list: &Value| json!({"spec": {"jobTemplate": template(list)}});
    assert_eq!(strategic_merge_patch("batch", "CronJob", &nested(&old), &nested(&change))?, nested(&wanted));
    Ok(())
}

#[test]
fn a_109_conditions_are_merged_by_type() {
    let pod = json!({"status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]}});
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}});
    let wanted = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}});
    assert_eq!(patched("Pod", &pod, &patch), Ok(wanted));
}

#[test]
fn a_110_directives_delete_and_replace() {
    check_spec(
        json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "c", "tty": null}], "nodeSelector": {"$patch": "delete"}}),
        json!({"containers": [{"name": "c"}, {"name": "b"}], "nodeSelector": {}}),
    );
    check_spec(
        json!({"containers": [{"name": "a"}, {"name": "b"}], "nodeSelector": {"x": "1"}}),
        json!({"containers": [{"name": "c"}, {"$patch": "replace"}], "nodeSelector": {"$patch": "replace", "y": "2"}}),
        json!({"containers": [{"name": "c"}], "nodeSelector": {"y": "2"}}),
    );
    // A directive to delete what is not there leaves nothing behind.
    check_spec(
        json!({}),
        json!({"containers": [{"name": "a", "$patch": "delete"}], "affinity": {"$patch": "delete"}, "dnsPolicy": null}),
        json!({"containers": []}),
    );
}

#[test]
fn a_110_the_order_of_elements_is_that_of_the_patch_and_then_that_of_the_object() {
    let object =
        json!({"spec": {"containers": [{"name": "a"}, {"name": "server-1"}, {"name": "b"}, {"name": "server-2"}]}});
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new"}],
    }});
    let patched = patched("Pod", &object, &patch).unwrap_or_default();
    assert_eq!(names(&patched, "/spec/containers"), ["server-1", "b", "new", "a", "server-2"]);
    let wrong = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "new"}]}});
    let fault = strategic_merge_patch("", "Pod", &object, &wrong).map_err(|error| error.fault());
    assert_eq!(fault, Err(PatchFault::Malformed));
}

#[test]
fn a_110_retained_keys_drop_the_others() {
    check_spec(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
    );
    let deployment = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = strategic_merge_patch("apps", "Deployment", &deployment, &patch);
    assert_eq!(patched.ok(), Some(json!({"spec": {"strategy": {"type": "Recreate"}}})));
    let wrong = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    let fault = strategic_merge_patch("apps", "Deployment", &deployment, &wrong).map_err(|error| error.fault());
    assert_eq!(fault, Err(PatchFault::Malformed));
}

#[test]
fn a_111_a_controller_lets_go_of_a_pod() {
    let pod = json!({"metadata": {"uid": "p", "finalizers": ["batch.kubernetes.io/job-tracking", "mine"],
        "ownerReferences": [{"uid": "j", "kind": "Job"}, {"uid": "o", "kind": "Other"}]}});
    let patch = json!({"metadata": {"uid": "p", "ownerReferences": [{"$patch": "delete", "uid": "j"}],
        "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"]}});
    let wanted =
        json!({"metadata": {"uid": "p", "finalizers": ["mine"], "ownerReferences": [{"uid": "o", "kind": "Other"}]}});
    assert_eq!(patched("Pod", &pod, &patch), Ok(wanted));
}

#[test]
fn a_109_finalizers_are_merged_as_a_set() {
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let wanted = json!({"metadata": {"finalizers": ["c", "a", "b"]}});
    assert_eq!(patched("ConfigMap", &object, &json!({"metadata": {"finalizers": ["c", "b"]}})), Ok(wanted));
}

#[test]
fn a_selector_of_a_budget_is_replaced_whole() {
    let budget = json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "minAvailable": 1}});
    let patch = json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}});
    let patched = strategic_merge_patch("policy", "PodDisruptionBudget", &budget, &patch);
    assert_eq!(patched.ok(), Some(json!({"spec": {"selector": {"matchLabels": {"b": "2"}}, "minAvailable": 1}})));
}

#[test]
fn elements_without_their_key_are_refused() {
    let object = json!({"spec": {"containers": [{"name": "a"}]}});
    let error = patched("Pod", &object, &json!({"spec": {"containers": [{"image": "b"}]}}));
    assert_eq!(error, Err("map: {\"image\":\"b\"} does not contain declared merge key: name".to_owned()));
    let error = patched("Pod", &object, &json!({"spec": {"containers": ["a"]}}));
    assert_eq!(error, Err("list element types are not identical: \"a\"".to_owned()));
    let error = patched("Pod", &object, &json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}));
    assert_eq!(error, Err("unknown patch type: \"merge\" in map: {\"name\":\"a\",\"$patch\":\"merge\"}".to_owned()));
}

const WORDS: &str = "(name|containers|spec|metadata|x)";
const WORDS_AND_DIRECTIVES: &str = "(name|containers|spec|metadata|finalizers|\\$patch|\\$retainKeys|\\$setElementOrder/containers|\\$deleteFromPrimitiveList/finalizers|x)";

/// An object whose fields have these names.
fn an_object(words: &'static str) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        "(a|b|delete|replace)".prop_map(Value::from),
    ];
    let fields = move |inner: BoxedStrategy<Value>| proptest::collection::btree_map(words, inner, 0..5);
    let object = |fields: std::collections::BTreeMap<_, _>| Value::Object(fields.into_iter().collect());
    let value = leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            fields(inner).prop_map(object),
        ]
    });
    fields(value.boxed()).prop_map(object)
}

proptest! {
    #[test]
    fn patching_never_panics_and_stores_no_directive(object in an_object(WORDS), patch in an_object(WORDS_AND_DIRECTIVES)) {
        if let Ok(patched) = strategic_merge_patch("", "Pod", &object, &patch) {
            prop_assert!(!patched.to_string().contains('$'), "{}", patched);
        }
        drop(merge_patch(&object, &patch));
        drop(json_patch(&object, &patch));
    }

    #[test]
    fn a_merge_patch_laid_over_twice_changes_nothing_more(object in an_object(WORDS), patch in an_object(WORDS)) {
        let once = merge_patch(&object, &patch).unwrap_or_default();
        prop_assert_eq!(merge_patch(&once, &patch).ok(), Some(once));
    }

    #[test]
    fn without_directives_and_keyed_lists_both_merges_are_alike(object in an_object(WORDS), patch in an_object(WORDS)) {
        // They differ in nulls inside of lists, which one keeps and the other drops.
        let without_nulls = |value: Value| super::strategic::plain(value).unwrap_or_default();
        let merged = merge_patch(&object, &patch).unwrap_or_default();
        let strategic = strategic_merge_patch("", "ConfigMap", &object, &patch).unwrap_or_default();
        prop_assert_eq!(without_nulls(strategic), without_nulls(merged));
    }
}
