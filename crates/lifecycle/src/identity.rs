//! Newtypes for everything that names something, so that none is taken for another.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

string_id! {
    /// `metadata.uid` of a pod.
    PodUid
}
string_id! {
    /// The runtime's id of a pod sandbox.
    SandboxId
}
string_id! {
    /// The runtime's id of one container instance (a restart makes a new one), without the `<runtime>://` prefix of the API.
    ContainerId
}

/// Names one [`crate::Effect`]; the answer to it carries the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(pub u64);

/// Which pod an effect is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: PodUid,
}

/// What a container is to its pod, decided by the list it stands in and its own `restartPolicy` (L-101).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ContainerRole {
    /// A plain init container: it must end before the next one starts.
    Init,
    /// A restartable init container (`restartPolicy: Always`), the native sidecar.
    Sidecar,
    /// An entry of `spec.containers`.
    App,
    /// An entry of `spec.ephemeralContainers`.
    Ephemeral,
}
