//! The kinds that are served: names, scope, verbs, and the few ways in which they differ.
//!
//! One table for the registry, discovery, authorisation and the HTTP front; what the kinds' rules are lives in `api` and [`crate::registry`].

use k8s_openapi::Resource;

/// One served resource.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// As in URLs: `pods`.
    pub plural: &'static str,
    /// As kubectl prints it: `pod`.
    pub singular: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// True if its objects live in namespaces.
    pub namespaced: bool,
    /// Names that kubectl accepts too.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl knows, as in `get all`.
    pub categories: &'static [&'static str],
    /// Subresources.
    pub subresources: &'static [Subresource],
    /// How it differs from the plain case.
    pub traits: Traits,
}

/// How a resource differs from the plain case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// `metadata.generation` counts the changes of the spec.
    pub generation: bool,
    /// A PUT of an absent object creates it.
    pub create_on_update: bool,
    /// An update has to name the resourceVersion.
    pub conditional_update: bool,
    /// DELETE answers with the object, not with a Status.
    pub returns_deleted: bool,
    /// The whole collection cannot be deleted at once.
    pub no_delete_collection: bool,
    /// It is only asked a question by POST and never stored (reviews).
    pub review: bool,
    /// The resource whose store it shares: `events.k8s.io` shows the core's events.
    pub stored_as: Option<&'static str>,
}

/// One subresource.
#[derive(Debug, PartialEq, Eq)]
pub struct Subresource {
    /// As in URLs: `status`.
    pub name: &'static str,
    /// Group, version and kind where it is not the resource's own.
    pub kind: Option<(&'static str, &'static str, &'static str)>,
    /// Its verbs.
    pub verbs: &'static [&'static str],
}

const STATUS: Subresource = Subresource { name: "status", kind: None, verbs: &["get", "patch", "update"] };

