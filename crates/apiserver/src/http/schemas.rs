//! The schemas of kinds, with their descriptions, for OpenAPI version 3.
//!
//! They come from the Rust types; added are the kinds' names, and the lists that have keys.

use k8s_openapi::api::{
    authentication::v1 as authentication, authorization::v1 as authorization, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling,
};
use k8s_openapi::schemars::generate::{SchemaGenerator, SchemaSettings};
use k8s_openapi::{Resource, schemars::JsonSchema};
use serde_json::{Map, Value, json};

/// Every schema that the kinds of a group need, by name.
pub(super) fn of_group(group: &str) -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut kinds = Vec::new();
    macro_rules! add {
        ($($kind:ty),* $(,)?) => {
            $(add_kind::<$kind>(group, &mut generator, &mut kinds);)*
        };
    }
    add!(
        core::Pod,
        core::ConfigMap,
        core::Secret,
        core::Namespace,
        core::Event,
        core::Node,
        core::ServiceAccount,
        core::Service,
        core::Endpoints,
        core::PodTemplate,
        core::Binding,
        batch::Job,
        batch::CronJob,
        coordination::Lease,
        discovery::EndpointSlice,
        events::Event,
        node::RuntimeClass,
        policy::PodDisruptionBudget,
        policy::Eviction,
        scheduling::PriorityClass,
        rbac::Role,
        rbac::RoleBinding,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        authentication::TokenReview,
        authentication::TokenRequest,
        authentication::SelfSubjectReview,
        authorization::SubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
    );
    let mut schemas = generator.take_definitions(true);
    for (name, kind) in kinds {
        if let Some(Value::Object(schema)) = schemas.get_mut(&name) {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind]));
        }
    }
    schemas
}

fn add_kind<K: Resource + JsonSchema>(group: &str, generator: &mut SchemaGenerator, kinds: &mut Vec<(String, Value)>) {
    if K::GROUP != group {
        return;
    }
    generator.subschema_for::<K>();
    let kind = json!({"group": K::GROUP, "version": K::VERSION, "kind": K::KIND});
    kinds.push((K::schema_name().into_owned(), kind));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_29_a_schema_has_descriptions_references_and_its_kind() {
        let schemas = of_group("");
        let pod = schemas.get("io.k8s.api.core.v1.Pod").cloned().unwrap_or_default();
        let kind = json!([{"group": "", "version": "v1", "kind": "Pod"}]);
        assert_eq!(pod.get("x-kubernetes-group-version-kind"), Some(&kind));
        let spec = pod.pointer("/properties/spec").map(Value::to_string).unwrap_or_default();
        assert!(spec.contains("#/components/schemas/io.k8s.api.core.v1.PodSpec"), "{spec}");
        assert!(schemas.contains_key("io.k8s.api.core.v1.PodSpec"));
        assert!(schemas.keys().all(|name| name.starts_with("io.k8s.")));
    }
}
