//! Manifests as people write them, right and wrong.

use serde_json::json;

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

fn objects(text: &str) -> Vec<ManifestObject> {
    let (objects, diagnostics) = read("pod.yaml", text);
    assert_eq!(diagnostics, []);
    objects
}

fn values(text: &str) -> Vec<Value> {
    objects(text).into_iter().map(|object| object.value).collect()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The value under `spec` of a custom resource, or what is wrong with it.
fn spec(text: &str) -> Result<Value, Vec<String>> {
    let text = format!("apiVersion: example.com/v1\nkind: Thing\n{text}");
    let (objects, diagnostics) = read("thing.yaml", &text);
    if !diagnostics.is_empty() {
        return Err(diagnostics.iter().map(ToString::to_string).collect());
    }
    Ok(objects.first().and_then(|object| object.value.get("spec").cloned()).unwrap_or_default())
}

#[test]
fn documents_lists_and_json_give_objects() {
    let several = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n# nothing\n---\n{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}}\n...\n---\n";
    assert_eq!(values(several), [config_map("a"), config_map("b")]);
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- apiVersion: v1\n  kind: List\n  items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}]\n";
    assert_eq!(values(list), [config_map("a"), config_map("b")]);
    let json = "{\n\t\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\t\"metadata\": {\"name\": \"a\"}\n}";
    assert_eq!(values(json), [config_map("a")]);
    let windows = "\u{feff}apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: a\r\n";
    assert_eq!(values(windows), [config_map("a")]);
    let directive = "%YAML 1.1\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    assert_eq!(values(directive), [config_map("a")]);
}

#[test]
fn items_of_a_typed_list_need_not_say_what_they_are() {
    let list = "apiVersion: v1\nkind: ConfigMapList\nmetadata: {}\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n";
    let same = |one: &Value, name: &str| {
        one.pointer("/metadata/name") == Some(&name.into()) && one.get("kind") == Some(&"ConfigMap".into())
    };
    let read = values(list);
    assert!(read.len() == 2 && read.iter().zip(["a", "b"]).all(|(one, name)| same(one, name)), "{read:?}");
}

#[test]
fn strings_of_json_have_all_its_escapes() {
    let text =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"\ud83d\ude00 \/ \u00e9\b"}}"#;
    let data = values(text).first().and_then(|value| value.pointer("/data/x").cloned());
    assert_eq!(data, Some("\u{1f600} / \u{e9}\u{8}".into()));
}

#[test]
fn anchors_aliases_merge_keys_and_keys_are_read_as_kubectl_reads_them() {
    // Each of these is what `kubectl annotate --local` of version 1.32 answered.
    let rows = [
        ("a: &a {y: 1, z: 3}\nspec: {y: 2, <<: *a}\n", json!({"true": 1, "z": 3})),
        ("a: &a {y: 1, z: 3}\nspec: {<<: *a, y: 2}\n", json!({"true": 2, "z": 3})),
        ("a: &a {y: 1}\nb: &b {y: 5, w: 6}\nspec: {<<: [*a, *b]}\n", json!({"true": 1, "w": 6})),
        ("spec: {\"<<\": {a: 1}}\n", json!({"<<": {"a": 1}})),
        ("a: &x [1, 2]\nspec: *x\n", json!([1, 2])),
        ("spec: {1: a, 010: b, 2001-01-01: c, no: d}\n", json!({"1": "a", "8": "b", "2001-01-01": "c", "false": "d"})),
        ("spec: |\n  a\n   b\n\n", json!("a\n b\n")),
        ("spec: >-\n  a\n  b\n\n  c\n", json!("a b\nc")),
        ("spec:\n- a\n-\n- [b,]\n- {c, d: }\n", json!(["a", null, ["b"], {"c": null, "d": null}])),
        ("spec: 'it''s'\n", json!("it's")),
        ("spec:\ta\n", json!("a")),
        ("spec: [a,\n\tb]\n", json!(["a", "b"])),
        ("spec: \"a\n  b\"\n", json!("a b")),
        ("spec: a #b\n", json!("a")),
        ("spec: a#b\n", json!("a#b")),
        ("spec: [a: b, c]\n", json!([{"a": "b"}, "c"])),
    ];
    for (text, wanted) in rows {
        assert_eq!(spec(text), Ok(wanted), "{text}");
    }
}

