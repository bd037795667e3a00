//! Where everything of a data directory lies.
//!
//! Only names are made here; who makes and removes a directory is said at each.
//! Two agents on two data directories share nothing on disk.

use std::path::{Path, PathBuf};

use lifecycle::{ContainerId, PodRef, PodUid};

/// The places of one data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPaths {
    root: PathBuf,
}

impl DataPaths {
    /// The places below a data directory, which need not exist.
    pub fn new(data_directory: &Path) -> Self {
        DataPaths { root: data_directory.to_owned() }
    }

    /// The data directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Locked by the agent that works on the directory.
    pub fn agent_lock(&self) -> PathBuf {
        self.root.join("agent.lock")
    }

    /// The image store, or a link to it.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// What the shims keep: sandboxes, containers, exit codes.
    pub fn runtime(&self) -> PathBuf {
        self.root.join("runtime")
    }

    /// Where the agent keeps the directories of its pods.
    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    /// A pod's directory: volumes, hosts file, termination messages. It goes with the pod.
    pub fn pod(&self, pod: &PodUid) -> PathBuf {
        self.pods().join(pod.as_str())
    }

    /// The pod's `/etc/hosts` (L-911).
    pub fn hosts(&self, pod: &PodUid) -> PathBuf {
        self.pod(pod).join("etc-hosts")
    }

    /// The pod's `/etc/resolv.conf` (L-912).
    pub fn resolv_conf(&self, pod: &PodUid) -> PathBuf {
        self.pod(pod).join("resolv.conf")
    }

    /// The pod's `/etc/hostname`.
    pub fn hostname(&self, pod: &PodUid) -> PathBuf {
        self.pod(pod).join("hostname")
    }

    /// The file that one run of a container writes its termination message to (L-740).
    pub fn termination_message(&self, pod: &PodUid, container: &str, attempt: u32) -> PathBuf {
        self.pod(pod).join("containers").join(container).join(attempt.to_string())
    }

    /// Where the containers' own writes lie, one directory each.
    pub fn containers(&self) -> PathBuf {
        self.root.join("containers")
    }

    /// The directory that takes a container's own writes, made and removed with the container.
    pub fn writable_layer(&self, container: &ContainerId) -> PathBuf {
        self.containers().join(container.as_str())
    }

    /// Where every container's logs lie.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs").join("pods")
    }

    /// The logs of a pod's containers, one directory each (L-221). They outlive the pod's directory.
    pub fn pod_logs(&self, pod: &PodRef) -> PathBuf {
        self.logs().join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
    }

    /// The logs of one container.
    pub fn container_logs(&self, pod: &PodRef, container: &str) -> PathBuf {
        self.pod_logs(pod).join(container)
    }

    /// The log of one run of a container.
    pub fn log(&self, pod: &PodRef, container: &str, attempt: u32) -> PathBuf {
        self.container_logs(pod, container).join(format!("{attempt}.log"))
    }

    /// Profiles that `seccompProfile.localhostProfile` names (L-944).
    pub fn seccomp_profiles(&self) -> PathBuf {
        self.root.join("seccomp")
    }
}

/// Whether a text can name one file: no separator, not `.` or `..`, not empty.
pub fn is_file_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_lie_where_kubernetes_has_them() {
        let pod = PodRef { namespace: "default".into(), name: "web".into(), uid: PodUid("1-2".into()) };
        let log = DataPaths::new(Path::new("/data")).log(&pod, "app", 3);
        assert_eq!(log, Path::new("/data/logs/pods/default_web_1-2/app/3.log"));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_file_name() {
        let names = ["a", "a.b", "..a", "", ".", "..", "a/b", "a\0"];
        assert_eq!(names.map(is_file_name), [true, true, true, false, false, false, false, false]);
    }
}
