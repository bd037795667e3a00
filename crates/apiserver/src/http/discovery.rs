//! What is served, told to clients: the aggregated document and the plain ones.
//!
//! Pure: everything comes from the table of resources.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::resource::{ResourceType, Subresource, all};

/// The Content-Type of the aggregated document.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The aggregated document of `/api` (core alone) or `/apis` (every other group).
pub(super) fn aggregated(core: bool) -> Value {
    let items: Vec<Value> =
        groups().into_iter().filter(|group| group.is_empty() == core).map(discovery_group).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// A name for the document's content, for `ETag`.
pub(super) fn etag(document: &Value) -> String {
    let digest = Sha256::digest(document.to_string().as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02X}")).collect();
    format!("\"{hex}\"")
}

/// `/api`.
pub(super) fn core_versions(server_address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}]})
}

/// `/apis`.
pub(super) fn group_list() -> Value {
    let groups: Vec<Value> = groups().into_iter().filter(|group| !group.is_empty()).map(api_group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`, if it is served.
pub(super) fn group(name: &str) -> Option<Value> {
    let found = groups().into_iter().find(|group| !group.is_empty() && *group == name)?;
    let mut group = api_group(found);
    crate::value::set(&mut group, &["kind"], Value::from("APIGroup"));
    crate::value::set(&mut group, &["apiVersion"], Value::from("v1"));
    Some(group)
}

/// `/api/v1` and `/apis/{group}/{version}`, if they are served.
pub(super) fn resource_list(group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = of_group(group).filter(|it| it.version == version).flat_map(api_resources).collect();
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}))
}

/// Every group, in the order of preference.
fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = all().map(|resource| resource.group).collect();
    groups.dedup();
    groups
}

fn of_group(group: &str) -> impl Iterator<Item = &'static ResourceType> {
    all().filter(move |resource| resource.group == group)
}

fn discovery_group(group: &str) -> Value {
    let resources: Vec<Value> = of_group(group).map(discovery_resource).collect();
    let version = json!({"version": "v1", "resources": resources, "freshness": "Current"});
    // The core group's name is empty and left out, as every empty text is.
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": [version]})
}

fn discovery_resource(resource: &ResourceType) -> Value {
    let mut found = json!({
        "resource": resource.plural,
        "responseKind": kind_of(resource, None),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    for (name, list) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !list.is_empty() {
            crate::value::set(&mut found, &[name], json!(list));
        }
    }
    let subresources = resource.subresources.iter().map(|subresource| {
        json!({"subresource": subresource.name, "responseKind": kind_of(resource, subresource.kind), "verbs": subresource.verbs})
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        crate::value::set(&mut found, &["subresources"], Value::Array(subresources));
    }
    found
}

fn kind_of(resource: &ResourceType, foreign: Option<(&str, &str, &str)>) -> Value {
    let (group, version, kind) = foreign.unwrap_or((resource.group, resource.version, resource.kind));
    json!({"group": group, "version": version, "kind": kind})
}

fn api_group(group: &str) -> Value {
    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

fn api_resources(resource: &ResourceType) -> Vec<Value> {
    let mut found = json!({"name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs()});
    for (name, list) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !list.is_empty() {
            crate::value::set(&mut found, &[name], json!(list));
        }
    }
    let subresources = resource.subresources.iter().map(|subresource| api_subresource(resource, subresource));
    std::iter::once(found).chain(subresources).collect()
}

fn api_subresource(resource: &ResourceType, subresource: &Subresource) -> Value {
    let name = format!("{}/{}", resource.plural, subresource.name);
    let kind = subresource.kind.map_or(resource.kind, |(_, _, kind)| kind);
    let mut found = json!({"name": name, "singularName": "", "namespaced": resource.namespaced, "kind": kind,
        "verbs": subresource.verbs});
    if let Some((group, version, _)) =
        subresource.kind.filter(|(group, version, _)| (*group, *version) != (resource.group, resource.version))
    {
        crate::value::set(&mut found, &["group"], Value::from(group));
        crate::value::set(&mut found, &["version"], Value::from(version));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_16_the_aggregated_document_names_what_kubectl_needs() {
        let core = aggregated(true);
        let resources =
            core.pointer("/items/0/versions/0/resources").and_then(Value::as_array).cloned().unwrap_or_default();
        let pods = resources.iter().find(|resource| resource.get("resource") == Some(&json!("pods")));
        let part = |name: &str| pods.and_then(|pods| pods.get(name)).cloned();
        assert_eq!(part("responseKind"), Some(json!({"group": "", "version": "v1", "kind": "Pod"})));
        assert_eq!((part("shortNames"), part("categories")), (Some(json!(["po"])), Some(json!(["all"]))));
        assert_eq!(part("scope"), Some(json!("Namespaced")));
    }

    #[test]
    fn a_17_foreign_kinds_of_subresources_are_named_with_their_group() {
        let list = resource_list("", "v1").unwrap_or_default();
        let resources = list.get("resources").and_then(Value::as_array).cloned().unwrap_or_default();
        let eviction = resources.into_iter().find(|resource| resource.get("name") == Some(&json!("pods/eviction")));
        let expected = json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction",
            "verbs": ["create"], "group": "policy", "version": "v1"});
        assert_eq!(eviction, Some(expected));
        assert_eq!(resource_list("batch", "v9"), None);
    }
}
