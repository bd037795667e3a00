//! What admission adds to pods: account and token, tolerations, priority (A-155, A-196, A-197).

use api::admission::{
    PriorityRefusal, ServiceAccountRefusal, add_default_tolerations, name_service_account, set_priority,
    set_service_account,
};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn read<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value)
}

/// The pod's spec as JSON.
fn spec(pod: &Pod) -> serde_json::Result<Value> {
    field(pod, "/spec")
}

fn field<T: Serialize>(object: &T, pointer: &str) -> serde_json::Result<Value> {
    Ok(serde_json::to_value(object)?.pointer(pointer).cloned().unwrap_or_default())
}

fn pod(spec: Value) -> serde_json::Result<Pod> {
    read(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}))
}

fn account(more: Value) -> serde_json::Result<ServiceAccount> {
    let mut account = json!({"metadata": {"name": "default", "namespace": "n"}});
    if let (Some(account), Value::Object(more)) = (account.as_object_mut(), more) {
        account.extend(more);
    }
    read(account)
}

#[test]
fn a_196_a_pod_gets_its_account_and_that_accounts_token_and_pull_secrets() -> Outcome {
    let mut pod = pod(json!({
        "initContainers": [{"name": "b", "image": "i"}],
        "containers": [
            {"name": "a", "image": "i"},
            {"name": "c", "image": "i", "volumeMounts": [
                {"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }))?;
    assert_eq!(name_service_account(&pod), "default");
    set_service_account(&mut pod, Some(&account(json!({"imagePullSecrets": [{"name": "s"}]}))?), "abcde")?;
    let mount = json!([{"name": "kube-api-access-abcde", "readOnly": true,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let wanted = json!({
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "imagePullSecrets": [{"name": "s"}],
        "initContainers": [{"name": "b", "image": "i", "volumeMounts": mount}],
        "containers": [
            {"name": "a", "image": "i", "volumeMounts": mount},
            {"name": "c", "image": "i", "volumeMounts": [
                {"name": "v", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]},
        ],
        "volumes": [
            {"name": "v", "emptyDir": {}},
            {"name": "kube-api-access-abcde", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ]}},
        ],
    });
    assert_eq!(spec(&pod)?, wanted);
    Ok(())
}

#[test]
fn a_196_a_token_is_mounted_unless_pod_or_account_say_no() -> Outcome {
    let rows = [
        (Value::Null, Value::Null, true),
        (json!(false), Value::Null, false),
        (Value::Null, json!(false), false),
        (json!(true), json!(false), true),
    ];
    for (of_pod, of_account, is_mounted) in rows {
        let mut pod =
            pod(json!({"automountServiceAccountToken": of_pod, "containers": [{"name": "a", "image": "i"}]}))?;
        let account = account(json!({"automountServiceAccountToken": of_account}))?;
        set_service_account(&mut pod, Some(&account), "abcde")?;
        let has_volume = !field(&pod, "/spec/volumes/0")?.is_null();
        assert_eq!(has_volume, is_mounted, "pod {of_pod}, account {of_account}");
    }
    Ok(())
}

#[test]
fn a_196_a_pod_whose_account_is_missing_is_refused() -> Outcome {
    let mut pod = pod(json!({"serviceAccountName": "x", "containers": []}))?;
    let refusal = set_service_account(&mut pod, None, "abcde").err().map(|refusal| refusal.to_string());
    assert_eq!(refusal.as_deref(), Some(r#"error looking up service account n/x: serviceaccount "x" not found"#));
    Ok(())
}

#[test]
fn mirror_pods_have_no_account_and_no_token() -> Outcome {
    let mirror = |spec: Value| -> serde_json::Result<Pod> {
        read(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": spec}))
    };
    let mut plain = mirror(json!({"containers": []}))?;
    assert_eq!(set_service_account(&mut plain, None, "abcde"), Ok(()));
    assert_eq!(spec(&plain)?, json!({"containers": []}));
    let mut named = mirror(json!({"serviceAccountName": "x", "containers": []}))?;
    assert_eq!(set_service_account(&mut named, None, "abcde"), Err(ServiceAccountRefusal::MirrorWithAccount));
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}, "name": "v"});
    let mut with_token = mirror(json!({"containers": [], "volumes": [token]}))?;
    assert_eq!(set_service_account(&mut with_token, None, "abcde"), Err(ServiceAccountRefusal::MirrorWithToken));
    Ok(())
}

#[test]
fn a_155_a_pod_tolerates_a_lost_node_for_five_minutes() -> Outcome {
    let lost = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    let (not_ready, unreachable) = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
    let own = json!({"key": not_ready, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let other = json!({"key": not_ready, "operator": "Exists", "effect": "NoSchedule"});
    let rows = [
        (json!([]), json!([lost(not_ready), lost(unreachable)])),
        (json!([own]), json!([own, lost(unreachable)])),
        (json!([other]), json!([other, lost(not_ready), lost(unreachable)])),
        (json!([{"operator": "Exists"}]), json!([{"operator": "Exists"}])),
    ];
    for (before, after) in rows {
        let mut pod = pod(json!({"containers": [], "tolerations": before}))?;
        add_default_tolerations(&mut pod);
        assert_eq!(field(&pod, "/spec/tolerations")?, after);
        add_default_tolerations(&mut pod);
        assert_eq!(field(&pod, "/spec/tolerations")?, after, "a second time");
    }
    Ok(())
}

#[test]
fn a_155_a_pods_priority_is_that_of_its_class() -> Outcome {
    let class = |name: &str, value: i32, is_default: bool| -> serde_json::Result<PriorityClass> {
        read(json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default,
            "preemptionPolicy": "Never"}))
    };
    let classes = [class("high", 1000, false)?, class("normal", 10, true)?];
    let lower = "PreemptLowerPriority";
    let rows = [
        (json!({}), &[][..], json!({"priority": 0, "preemptionPolicy": lower})),
        (json!({}), &classes[..], json!({"priorityClassName": "normal", "priority": 10, "preemptionPolicy": "Never"})),
        (
            json!({"priorityClassName": "high", "priority": 1000}),
            &classes[..],
            json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}),
        ),
        (
            json!({"priorityClassName": "system-node-critical"}),
            &[][..],
            json!({"priorityClassName": "system-node-critical", "priority": 2_000_001_000, "preemptionPolicy": lower}),
        ),
    ];
    for (sent, classes, mut wanted) in rows {
        let mut pod = pod(sent)?;
        set_priority(&mut pod, classes)?;
        if let Some(wanted) = wanted.as_object_mut() {
            wanted.insert("containers".to_owned(), json!([]));
        }
        assert_eq!(spec(&pod)?, wanted);
    }
    Ok(())
}

#[test]
fn a_155_a_pod_does_not_choose_its_priority_itself() -> Outcome {
    let rows = [
        (json!({"priorityClassName": "x"}), PriorityRefusal::UnknownClass("x".to_owned())),
        (json!({"priority": 5}), PriorityRefusal::OtherPriority { given: 5, computed: 0 }),
        (
            json!({"preemptionPolicy": "Never"}),
            PriorityRefusal::OtherPreemptionPolicy {
                given: "Never".to_owned(),
                computed: "PreemptLowerPriority".to_owned(),
            },
        ),
    ];
    for (sent, refusal) in rows {
        assert_eq!(set_priority(&mut pod(sent)?, &[]), Err(refusal));
    }
    let unknown = PriorityRefusal::UnknownClass("x".to_owned());
    assert_eq!(unknown.to_string(), "no PriorityClass with name x was found");
    Ok(())
}