#[test]
fn what_kubectl_refuses_is_refused() {
    let rows = [
        ("spec: {null: 1}\n", "thing.yaml:3:8: the key of an entry must be a text, found nothing"),
        ("spec: {? [a, b] : 1}\n", "thing.yaml:3:10: the key of an entry must be a text, found a list"),
        ("spec: {<<: 3}\n", "thing.yaml:3:12: a merge key needs a map or a list of maps, found a number"),
        ("spec: &x [*x]\n", "thing.yaml:3:11: an alias of a value that it is part of"),
    ];
    for (text, wanted) in rows {
        assert_eq!(spec(text), Err(vec![wanted.to_owned()]), "{text}");
    }
    for text in [
        "spec: *x\n",
        "spec: `a\n",
        "spec: %a\n",
        "spec: |\n\ta\n",
        "spec: a\n w: b\n",
        "spec: a: b\n",
        "spec: {a: b\n",
        "  spec: 1\n",
        "spec: - 1\n",
    ] {
        assert!(spec(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_no_manifest_is_refused_with_place_and_hint() {
    let rows = [
        ("", "pod.yaml: there is no object in it (write a manifest that begins with `apiVersion:` and `kind:`)"),
        (
            "# only\n--- # this\n",
            "pod.yaml: there is no object in it (write a manifest that begins with `apiVersion:` and `kind:`)",
        ),
        (
            "- a\n",
            "pod.yaml:1:1: expected an object, found a list (a manifest is a map that begins with `apiVersion:` and `kind:`)",
        ),
        (
            "kind: Pod\n",
            "pod.yaml:1:1: `apiVersion` is missing, or is no text (add `apiVersion: v1` for a Pod, `apiVersion: batch/v1` for a Job)",
        ),
        ("apiVersion: v1\n", "pod.yaml:1:1: `kind` is missing, or is no text (add `kind: Pod` or `kind: Job`)"),
        (
            "apiVersion: 1\nkind: Pod\n",
            "pod.yaml:1:13: `apiVersion` is missing, or is no text (add `apiVersion: v1` for a Pod, `apiVersion: batch/v1` for a Job)",
        ),
        ("apiVersion: v1\nkind: Pood\n", "pod.yaml:2:7: unknown kind `Pood` in `v1` (did you mean `Pod`?)"),
        (
            "apiVersion: v1\nkind: Zebra\n",
            "pod.yaml:2:7: unknown kind `Zebra` in `v1` (the kinds that run are Pod, Job and CronJob, with the ConfigMaps and Secrets that they use)",
        ),
        ("apiVersion: v1\nkind: Job\n", "pod.yaml:1:13: there is no kind `Job` in `v1` (write `apiVersion: batch/v1`)"),
        (
            "apiVersion: batch/v1beta1\nkind: CronJob\n",
            "pod.yaml:1:13: there is no kind `CronJob` in `batch/v1beta1` (write `apiVersion: batch/v1`)",
        ),
        (
            "apiVersion: extensions/v1beta1\nkind: Deployment\n",
            "pod.yaml:1:13: there is no kind `Deployment` in `extensions/v1beta1` (write `apiVersion: apps/v1`)",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n",
            "pod.yaml:4:1: a tab is used for indentation, and YAML is indented with spaces only (replace the tab by spaces, as many as the lines around it have)",
        ),
        (
            "apiVersion: v1\nkind: Pod\nkind: Pod\n",
            "pod.yaml:3:1: key `kind` is written twice in one map (remove one of the two: only one value can hold)",
        ),
        (
            "apiVersion: v1\nkind: Pod\nspec: {hostNetwork: .inf}\n",
            "pod.yaml:3:21: `.inf` is a number that JSON has no word for (put it in quotes and remove its tag, if it is a text)",
        ),
    ];
    for (text, wanted) in rows {
        assert_eq!(wrong(text), [wanted], "{text}");
    }
}

#[test]
fn kinds_of_others_are_taken_as_they_are() {
    let kinds = [
        "serving.knative.dev/v1 Service",
        "argoproj.io/v1alpha1 Workflow",
        "storage.k8s.io/v1 StorageClass",
        "autoscaling/v2 HorizontalPodAutoscaler",
    ];
    for (api_version, kind) in kinds.iter().filter_map(|kind| kind.split_once(' ')) {
        let read = objects(&format!("apiVersion: {api_version}\nkind: {kind}\nanything: 1\n"));
        assert_eq!(
            read.iter().map(|object| (object.kind.as_str(), object.is_known)).collect::<Vec<_>>(),
            [(kind, false)]
        );
    }
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a\n---\napiVersion: v1\nkind: Pod\nspec: {containers: 3}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let (objects, diagnostics) = read("pod.yaml", text);
    assert_eq!(objects.iter().map(ManifestObject::name).collect::<Vec<_>>(), ["c"]);
    let lines: Vec<_> = diagnostics.iter().map(|diagnostic| diagnostic.span.map(|span| span.start.line)).collect();
    assert_eq!(lines, [Some(3), Some(7)]);
}

#[test]
fn everything_that_does_not_fit_is_told_in_the_order_of_the_text() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    comand: [x]\n    env: [{name: A, valeu: b}, {name: B, value: 1}]\n  zebra: 1\n  terminationGracePeriodSeconds: soon\n  volumes:\n    name: v\n";
    assert_eq!(
        wrong(text),
        [
            "pod.yaml:7:5: unknown field `spec.containers[0].comand` (did you mean `command`?)",
            "pod.yaml:8:21: unknown field `spec.containers[0].env[0].valeu` (did you mean `value`?)",
            "pod.yaml:8:49: expected a string, found a number (put it in quotes: without them YAML reads it as something else)",
            "pod.yaml:9:3: unknown field `spec.zebra`",
            "pod.yaml:10:34: expected a number, found a string (write it without quotes, and without a unit)",
            "pod.yaml:12:5: expected a list, found an object (put `- ` before each element)",
        ]
    );
}

#[test]
fn a_bare_number_is_a_quantity_and_nothing_is_an_empty_object() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  volumes:\n  - name: v\n    emptyDir:\n  containers:\n  - name: a\n    resources: {limits: {cpu: 1, memory: 1e6}}\n";
    assert_eq!(objects(text).len(), 1);
}

#[test]
fn a_field_is_found_by_the_path_of_the_api_server() {
    let text =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b\n    tty:\n";
    let read = objects(text);
    let Some(object) = read.first() else { return assert!(!read.is_empty()) };
    let place = |path: &str| (object.locate(path).start.line, object.locate(path).start.column);
    assert_eq!(place("spec.containers[0].image"), (7, 12));
    assert_eq!(place("spec.containers[0].command[1]"), (6, 5));
    assert_eq!(place("spec.containers"), (5, 3));
    assert_eq!(place("spec.containers[0].tty"), (8, 5));
    assert_eq!(place("spec.restartPolicy"), (4, 1));
    assert_eq!(place(""), (1, 1));
    assert_eq!(object.find("spec.containers[0].image").and_then(Node::text), Some("b"));
    assert_eq!(object.find("spec.containers[0].command"), None);
}

#[test]
fn byte_ranges_cover_what_an_edit_must_replace() {
    let text = "apiVersion: example.com/v1\nkind: Thing\na: plain  # right\nb: \"dou\\\"ble\"\nc: &x !!str 'single'\nd: |- # header\n  literal\n\n  more\n\n# own line\ne:\n  - {f: [1, 2]}\n  - é: ~\nf: *x\ng:\nh: >\n  folded\n";
    let read = objects(text);
    let Some(object) = read.first() else { return assert!(!read.is_empty()) };
    let slice = |path: &str| {
        let node = object.find(path);
        node.map(|node| (node.style, text.get(node.span.start.byte..node.span.end.byte).unwrap_or_default()))
    };
    let rows = [
        ("a", Style::Plain, "plain"),
        ("b", Style::DoubleQuoted, "\"dou\\\"ble\""),
        ("c", Style::SingleQuoted, "'single'"),
        ("d", Style::Literal, "|- # header\n  literal\n\n  more"),
        ("e", Style::Block, "- {f: [1, 2]}\n  - é: ~"),
        ("e[0]", Style::Flow, "{f: [1, 2]}"),
        ("e[0].f", Style::Flow, "[1, 2]"),
        ("e[1]", Style::Block, "é: ~"),
        ("f", Style::Alias, "*x"),
        ("g", Style::Plain, ""),
        ("h", Style::Folded, ">\n  folded"),
    ];
    for (path, style, wanted) in rows {
        assert_eq!(slice(path), Some((style, wanted)), "{path}");
    }
    let end = object
        .find("d")
        .map(|node| (node.span.start.line, node.span.start.column, node.span.end.line, node.span.end.column));
    assert_eq!(end, Some((6, 4, 9, 7)));
    let comments: Vec<_> =
        object.comments.iter().map(|comment| (comment.text.as_str(), comment.place, comment.span.start.line)).collect();
    assert_eq!(
        comments,
        [
            (" right", CommentPlace::Right, 3),
            (" header", CommentPlace::Right, 6),
            (" own line", CommentPlace::OwnLine, 11)
        ]
    );
}

#[test]
fn comments_go_with_their_documents_and_may_be_many() {
    let header = "# line\n".repeat(300);
    let text = format!(
        "{header}apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n---\n# second\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}} # b\n"
    );
    let counts: Vec<_> = objects(&text).iter().map(|object| object.comments.len()).collect();
    assert_eq!(counts, [300, 2]);
}

#[test]
fn a_diagnostic_is_shown_with_the_line_its_notes_and_its_hint() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  key: one\n  key: two\n";
    let (_, diagnostics) = read("map.yaml", text);
    let shown = diagnostics.first().map(|diagnostic| diagnostic.render(text, false)).unwrap_or_default();
    let wanted = "error: key `key` is written twice in one map
 --> map.yaml:6:3
  |
5 |   key: one
  |   --- the first one is here
6 |   key: two
  |   ^^^
  |
  = hint: remove one of the two: only one value can hold";
    assert_eq!(shown, wanted);
    let coloured = diagnostics.first().map(|diagnostic| diagnostic.render(text, true)).unwrap_or_default();
    assert!(coloured.contains("\u{1b}["), "{coloured:?}");
}

#[test]
fn hostile_texts_are_bounded() {
    let mut laughs = String::from("apiVersion: v1\nkind: ConfigMap\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let many = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{many}]\n"));
    }
    assert!(wrong(&laughs).iter().any(|text| text.contains("more than 1000000 values")), "{:?}", wrong(&laughs));
    let nested: String = (0..90).map(|level| format!("&a{level} [")).collect();
    let nested = format!("apiVersion: v1\nkind: ConfigMap\na: {nested}{}{}\n", "x,".repeat(20_000), "]".repeat(90));
    assert!(wrong(&nested).iter().any(|text| text.contains("anchors of a document")), "{:?}", wrong(&nested));
    let deep = format!("apiVersion: v1\nkind: ConfigMap\na: {}\n", "[".repeat(100) + &"]".repeat(100));
    assert!(wrong(&deep).iter().any(|text| text.contains("nested deeper than 100")), "{:?}", wrong(&deep));
    let mut chain = String::from("apiVersion: v1\nkind: ConfigMap\na0: &a0 [x]\n");
    for level in 1..200 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(wrong(&chain).iter().any(|text| text.contains("nested deeper than 100")), "{:?}", wrong(&chain));
    let keys: String = (0..50_000).map(|key| format!("  k{key}: v\n")).collect();
    assert_eq!(objects(&format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{keys}")).len(), 1);
}

/// Every place of a tree lies in the text, and begins before it ends.
fn places_lie_in(node: &Node, text: &str) -> bool {
    let is_good = |span: Span| span.start.byte <= span.end.byte && text.get(span.start.byte..span.end.byte).is_some();
    is_good(node.span)
        && node.entries().iter().all(|entry| is_good(entry.key_span) && places_lie_in(&entry.value, text))
        && node.elements().iter().all(|element| places_lie_in(element, text))
}

proptest::proptest! {
    #[test]
    fn reading_never_panics_and_places_lie_in_the_text(
        head in "(apiVersion: v1\\nkind: Pod\\n|apiVersion: e.com/v1\\nkind: X\\n|)",
        text in "[ \\t\\n:{}\\[\\],&*<!|>'\"#%a-zé0-9-]{0,200}",
    ) {
        let text = format!("{head}{text}");
        let (objects, diagnostics) = read("pod.yaml", &text);
        for diagnostic in &diagnostics {
            let range = diagnostic.span.map_or(0..0, |span| span.start.byte..span.end.byte);
            proptest::prop_assert!(range.start <= range.end && range.end <= text.len(), "{diagnostic:?}");
            diagnostic.render(&text, false);
        }
        for object in &objects {
            proptest::prop_assert!(places_lie_in(&object.node, &text), "{:?}", object.node);
        }
    }

    #[test]
    fn json_is_read_as_json_reads_it(value in json_value()) {
        let text = serde_json::to_string(&json!({"apiVersion": "e.com/v1", "kind": "X", "v": value})).unwrap_or_default();
        let (objects, diagnostics) = read("x.json", &text);
        proptest::prop_assert_eq!(diagnostics, []);
        proptest::prop_assert_eq!(objects.first().and_then(|object| object.value.get("v").cloned()), Some(value));
    }
}

/// Values whose keys are not those that mean something to YAML.
fn json_value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
