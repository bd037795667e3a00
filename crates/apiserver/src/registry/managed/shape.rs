//! What of a kind is one value and what is merged: by the types of fields, and the lists that have keys.
//!
//! A field that is not known is merged if it is a map and one value if it is a list.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{Kind, Schema};
use crate::resource::ResourceType;

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// It is one value.
    Atomic,
    /// It is a set of texts or numbers.
    Set,
    /// It is a map, by the values of these fields.
    By(&'static [&'static str]),
}

/// A place in an object, as merging sees it.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    message: Option<String>,
    list: ListKind,
    atomic: bool,
}

impl Shape {
    /// The shape of a kind's objects.
    pub(super) fn of(resource: &ResourceType) -> Self {
        let message = Schema::get().message_of(&resource.api_version(), resource.kind);
        Self { message: message.map(str::to_owned), list: ListKind::Atomic, atomic: false }
    }

    /// The shape of a field.
    pub(super) fn field(&self, name: &str) -> Self {
        let field = self.message.as_deref().and_then(|message| Schema::get().field_named(message, name));
        let holder = self.message.as_deref().unwrap_or_default();
        let message = field.and_then(|field| message_of(&field.kind)).map(str::to_owned);
        let atomic = ATOMIC_FIELDS.contains(&(holder, name))
            || (message.as_deref().is_some_and(|message| ATOMIC_TYPES.contains(&message))
                && !matches!(field.map(|field| &field.kind), Some(Kind::List(_))));
        let listed = LISTS.iter().find(|(types, field, _)| types.contains(&holder) && *field == name);
        Self { message, list: listed.map_or(ListKind::Atomic, |(_, _, kind)| *kind), atomic }
    }

    /// The shape of a list's items.
    pub(super) fn item(&self) -> Self {
        let atomic = self.message.as_deref().is_some_and(|message| ATOMIC_TYPES.contains(&message));
        Self { message: self.message.clone(), list: ListKind::Atomic, atomic }
    }

    /// How a list here is merged.
    pub(super) fn list(&self) -> ListKind {
        self.list
    }

    /// True if a map here is one value.
    pub(super) fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// The keys of an item of a list that has keys: `None` if one is missing that has no default.
    pub(super) fn key_of(keys: &[&str], item: &Value) -> Option<BTreeMap<String, Value>> {
        let key = keys.iter().map(|key| {
            let found = item.get(*key).filter(|value| !value.is_null()).cloned();
            let value = found.or_else(|| (*key == "protocol").then(|| Value::from("TCP")))?;
            Some(((*key).to_owned(), value))
        });
        key.collect()
    }
}

fn message_of(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::Message(message) | Kind::Inline(message) => Some(message),
        Kind::List(item) | Kind::Map(item) => message_of(item),
        _ => None,
    }
}

const CONTAINERS: &[&str] = &["core.Container", "core.EphemeralContainer", "core.EphemeralContainerCommon"];
const WITH_CONDITIONS: &[&str] = &[
    "core.NamespaceStatus",
    "core.NodeStatus",
    "core.PodStatus",
    "core.ServiceStatus",
    "policy.PodDisruptionBudgetStatus",
];

/// The lists that are merged: `x-kubernetes-list-type` and `-map-keys` of Kubernetes' types.
const LISTS: &[(&[&str], &str, ListKind)] = &[
    (&["batch.PodFailurePolicyOnExitCodesRequirement"], "values", ListKind::Set),
    (&["batch.UncountedTerminatedPods"], "failed", ListKind::Set),
    (&["batch.UncountedTerminatedPods"], "succeeded", ListKind::Set),
    (&["core.ContainerRestartRuleOnExitCodes"], "values", ListKind::Set),
    (&["core.NodeSpec"], "podCIDRs", ListKind::Set),
    (&["discovery.Endpoint"], "addresses", ListKind::Set),
    (&["meta.ObjectMeta"], "finalizers", ListKind::Set),
    (&["meta.ObjectMeta"], "ownerReferences", ListKind::By(&["uid"])),
    (CONTAINERS, "env", ListKind::By(&["name"])),
    (CONTAINERS, "ports", ListKind::By(&["containerPort", "protocol"])),
    (CONTAINERS, "volumeDevices", ListKind::By(&["devicePath"])),
    (CONTAINERS, "volumeMounts", ListKind::By(&["mountPath"])),
    (&["core.ContainerStatus"], "allocatedResourcesStatus", ListKind::By(&["name"])),
    (&["core.ContainerStatus"], "volumeMounts", ListKind::By(&["mountPath"])),
    (WITH_CONDITIONS, "conditions", ListKind::By(&["type"])),
    (&["core.NodeStatus"], "addresses", ListKind::By(&["type"])),
    (&["core.PodSpec"], "containers", ListKind::By(&["name"])),
    (&["core.PodSpec"], "ephemeralContainers", ListKind::By(&["name"])),
    (&["core.PodSpec"], "hostAliases", ListKind::By(&["ip"])),
    (&["core.PodSpec"], "imagePullSecrets", ListKind::By(&["name"])),
    (&["core.PodSpec"], "initContainers", ListKind::By(&["name"])),
    (&["core.PodSpec"], "resourceClaims", ListKind::By(&["name"])),
    (&["core.PodSpec"], "schedulingGates", ListKind::By(&["name"])),
    (&["core.PodSpec"], "topologySpreadConstraints", ListKind::By(&["topologyKey", "whenUnsatisfiable"])),
    (&["core.PodSpec"], "volumes", ListKind::By(&["name"])),
    (&["core.PodStatus"], "podIPs", ListKind::By(&["ip"])),
    (&["core.PodStatus"], "resourceClaimStatuses", ListKind::By(&["name"])),
    (&["core.ResourceRequirements"], "claims", ListKind::By(&["name"])),
    (&["core.ServiceAccount"], "secrets", ListKind::By(&["name"])),
    (&["core.ServiceSpec"], "ports", ListKind::By(&["port", "protocol"])),
];

/// Maps that are one value, by the type they stand in.
const ATOMIC_FIELDS: &[(&str, &str)] =
    &[("core.PodSpec", "nodeSelector"), ("core.ServiceSpec", "selector"), ("node.Scheduling", "nodeSelector")];

/// Types whose objects are one value.
const ATOMIC_TYPES: &[&str] = &[
    "core.ConfigMapKeySelector",
    "core.EndpointAddress",
    "core.EndpointPort",
    "core.FileKeySelector",
    "core.LocalObjectReference",
    "core.NodeSelector",
    "core.NodeSelectorTerm",
    "core.ObjectFieldSelector",
    "core.ObjectReference",
    "core.ResourceFieldSelector",
    "core.SecretKeySelector",
    "core.TypedLocalObjectReference",
    "discovery.EndpointPort",
    "meta.LabelSelector",
    "meta.OwnerReference",
    "rbac.RoleRef",
    "rbac.Subject",
];
