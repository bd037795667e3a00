//! The kinds that manifests may hold, and how each is checked.

use k8s_openapi::Resource;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, LimitRange, Namespace, Node as KubernetesNode, PersistentVolume,
    PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;

use super::decode::{self, Problem};
use super::diagnostic::Diagnostic;
use super::node::Node;

/// A known kind.
#[derive(Clone, Copy)]
pub(super) struct Known {
    api_version: &'static str,
    kind: &'static str,
    /// Finds what does not fit the kind's type.
    pub(super) check: fn(&Node) -> Vec<Problem>,
}

const fn known<K: Resource + DeserializeOwned>() -> Known {
    Known { api_version: K::API_VERSION, kind: K::KIND, check: decode::check::<K> }
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
    known::<PodTemplate>(),
    known::<Namespace>(),
    known::<Service>(),
    known::<ServiceAccount>(),
    known::<Endpoints>(),
    known::<EndpointSlice>(),
    known::<Event>(),
    known::<KubernetesNode>(),
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
    known::<PodDisruptionBudget>(),
];

/// A kind that is not known.
pub(super) struct Unknown {
    api_version: String,
    kind: String,
}

/// Looks a kind up.
pub(super) fn find(api_version: &str, kind: &str) -> Result<Known, Unknown> {
    let found = KINDS.iter().find(|known| known.api_version == api_version && known.kind == kind);
    found.copied().ok_or_else(|| Unknown { api_version: api_version.to_owned(), kind: kind.to_owned() })
}

impl Unknown {
    pub(super) fn into_diagnostic(self, file: &str, node: &Node) -> Diagnostic {
        let Unknown { api_version, kind } = self;
        if let Some(known) = KINDS.iter().find(|known| known.kind == kind) {
            let span = node.get("apiVersion").map_or(node.span, |value| value.span);
            return Diagnostic::error(file, format!("there is no kind `{kind}` in `{api_version}`"))
                .at(span)
                .field("apiVersion")
                .hint(format!("write `apiVersion: {}`", known.api_version));
        }
        let span = node.get("kind").map_or(node.span, |value| value.span);
        let unknown =
            Diagnostic::error(file, format!("unknown kind `{kind}` in `{api_version}`")).at(span).field("kind");
        let score = |known: &&Known| (strsim::jaro_winkler(known.kind, &kind) * 1000.0) as u32;
        match KINDS.iter().max_by_key(score).filter(|known| score(known) > 800) {
            Some(known) => unknown.hint(format!("did you mean `{}`?", known.kind)),
            None => unknown.hint("monopod runs kinds Pod and Job, with the ConfigMaps and Secrets that they use"),
        }
    }
}
