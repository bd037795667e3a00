//! Role-based access control: what roles and bindings allow.
//!
//! Read from the registry at each request: there are few of them, and a change counts at once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::User;
use super::default_roles;
use crate::error::ApiError;
use crate::registry::{ListOptions, Registry, WriteOptions};
use crate::resource::ResourceType;
use crate::value;

const GROUP: &str = "rbac.authorization.k8s.io";

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The verb.
    pub verb: String,
    /// For what is no resource: the path.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource; empty for the resource itself.
    pub subresource: String,
    /// The namespace; empty for cluster scope or all namespaces.
    pub namespace: String,
    /// The object's name; empty for a collection.
    pub name: String,
}

/// Yes or no, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// True if it is allowed.
    pub allowed: bool,
    /// What allowed it.
    pub reason: String,
}

/// One rule of a role that applies somewhere.
pub struct Rule {
    /// The rule, as in `rules[]`.
    pub rule: Value,
    /// What gave it.
    reason: String,
}

/// Decides.
pub fn authorize(registry: &Registry, user: &User, wanted: &Attributes) -> Decision {
    if user.is_master() {
        return Decision { allowed: true, reason: String::new() };
    }
    let allowing = rules_for(registry, user, &wanted.namespace).into_iter().find(|rule| allows(&rule.rule, wanted));
    match allowing {
        Some(rule) => Decision { allowed: true, reason: rule.reason },
        None => Decision { allowed: false, reason: String::new() },
    }
}

/// Every rule that applies to the user in a namespace (or, if that is empty, cluster-wide).
pub fn rules_for(registry: &Registry, user: &User, namespace: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for binding in list(registry, "clusterrolebindings", None) {
        take_rules(registry, user, &binding, "", &mut rules);
    }
    if !namespace.is_empty() {
        for binding in list(registry, "rolebindings", Some(namespace)) {
            take_rules(registry, user, &binding, namespace, &mut rules);
        }
    }
    rules
}

/// The refusal, in the API server's words.
pub fn forbidden(user: &User, wanted: &Attributes) -> ApiError {
    let name = &user.name;
    let Some(path) = &wanted.path else {
        return forbidden_resource(user, wanted);
    };
    let message = format!("forbidden: User \"{name}\" cannot {} path \"{path}\"", wanted.verb);
    ApiError::new(403, "Forbidden", message, None)
}

fn forbidden_resource(user: &User, wanted: &Attributes) -> ApiError {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
    let full = if wanted.subresource.is_empty() {
        wanted.resource.clone()
    } else {
        format!("{}/{}", wanted.resource, wanted.subresource)
    };
    let qualified =
        if wanted.group.is_empty() { wanted.resource.clone() } else { format!("{}.{}", wanted.resource, wanted.group) };
    let object = if wanted.name.is_empty() { String::new() } else { format!(" \"{}\"", wanted.name) };
    let place = if wanted.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", wanted.namespace)
    };
    let message = format!(
        "{qualified}{object} is forbidden: User \"{}\" cannot {} resource \"{full}\" in API group \"{}\" {place}",
        user.name, wanted.verb, wanted.group
    );
    let details = StatusDetails {
        group: (!wanted.group.is_empty()).then(|| wanted.group.clone()),
        kind: Some(wanted.resource.clone()),
        name: (!wanted.name.is_empty()).then(|| wanted.name.clone()),
        ..StatusDetails::default()
    };
    ApiError::new(403, "Forbidden", message, Some(details))
}

