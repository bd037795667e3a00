//! Which lists of which kinds are merged, and by what key.
//!
//! One table: it names a field if the field, or something below it, is not merged like any other.
//! Any other map is merged, any other list replaced.
//! Kubernetes: the `patchStrategy` and `patchMergeKey` of its types.

/// A type, as far as merging sees it; [`Type::Plain`] is any that has nothing special.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Plain,
    Object,
    Metadata,
    Pod,
    PodTemplate,
    PodTemplateSpec,
    PodSpec,
    PodStatus,
    Container,
    Volume,
    EphemeralVolume,
    Job,
    JobSpec,
    CronJob,
    CronJobSpec,
    JobTemplate,
    Workload,
    Service,
    ServiceSpec,
    ServiceAccount,
    Node,
    NodeSpec,
    NodeStatus,
    Budget,
    BudgetSpec,
    WithConditions,
    Conditions,
}

/// How a field is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Maps are merged, lists replaced.
    Default,
    /// A map is replaced.
    Replace,
    /// A list of texts is merged as a set.
    Set,
    /// A list of objects is merged by the value of this key.
    By(&'static str),
}

use Strategy::{By, Default, Replace, Set};

/// A field of a type, how it is merged, and the type of its value or of its list's elements.
const FIELDS: &[(Type, &str, Strategy, Type)] = &[
    (Type::Object, "metadata", Default, Type::Metadata),
    (Type::Metadata, "ownerReferences", By("uid"), Type::Plain),
    (Type::Metadata, "finalizers", Set, Type::Plain),
    (Type::WithConditions, "metadata", Default, Type::Metadata),
    (Type::WithConditions, "status", Default, Type::Conditions),
    (Type::Conditions, "conditions", By("type"), Type::Plain),
    (Type::Pod, "metadata", Default, Type::Metadata),
    (Type::Pod, "spec", Default, Type::PodSpec),
    (Type::Pod, "status", Default, Type::PodStatus),
    (Type::PodTemplate, "metadata", Default, Type::Metadata),
    (Type::PodTemplate, "template", Default, Type::PodTemplateSpec),
    (Type::PodTemplateSpec, "metadata", Default, Type::Metadata),
    (Type::PodTemplateSpec, "spec", Default, Type::PodSpec),
    (Type::PodSpec, "containers", By("name"), Type::Container),
    (Type::PodSpec, "initContainers", By("name"), Type::Container),
    (Type::PodSpec, "ephemeralContainers", By("name"), Type::Container),
    (Type::PodSpec, "volumes", By("name"), Type::Volume),
    (Type::PodSpec, "imagePullSecrets", By("name"), Type::Plain),
    (Type::PodSpec, "schedulingGates", By("name"), Type::Plain),
    (Type::PodSpec, "resourceClaims", By("name"), Type::Plain),
    (Type::PodSpec, "hostAliases", By("ip"), Type::Plain),
    (Type::PodSpec, "topologySpreadConstraints", By("topologyKey"), Type::Plain),
    (Type::Container, "env", By("name"), Type::Plain),
    (Type::Container, "ports", By("containerPort"), Type::Plain),
    (Type::Container, "volumeMounts", By("mountPath"), Type::Plain),
    (Type::Container, "volumeDevices", By("devicePath"), Type::Plain),
    (Type::Volume, "ephemeral", Default, Type::EphemeralVolume),
    (Type::EphemeralVolume, "volumeClaimTemplate", Default, Type::Object),
    (Type::PodStatus, "conditions", By("type"), Type::Plain),
    (Type::PodStatus, "podIPs", By("ip"), Type::Plain),
    (Type::PodStatus, "hostIPs", By("ip"), Type::Plain),
    (Type::PodStatus, "resourceClaimStatuses", By("name"), Type::Plain),
    (Type::Job, "metadata", Default, Type::Metadata),
    (Type::Job, "spec", Default, Type::JobSpec),
    (Type::Job, "status", Default, Type::Conditions),
    (Type::JobSpec, "template", Default, Type::PodTemplateSpec),
    (Type::CronJob, "metadata", Default, Type::Metadata),
    (Type::CronJob, "spec", Default, Type::CronJobSpec),
    (Type::CronJobSpec, "jobTemplate", Default, Type::JobTemplate),
    (Type::JobTemplate, "metadata", Default, Type::Metadata),
    (Type::JobTemplate, "spec", Default, Type::JobSpec),
    (Type::Workload, "metadata", Default, Type::Metadata),
    // A spec with a pod template, as a Job's.
    (Type::Workload, "spec", Default, Type::JobSpec),
    (Type::Workload, "status", Default, Type::Conditions),
    (Type::Service, "metadata", Default, Type::Metadata),
    (Type::Service, "spec", Default, Type::ServiceSpec),
    (Type::Service, "status", Default, Type::Conditions),
    (Type::ServiceSpec, "ports", By("port"), Type::Plain),
    (Type::ServiceAccount, "metadata", Default, Type::Metadata),
    (Type::ServiceAccount, "secrets", By("name"), Type::Plain),
    (Type::Node, "metadata", Default, Type::Metadata),
    (Type::Node, "spec", Default, Type::NodeSpec),
    (Type::Node, "status", Default, Type::NodeStatus),
    (Type::NodeSpec, "podCIDRs", Set, Type::Plain),
    (Type::NodeStatus, "addresses", By("type"), Type::Plain),
    (Type::NodeStatus, "conditions", By("type"), Type::Plain),
    (Type::Budget, "metadata", Default, Type::Metadata),
    (Type::Budget, "spec", Default, Type::BudgetSpec),
    (Type::Budget, "status", Default, Type::Conditions),
    (Type::BudgetSpec, "selector", Replace, Type::Plain),
];

impl Type {
    /// The type of a kind's objects, by its group, empty for core.
    pub(super) fn of_kind(group: &str, kind: &str) -> Type {
        match (group, kind) {
            ("", "Pod") => Type::Pod,
            ("", "PodTemplate") => Type::PodTemplate,
            ("", "Service") => Type::Service,
            ("", "ServiceAccount") => Type::ServiceAccount,
            ("", "Node") => Type::Node,
            ("", "Namespace" | "PersistentVolumeClaim") => Type::WithConditions,
            ("", "ReplicationController") | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => {
                Type::Workload
            }
            ("batch", "Job") => Type::Job,
            ("batch", "CronJob") => Type::CronJob,
            ("policy", "PodDisruptionBudget") => Type::Budget,
            _ => Type::Object,
        }
    }

    /// How a field is merged, and what it holds.
    pub(super) fn field(self, name: &str) -> (Strategy, Type) {
        let found = FIELDS.iter().find(|(type_, field, ..)| *type_ == self && *field == name);
        found.map_or((Default, Type::Plain), |(_, _, strategy, type_)| (*strategy, *type_))
    }
}