impl ResourceType {
    /// `v1`, `batch/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods`, `jobs.batch`: as messages name it, and as authorisation does.
    pub fn qualified(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Pod`, `Job.batch`: as messages of invalid objects name it.
    pub fn qualified_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    /// The store's name of it.
    pub fn storage(&self) -> String {
        self.traits.stored_as.map_or_else(|| self.qualified(), str::to_owned)
    }

    /// True if it has the `status` subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// What can be done with it.
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.traits.review {
            &["create"]
        } else if self.traits.no_delete_collection {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    /// The resource by what a URL says.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        all().find(|resource| resource.group == group && resource.version == version && resource.plural == plural)
    }

    /// The resource by what a manifest says.
    pub fn find_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        all().find(|resource| resource.group == group && resource.version == version && resource.kind == kind)
    }

    /// The resource of a Rust type, if it is served.
    pub fn of<K: Resource>() -> Option<&'static Self> {
        Self::find(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT)
    }
}

/// Every served resource, groups in the order of preference.
pub fn all() -> impl Iterator<Item = &'static ResourceType> {
    [CORE, BATCH, COORDINATION, DISCOVERY, EVENTS, NODE, POLICY, RBAC, SCHEDULING, AUTHENTICATION, AUTHORIZATION]
        .into_iter()
        .flatten()
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

const PLAIN: Traits = Traits {
    generation: false,
    create_on_update: false,
    conditional_update: false,
    returns_deleted: false,
    no_delete_collection: false,
    review: false,
    stored_as: None,
};
const GENERATION: Traits = Traits { generation: true, ..PLAIN };
const CREATE_ON_UPDATE: Traits = Traits { create_on_update: true, ..PLAIN };
const RETURNS_DELETED: Traits = Traits { returns_deleted: true, ..PLAIN };
const REVIEW: Traits = Traits { review: true, ..PLAIN };

/// A namespaced resource without anything special.
const fn namespaced(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
) -> ResourceType {
    ResourceType {
        group,
        version: "v1",
        plural,
        singular,
        kind,
        namespaced: true,
        short_names: &[],
        categories: &[],
        subresources: &[],
        traits: PLAIN,
    }
}

/// A cluster-scoped resource without anything special.
const fn cluster(
    group: &'static str,
    plural: &'static str,
    singular: &'static str,
    kind: &'static str,
) -> ResourceType {
    ResourceType { namespaced: false, ..namespaced(group, plural, singular, kind) }
}

const CORE: &[ResourceType] = &[
    ResourceType { short_names: &["cm"], ..namespaced("", "configmaps", "configmap", "ConfigMap") },
    ResourceType {
        short_names: &["ep"],
        traits: CREATE_ON_UPDATE,
        ..namespaced("", "endpoints", "endpoints", "Endpoints")
    },
    ResourceType { short_names: &["ev"], traits: CREATE_ON_UPDATE, ..namespaced("", "events", "event", "Event") },
    ResourceType {
        short_names: &["ns"],
        subresources: &[Subresource { name: "finalize", kind: None, verbs: &["update"] }, STATUS],
        traits: Traits { no_delete_collection: true, ..RETURNS_DELETED },
        ..cluster("", "namespaces", "namespace", "Namespace")
    },
    ResourceType { short_names: &["no"], subresources: &[STATUS], ..cluster("", "nodes", "node", "Node") },
    ResourceType {
        short_names: &["po"],
        categories: &["all"],
        subresources: POD_SUBRESOURCES,
        traits: Traits { generation: true, ..RETURNS_DELETED },
        ..namespaced("", "pods", "pod", "Pod")
    },
    ResourceType { traits: RETURNS_DELETED, ..namespaced("", "podtemplates", "podtemplate", "PodTemplate") },
    namespaced("", "secrets", "secret", "Secret"),
    ResourceType {
        short_names: &["sa"],
        subresources: &[Subresource {
            name: "token",
            kind: Some(("authentication.k8s.io", "v1", "TokenRequest")),
            verbs: &["create"],
        }],
        traits: RETURNS_DELETED,
        ..namespaced("", "serviceaccounts", "serviceaccount", "ServiceAccount")
    },
    ResourceType {
        short_names: &["svc"],
        categories: &["all"],
        subresources: &[STATUS],
        traits: Traits { create_on_update: true, ..RETURNS_DELETED },
        ..namespaced("", "services", "service", "Service")
    },
];

const POD_SUBRESOURCES: &[Subresource] = &[
    Subresource { name: "attach", kind: Some(("", "v1", "PodAttachOptions")), verbs: &["create", "get"] },
    Subresource { name: "binding", kind: Some(("", "v1", "Binding")), verbs: &["create"] },
    Subresource { name: "ephemeralcontainers", kind: None, verbs: &["get", "patch", "update"] },
    Subresource { name: "eviction", kind: Some(("policy", "v1", "Eviction")), verbs: &["create"] },
    Subresource { name: "exec", kind: Some(("", "v1", "PodExecOptions")), verbs: &["create", "get"] },
    Subresource { name: "log", kind: None, verbs: &["get"] },
    Subresource { name: "portforward", kind: Some(("", "v1", "PodPortForwardOptions")), verbs: &["create", "get"] },
    STATUS,
];

const BATCH: &[ResourceType] = &[
    ResourceType {
        short_names: &["cj"],
        categories: &["all"],
        subresources: &[STATUS],
        traits: GENERATION,
        ..namespaced("batch", "cronjobs", "cronjob", "CronJob")
    },
    ResourceType {
        categories: &["all"],
        subresources: &[STATUS],
        traits: GENERATION,
        ..namespaced("batch", "jobs", "job", "Job")
    },
];

const COORDINATION: &[ResourceType] = &[ResourceType {
    traits: Traits { create_on_update: true, conditional_update: true, ..PLAIN },
    ..namespaced("coordination.k8s.io", "leases", "lease", "Lease")
}];

const DISCOVERY: &[ResourceType] = &[ResourceType {
    traits: GENERATION,
    ..namespaced("discovery.k8s.io", "endpointslices", "endpointslice", "EndpointSlice")
}];

const EVENTS: &[ResourceType] = &[ResourceType {
    short_names: &["ev"],
    traits: Traits { create_on_update: true, stored_as: Some("events"), ..PLAIN },
    ..namespaced("events.k8s.io", "events", "event", "Event")
}];

const NODE: &[ResourceType] = &[ResourceType {
    traits: Traits { create_on_update: true, conditional_update: true, ..PLAIN },
    ..cluster("node.k8s.io", "runtimeclasses", "runtimeclass", "RuntimeClass")
}];

const POLICY: &[ResourceType] = &[ResourceType {
    short_names: &["pdb"],
    subresources: &[STATUS],
    traits: Traits { generation: true, conditional_update: true, ..PLAIN },
    ..namespaced("policy", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget")
}];

const RBAC: &[ResourceType] = &[
    ResourceType {
        traits: CREATE_ON_UPDATE,
        ..cluster("rbac.authorization.k8s.io", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding")
    },
    ResourceType {
        traits: CREATE_ON_UPDATE,
        ..cluster("rbac.authorization.k8s.io", "clusterroles", "clusterrole", "ClusterRole")
    },
    ResourceType {
        traits: CREATE_ON_UPDATE,
        ..namespaced("rbac.authorization.k8s.io", "rolebindings", "rolebinding", "RoleBinding")
    },
    ResourceType { traits: CREATE_ON_UPDATE, ..namespaced("rbac.authorization.k8s.io", "roles", "role", "Role") },
];

const SCHEDULING: &[ResourceType] = &[ResourceType {
    short_names: &["pc"],
    traits: GENERATION,
    ..cluster("scheduling.k8s.io", "priorityclasses", "priorityclass", "PriorityClass")
}];

const AUTHENTICATION: &[ResourceType] = &[
    ResourceType {
        traits: REVIEW,
        ..cluster("authentication.k8s.io", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview")
    },
    ResourceType { traits: REVIEW, ..cluster("authentication.k8s.io", "tokenreviews", "tokenreview", "TokenReview") },
];

const AUTHORIZATION: &[ResourceType] = &[
    ResourceType {
        traits: REVIEW,
        ..namespaced(
            "authorization.k8s.io",
            "localsubjectaccessreviews",
            "localsubjectaccessreview",
            "LocalSubjectAccessReview",
        )
    },
    ResourceType {
        traits: REVIEW,
        ..cluster(
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "selfsubjectaccessreview",
            "SelfSubjectAccessReview",
        )
    },
    ResourceType {
        traits: REVIEW,
        ..cluster("authorization.k8s.io", "selfsubjectrulesreviews", "selfsubjectrulesreview", "SelfSubjectRulesReview")
    },
    ResourceType {
        traits: REVIEW,
        ..cluster("authorization.k8s.io", "subjectaccessreviews", "subjectaccessreview", "SubjectAccessReview")
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};

    #[test]
    fn resources_are_found_by_type_url_and_manifest() {
        let pods = ResourceType::find("", "v1", "pods");
        assert_eq!(ResourceType::of::<Pod>(), pods);
        assert_eq!(ResourceType::find_kind("v1", "Pod"), pods);
        assert_eq!(ResourceType::of::<Job>().map(ResourceType::qualified), Some("jobs.batch".to_owned()));
        assert_eq!(ResourceType::find_kind("v1", "Job"), None);
    }

    #[test]
    fn a_265_both_event_groups_share_one_store() {
        let stores: Vec<String> = all().filter(|r| r.kind == "Event").map(ResourceType::storage).collect();
        assert_eq!(stores, ["events", "events"]);
    }
}
