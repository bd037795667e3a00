//! The kinds that manifests may hold, and how each is checked.

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    Binding, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node as KubernetesNode, PersistentVolume,
    PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass, NetworkPolicy};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;

use super::diagnostic::Diagnostic;
use super::node::Node;
use crate::decode::{self, UnfitField};

/// A known kind.
#[derive(Clone, Copy)]
pub(super) struct Known {
    api_version: &'static str,
    kind: &'static str,
    /// Finds what does not fit the kind's type.
    pub(super) check: fn(&Node) -> Vec<UnfitField>,
}

/// What is known of a kind.
pub(super) enum Lookup {
    /// Its type.
    Known(Known),
    /// That it may be one: a custom resource, or a kind of Kubernetes that has nothing to do with running pods.
    Other,
    /// That it is none.
    Unknown(Box<Diagnostic>),
}

const fn known<K: Resource + DeserializeOwned>() -> Known {
    Known { api_version: K::API_VERSION, kind: K::KIND, check: |node| decode::decode_tree::<K, Node>(node).1 }
}

const KINDS: &[Known] = &[
    known::<Pod>(),
    known::<Job>(),
    known::<ConfigMap>(),
    known::<Secret>(),
    known::<CronJob>(),
    known::<Deployment>(),
    known::<StatefulSet>(),
    known::<DaemonSet>(),
    known::<ReplicaSet>(),
    known::<ReplicationController>(),
    known::<ControllerRevision>(),
    known::<PodTemplate>(),
    known::<Namespace>(),
    known::<Service>(),
    known::<ServiceAccount>(),
    known::<Endpoints>(),
    known::<EndpointSlice>(),
    known::<Event>(),
    known::<KubernetesNode>(),
    known::<Binding>(),
    known::<PersistentVolume>(),
    known::<PersistentVolumeClaim>(),
    known::<LimitRange>(),
    known::<ResourceQuota>(),
    known::<Lease>(),
    known::<PriorityClass>(),
    known::<RuntimeClass>(),
    known::<Role>(),
    known::<RoleBinding>(),
    known::<ClusterRole>(),
    known::<ClusterRoleBinding>(),
    known::<NetworkPolicy>(),
    known::<Ingress>(),
    known::<IngressClass>(),
    known::<PodDisruptionBudget>(),
];

/// Looks a kind up; `node` is the object that names it.
pub(super) fn find(file: &str, node: &Node, api_version: &str, kind: &str) -> Lookup {
    if let Some(known) = exact(api_version, kind) {
        return Lookup::Known(known);
    }
    let group = group_of(api_version);
    let is_builtin = KINDS.iter().any(|known| group_of(known.api_version) == group);
    // Groups without a dot, or of k8s.io, are Kubernetes' own: the kind is known, so the version must be wrong.
    let is_own = is_builtin || !group.contains('.') || group.ends_with(".k8s.io");
    if let Some(elsewhere) = KINDS.iter().find(|known| is_own && known.kind == kind) {
        let span = node.get("apiVersion").map_or(node.span, |value| value.span);
        let diagnostic = Diagnostic::error(file, format!("there is no kind `{kind}` in `{api_version}`")).at(span);
        let hint = format!("write `apiVersion: {}`", elsewhere.api_version);
        return Lookup::Unknown(Box::new(diagnostic.field("apiVersion").hint(hint)));
    }
    if is_builtin { unknown_kind(file, node, api_version, kind) } else { Lookup::Other }
}

/// The kind of which an object of this kind is a list, as `PodList` of `Pod`.
pub(super) fn listed(api_version: &str, kind: &str) -> Option<&'static str> {
    exact(api_version, kind.strip_suffix("List")?).map(|known| known.kind)
}

fn exact(api_version: &str, kind: &str) -> Option<Known> {
    KINDS.iter().find(|known| known.api_version == api_version && known.kind == kind).copied()
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn unknown_kind(file: &str, node: &Node, api_version: &str, kind: &str) -> Lookup {
    let span = node.get("kind").map_or(node.span, |value| value.span);
    let diagnostic =
        Diagnostic::error(file, format!("unknown kind `{kind}` in `{api_version}`")).at(span).field("kind");
    let kinds: Vec<&str> = KINDS.iter().map(|known| known.kind).collect();
    let hint = match decode::nearest(kind, &kinds) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "the kinds that run are Pod, Job and CronJob, with the ConfigMaps and Secrets that they use".to_owned(),
    };
    Lookup::Unknown(Box::new(diagnostic.hint(hint)))
}
