//! Objects as the controllers take and give them: typed where a controller reads the fields, by metadata alone otherwise.
//!
//! Nothing is decoded here; drivers hand over what crate `api` has decoded.
//! Read next: [`crate::cache`], [`crate::write`].

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, ObjectReference, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A kind of object: its `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// `apiVersion`: `v1`, `batch/v1`, ...
    pub api_version: Cow<'static, str>,
    /// `kind`: `Pod`, `Job`, ...
    pub kind: Cow<'static, str>,
}

impl Kind {
    /// A kind that is known only at run time.
    pub fn new(api_version: &str, kind: &str) -> Kind {
        Kind { api_version: Cow::Owned(api_version.to_owned()), kind: Cow::Owned(kind.to_owned()) }
    }

    const fn known(api_version: &'static str, kind: &'static str) -> Kind {
        Kind { api_version: Cow::Borrowed(api_version), kind: Cow::Borrowed(kind) }
    }

    /// The API group, empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// True if a reference with this `apiVersion` and `kind` means this kind: versions of one group are the same objects.
    pub fn is_named_by(&self, api_version: &str, kind: &str) -> bool {
        self.kind == kind && self.group() == group_of(api_version)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version, self.kind)
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// An object of a kind that no controller reads beyond its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherObject {
    /// Its kind.
    pub kind: Kind,
    /// Its metadata.
    pub metadata: ObjectMeta,
}

macro_rules! objects {
    ($($(#[$doc:meta])* $variant:ident => $constant:ident, $api_version:literal;)*) => {
        /// One object, shared and never changed in place.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Object {
            $($(#[$doc])* $variant(Arc<$variant>),)*
            /// An object of any other kind, or one whose content no controller needs.
            Other(Arc<OtherObject>),
        }

        impl Kind {
            $($(#[$doc])* pub const $constant: Kind = Kind::known($api_version, stringify!($variant));)*
        }

        impl Object {
            /// The object's kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$constant,)*
                    Object::Other(other) => other.kind.clone(),
                }
            }

            /// The object's metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Object::$variant(object) => &object.metadata,)*
                    Object::Other(other) => &other.metadata,
                }
            }
        }

        $(impl From<$variant> for Object {
            fn from(object: $variant) -> Object {
                Object::$variant(Arc::new(object))
            }
        }

        impl From<Arc<$variant>> for Object {
            fn from(object: Arc<$variant>) -> Object {
                Object::$variant(object)
            }
        })*
    };
}

objects! {
    /// A `v1` Pod.
    Pod => POD, "v1";
    /// A `batch/v1` Job.
    Job => JOB, "batch/v1";
    /// A `batch/v1` CronJob.
    CronJob => CRON_JOB, "batch/v1";
    /// A `v1` Namespace.
    Namespace => NAMESPACE, "v1";
    /// A `v1` Node.
    Node => NODE, "v1";
    /// A `v1` Service.
    Service => SERVICE, "v1";
    /// A `v1` Endpoints.
    Endpoints => ENDPOINTS, "v1";
    /// A `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice => ENDPOINT_SLICE, "discovery.k8s.io/v1";
    /// A `v1` ServiceAccount.
    ServiceAccount => SERVICE_ACCOUNT, "v1";
    /// A `v1` ConfigMap.
    ConfigMap => CONFIG_MAP, "v1";
}

impl Object {
    /// `metadata.name`, empty if absent.
    pub fn name(&self) -> &str {
        name_of(self.metadata())
    }

    /// `metadata.namespace`, empty for objects of the whole cluster.
    pub fn namespace(&self) -> &str {
        namespace_of(self.metadata())
    }

    /// `metadata.uid`, empty if absent.
    pub fn uid(&self) -> &str {
        uid_of(self.metadata())
    }

    /// What names this very object.
    pub fn target(&self) -> Target {
        Target {
            kind: self.kind(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        }
    }

    /// The reference that events about this object carry.
    pub fn reference(&self) -> ObjectReference {
        let kind = self.kind();
        let metadata = self.metadata();
        ObjectReference {
            api_version: Some(kind.api_version.into_owned()),
            kind: Some(kind.kind.into_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: None,
        }
    }
}

/// One object, named so that another of the same name is never meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty for objects of the whole cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
        }
    }
}

/// `metadata.name`, empty if absent.
pub(crate) fn name_of(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// `metadata.namespace`, empty if absent.
pub(crate) fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// `metadata.uid`, empty if absent.
pub(crate) fn uid_of(metadata: &ObjectMeta) -> &str {
    metadata.uid.as_deref().unwrap_or_default()
}

/// True once the object's deletion has been asked for.
pub(crate) fn is_being_deleted(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// True if the object carries the finalizer.
pub(crate) fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|one| one == finalizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_group_name_the_same_kind() {
        assert!(Kind::JOB.is_named_by("batch/v1beta1", "Job"));
        assert!(!Kind::JOB.is_named_by("v1", "Job"));
        assert!(Kind::POD.is_named_by("v1", "Pod"));
        assert!(!Kind::POD.is_named_by("v1", "Job"));
    }

    #[test]
    fn a_kind_made_at_run_time_equals_the_known_one() {
        assert_eq!(Kind::new("batch/v1", "Job"), Kind::JOB);
    }
}
