//! The roles and bindings that stand in every cluster.
//!
//! Kubernetes: plugin/pkg/auth/authorizer/rbac/bootstrappolicy. The rules are those for the resources served here.

use serde_json::{Value, json};

const LABEL: &str = "kubernetes.io/bootstrapping";
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// Every default role and binding, with its kind.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let masters = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": super::MASTERS});
    let everybody = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": super::AUTHENTICATED});
    vec![
        ("ClusterRole", role("cluster-admin", &[], everything())),
        ("ClusterRoleBinding", binding("cluster-admin", &masters)),
        ("ClusterRole", role("system:discovery", &[], discovery())),
        ("ClusterRoleBinding", binding("system:discovery", &everybody)),
        ("ClusterRole", role("system:basic-user", &[], self_reviews())),
        ("ClusterRoleBinding", binding("system:basic-user", &everybody)),
        ("ClusterRole", role("system:public-info-viewer", &[], public_paths())),
        ("ClusterRoleBinding", binding("system:public-info-viewer", &everybody)),
        ("ClusterRole", aggregate("admin", "aggregate-to-admin", &[])),
        ("ClusterRole", aggregate("edit", "aggregate-to-edit", &["aggregate-to-admin"])),
        ("ClusterRole", aggregate("view", "aggregate-to-view", &["aggregate-to-edit"])),
        ("ClusterRole", role("system:aggregate-to-admin", &["aggregate-to-admin"], admin_rules())),
        ("ClusterRole", role("system:aggregate-to-edit", &["aggregate-to-edit"], edit_rules())),
        ("ClusterRole", role("system:aggregate-to-view", &["aggregate-to-view"], view_rules())),
    ]
}

fn role(name: &str, aggregated_to: &[&str], rules: Value) -> Value {
    let mut role = json!({"metadata": {"name": name, "labels": {LABEL: "rbac-defaults"}}, "rules": rules});
    for label in aggregated_to {
        let label = format!("rbac.authorization.k8s.io/{label}");
        crate::value::set(&mut role, &["metadata", "labels", &label], json!("true"));
    }
    role
}

fn aggregate(name: &str, from: &str, to: &[&str]) -> Value {
    let mut role = role(name, to, json!([]));
    let labels = json!({format!("rbac.authorization.k8s.io/{from}"): "true"});
    crate::value::set(&mut role, &["aggregationRule"], json!({"clusterRoleSelectors": [{"matchLabels": labels}]}));
    role
}

fn binding(name: &str, subject: &Value) -> Value {
    json!({"metadata": {"name": name, "labels": {LABEL: "rbac-defaults"}}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}})
}

fn everything() -> Value {
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}])
}

fn discovery() -> Value {
    let paths = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    json!([{"nonResourceURLs": paths, "verbs": ["get"]}])
}

fn public_paths() -> Value {
    json!([{"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]}])
}

fn self_reviews() -> Value {
    json!([
        {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ])
}

fn admin_rules() -> Value {
    let all: Vec<&str> = READ.iter().chain(WRITE).copied().collect();
    json!([
        {"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings", "roles"], "verbs": all},
    ])
}

fn edit_rules() -> Value {
    let core = [
        "pods",
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ];
    json!([
        {"apiGroups": [""], "resources": core, "verbs": WRITE},
        {"apiGroups": [""], "resources": ["pods/eviction", "serviceaccounts/token"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"], "verbs": READ},
        {"apiGroups": [""], "resources": ["events"], "verbs": WRITE},
        {"apiGroups": ["batch"], "resources": ["cronjobs", "jobs"], "verbs": WRITE},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": WRITE},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": WRITE},
    ])
}

fn view_rules() -> Value {
    let core = [
        "configmaps",
        "endpoints",
        "events",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "serviceaccounts",
        "services",
        "services/status",
    ];
    json!([
        {"apiGroups": [""], "resources": core, "verbs": READ},
        {"apiGroups": ["batch"], "resources": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"], "verbs": READ},
        {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets", "poddisruptionbudgets/status"], "verbs": READ},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READ},
    ])
}
