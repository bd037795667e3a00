//! Settings of the controllers, constant for their life.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::object::Kind;

/// Settings of all controllers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The controllers that run.
    pub enabled: BTreeSet<ControllerName>,
    /// Settings of the Job controller.
    pub job: JobConfig,
    /// How many ended pods are kept (`--terminated-pod-gc-threshold`).
    pub ended_pods_max: usize,
    /// The CA certificates that `kube-root-ca.crt` carries, in PEM; without them it is not made.
    pub ca_bundle: Option<String>,
    /// Every kind that is served. The garbage collector leaves alone what is owned by any other.
    pub served_kinds: Vec<ServedKind>,
}

impl Default for Config {
    fn default() -> Self {
        Config::only(&ControllerName::ALL)
    }
}

impl Config {
    /// Kubernetes' settings, with these controllers alone.
    pub fn only(names: &[ControllerName]) -> Config {
        Config {
            enabled: names.iter().copied().collect(),
            job: JobConfig::default(),
            ended_pods_max: 12_500,
            ca_bundle: None,
            served_kinds: ServedKind::known(),
        }
    }
}

/// A kind that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    /// The kind.
    pub kind: Kind,
    /// True if its objects are in namespaces.
    pub is_namespaced: bool,
}

impl ServedKind {
    /// The kinds that the controllers themselves read or write.
    pub fn known() -> Vec<ServedKind> {
        let namespaced = [
            Kind::POD,
            Kind::JOB,
            Kind::CRON_JOB,
            Kind::SERVICE,
            Kind::ENDPOINTS,
            Kind::ENDPOINT_SLICE,
            Kind::SERVICE_ACCOUNT,
            Kind::CONFIG_MAP,
        ];
        let namespaced = namespaced.map(|kind| ServedKind { kind, is_namespaced: true });
        let cluster = [Kind::NAMESPACE, Kind::NODE].map(|kind| ServedKind { kind, is_namespaced: false });
        namespaced.into_iter().chain(cluster).collect()
    }
}

/// Names of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// Makes Jobs when they are due.
    CronJob,
    /// Keeps EndpointSlices and Endpoints of Services.
    Endpoints,
    /// Follows owner references.
    GarbageCollector,
    /// Makes and counts the pods of Jobs.
    Job,
    /// Empties namespaces that are being deleted.
    Namespace,
    /// Ends pods that no node will end, and keeps the ended ones few.
    PodCollector,
    /// Makes the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in every namespace.
    Provisions,
    /// Binds pods to nodes.
    Scheduler,
    /// Deletes finished Jobs when their time to live has passed.
    TtlAfterFinished,
}

impl ControllerName {
    /// Every controller.
    pub const ALL: [ControllerName; 9] = [
        ControllerName::CronJob,
        ControllerName::Endpoints,
        ControllerName::GarbageCollector,
        ControllerName::Job,
        ControllerName::Namespace,
        ControllerName::PodCollector,
        ControllerName::Provisions,
        ControllerName::Scheduler,
        ControllerName::TtlAfterFinished,
    ];
}

/// Settings of the Job controller.
#[derive(Clone, Copy, Debug)]
pub struct JobConfig {
    /// How long changes of pods and statuses are gathered before a Job is looked at (J-71).
    /// Kubernetes waits a second; nothing is lost by not waiting.
    pub batch_period: Duration,
    /// The wait after the first pod failure (J-85).
    pub failure_back_off_initial: Duration,
    /// The longest wait after a pod failure (J-85).
    pub failure_back_off_max: Duration,
    /// The most pods that are created or deleted at once (J-65), and the most uids that are kept as not yet counted (J-76).
    pub pods_per_step: usize,
}

impl Default for JobConfig {
    fn default() -> Self {
        JobConfig {
            batch_period: Duration::ZERO,
            failure_back_off_initial: Duration::from_secs(10),
            failure_back_off_max: Duration::from_secs(600),
            pods_per_step: 500,
        }
    }
}