/// Makes the roles and bindings that every cluster has; what is there already stays.
pub async fn bootstrap(registry: &Registry) -> Result<(), ApiError> {
    for (kind, object) in default_roles::all() {
        let resource = ResourceType::find_kind(&format!("{GROUP}/v1"), kind).ok_or_else(|| ApiError::internal(kind))?;
        match registry.create(resource, "", object, &WriteOptions::default()).await {
            Err(error) if !error.is_already_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn take_rules(registry: &Registry, user: &User, binding: &Value, namespace: &str, rules: &mut Vec<Rule>) {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    if !subjects.into_iter().flatten().any(|subject| is_subject(user, subject, namespace)) {
        return;
    }
    let (kind, role) = (value::text(binding, "/roleRef/kind"), value::text(binding, "/roleRef/name"));
    let (Some(kind), Some(role)) = (kind, role) else { return };
    let binding_kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    let binding_name = value::text(binding, "/metadata/name").unwrap_or_default();
    let reason = format!("RBAC: allowed by {binding_kind} \"{binding_name}\" of {kind} \"{role}\"");
    for rule in role_rules(registry, kind, role, namespace) {
        rules.push(Rule { rule, reason: reason.clone() });
    }
}

fn is_subject(user: &User, subject: &Value, namespace: &str) -> bool {
    let name = value::text(subject, "/name").unwrap_or_default();
    match value::text(subject, "/kind") {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = value::text(subject, "/namespace").unwrap_or(namespace);
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn role_rules(registry: &Registry, kind: &str, name: &str, namespace: &str) -> Vec<Value> {
    let found = match kind {
        "ClusterRole" => get(registry, "clusterroles", "", name),
        "Role" => get(registry, "roles", namespace, name),
        _ => None,
    };
    let Some(role) = found else { return Vec::new() };
    let mut rules = rules_of(&role);
    for selector in
        role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array).into_iter().flatten()
    {
        rules.extend(aggregated(registry, selector));
    }
    rules
}

/// The rules of every cluster role that a selector of an aggregation means.
fn aggregated(registry: &Registry, selector: &Value) -> Vec<Value> {
    let Some(selector) = serde_json::from_value(selector.clone()).ok() else { return Vec::new() };
    let Ok(selector) = api::selector::LabelSelector::from_spec(Some(&selector)) else { return Vec::new() };
    let roles = list(registry, "clusterroles", None);
    let labelled = roles.into_iter().filter(|role| {
        let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        // An empty selector would mean every role there is.
        !selector.selects_everything() && selector.matches_with(label)
    });
    labelled.flat_map(|role| rules_of(&role)).collect()
}

fn rules_of(role: &Value) -> Vec<Value> {
    role.get("rules").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn allows(rule: &Value, wanted: &Attributes) -> bool {
    let list = |name: &str| value::texts(rule, &format!("/{name}"));
    let has = |name: &str, wanted: &str| list(name).iter().any(|item| item == "*" || item == wanted);
    if !has("verbs", &wanted.verb) {
        return false;
    }
    if let Some(path) = &wanted.path {
        return list("nonResourceURLs").iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => allowed == path,
        });
    }
    let full = if wanted.subresource.is_empty() {
        wanted.resource.clone()
    } else {
        format!("{}/{}", wanted.resource, wanted.subresource)
    };
    let any_parent = format!("*/{}", wanted.subresource);
    let resource =
        has("resources", &full) || (!wanted.subresource.is_empty() && list("resources").contains(&any_parent));
    let names = list("resourceNames");
    has("apiGroups", &wanted.group) && resource && (names.is_empty() || names.contains(&wanted.name))
}

/// The rules as `SelfSubjectRulesReview` reports them.
pub fn rules_review(rules: &[Rule]) -> Value {
    let resource = |rule: &Value| rule.get("nonResourceURLs").is_none();
    let pick = |wanted: bool| -> Vec<Value> {
        rules.iter().filter(|rule| resource(&rule.rule) == wanted).map(|rule| rule.rule.clone()).collect()
    };
    json!({"resourceRules": pick(true), "nonResourceRules": pick(false), "incomplete": false})
}

fn list(registry: &Registry, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
    let Some(resource) = ResourceType::find(GROUP, "v1", plural) else { return Vec::new() };
    registry.list(resource, namespace, &ListOptions::default()).map_or_else(|_| Vec::new(), |list| list.objects)
}

fn get(registry: &Registry, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
    registry.get(ResourceType::find(GROUP, "v1", plural)?, namespace, name).ok()
}
