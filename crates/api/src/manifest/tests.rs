//! Manifests as people write them, right and wrong.

use super::*;

/// The one-line forms of what is wrong, with their hints.
fn wrong(text: &str) -> Vec<String> {
    let (_, diagnostics) = read("pod.yaml", text);
    diagnostics
        .iter()
        .map(|diagnostic| match &diagnostic.hint {
            Some(hint) => format!("{diagnostic} ({hint})"),
            None => diagnostic.to_string(),
        })
        .collect()
}

fn right(text: &str) -> Vec<Value> {
    let (objects, diagnostics) = read("pod.yaml", text);
    assert_eq!(diagnostics, []);
    objects.into_iter().map(|object| object.value).collect()
}

#[test]
fn documents_lists_and_json_give_objects() {
    let config = |name: &str| serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let several = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# nothing\n---\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}}\n";
    assert_eq!(right(several), [config("a"), config("b")]);
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n";
    assert_eq!(right(list), [config("a"), config("b")]);
    assert_eq!(
        right("{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}"),
        [config("a")]
    );
}

#[test]
fn anchors_aliases_and_merge_keys_are_unfolded() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: &m\n  name: a\n  labels: &l {x: \"1\"}\n  annotations: {<<: *l, z: \"2\"}\n";
    let objects = right(text);
    let annotations = objects.first().and_then(|object| object.pointer("/metadata/annotations").cloned());
    assert_eq!(annotations, Some(serde_json::json!({"z": "2", "x": "1"})));
}

#[test]
fn what_is_no_manifest_is_refused_with_place_and_hint() {
    let rows = [
        ("", "pod.yaml: there is no object in it (write a manifest that begins with `apiVersion:` and `kind:`)"),
        (
            "- a\n",
            "pod.yaml:1:1: expected an object, found a list (a manifest is a map that begins with `apiVersion:` and `kind:`)",
        ),
        (
            "kind: Pod\n",
            "pod.yaml:1:1: `apiVersion` is missing, or is no text (add `apiVersion: v1` for a Pod, `apiVersion: batch/v1` for a Job)",
        ),
        ("apiVersion: v1\nkind: Pood\n", "pod.yaml:2:7: unknown kind `Pood` in `v1` (did you mean `Pod`?)"),
        ("apiVersion: v1\nkind: Job\n", "pod.yaml:1:13: there is no kind `Job` in `v1` (write `apiVersion: batch/v1`)"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
            "pod.yaml:4:1: a tab is used for indentation, and YAML is indented with spaces only (replace the tab by spaces, as many as the lines around it have)",
        ),
        (
            "apiVersion: v1\nkind: Pod\nkind: Pod\n",
            "pod.yaml:3:1: key `kind` is written twice in one map, first in line 2 (remove one of the two: only one value can hold)",
        ),
    ];
    for (text, wanted) in rows {
        assert_eq!(wrong(text), [wanted], "{text}");
    }
}

#[test]
fn unknown_fields_are_errors_that_name_the_nearest_known_one() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    comand: [x]\n    env: [{name: A, valeu: b}]\n  zebra: 1\n";
    assert_eq!(
        wrong(text),
        [
            "pod.yaml:9:3: unknown field `spec.zebra`",
            "pod.yaml:7:5: unknown field `spec.containers[0].comand` (did you mean `command`?)",
            "pod.yaml:8:21: unknown field `spec.containers[0].env[0].valeu` (did you mean `value`?)",
        ]
    );
}

#[test]
fn a_wrong_type_is_shown_at_its_place() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    env: [{name: A, value: 1}]\n";
    assert_eq!(
        wrong(text),
        [
            "pod.yaml:7:28: expected a string, found a number (put it in quotes: YAML reads it as something else without them)"
        ]
    );
    let text = "apiVersion: v1\nkind: Pod\nspec: {terminationGracePeriodSeconds: soon, containers: []}\n";
    assert_eq!(wrong(text), ["pod.yaml:3:39: expected a number, found a string"]);
}

#[test]
fn a_bare_number_is_a_quantity_and_nothing_is_an_empty_object() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  volumes:\n  - name: v\n    emptyDir:\n  containers:\n  - name: a\n    resources: {limits: {cpu: 1, memory: 1e6}}\n";
    assert_eq!(right(text).len(), 1);
}

#[test]
fn a_field_is_found_by_the_path_of_the_api_server() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n";
    let (objects, _) = read("pod.yaml", text);
    let lines =
        |path: &str| objects.first().map(|object| (object.locate(path).start.line, object.locate(path).start.column));
    assert_eq!(lines("spec.containers[0].image"), Some((7, 12)));
    assert_eq!(lines("spec.containers[0].command[1]"), Some((6, 5)));
    assert_eq!(lines("spec.restartPolicy"), Some((4, 1)));
}

#[test]
fn aliases_that_multiply_are_bounded() {
    let mut text = String::from("apiVersion: v1\nkind: ConfigMap\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = level - 1;
        let many = vec![format!("*a{before}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{many}]\n"));
    }
    assert!(wrong(&text).iter().any(|text| text.contains("more than 1000000 values")), "{:?}", wrong(&text));
}

proptest::proptest! {
    #[test]
    fn reading_never_panics_and_places_lie_in_the_text(text in "[ \\t\\n:{}\\[\\],&*<!|>'\"#%a-z0-9-]{0,200}") {
        let text = format!("apiVersion: v1\nkind: Pod\n{text}");
        let (objects, diagnostics) = read("pod.yaml", &text);
        for diagnostic in &diagnostics {
            let end = diagnostic.span.map_or(0, |span| span.end.byte);
            proptest::prop_assert!(end <= text.len());
            diagnostic.render(&text, false);
        }
        for object in &objects {
            proptest::prop_assert!(object.node.span.end.byte <= text.len());
        }
    }
}
