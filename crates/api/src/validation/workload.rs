//! Workloads that keep pods running: Deployments and their like (L-1224).
//! They don't run here; they are checked so that a manifest that a cluster would refuse is refused here too.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec, ReplicaSet, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{PodTemplateSpec, ReplicationController, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::errors::Errors;
use super::labels::{selector_matches, validate_label_selector};
use super::meta::{Scope, validate_object_meta};
use super::names::{self, NameRule};
use super::pod::validate_template;
use crate::absent::{items, text};
use crate::field::{FieldError, FieldPath};

/// Checks a Deployment that is to be created.
pub fn validate_deployment(deployment: &Deployment) -> Vec<FieldError> {
    let spec = &deployment.spec;
    let (mut errors, at) = begin(&deployment.metadata, NameRule::Subdomain);
    errors.nonnegative(&at.child("replicas"), spec.replicas.unwrap_or(0));
    validate_selector(&spec.selector, "deployment", &at.child("selector"), &mut errors);
    validate_workload_template(&spec.template, &spec.selector, "ReplicaSet", &at.child("template"), &mut errors);
    validate_deployment_strategy(spec, &at.child("strategy"), &mut errors);
    let ready_seconds = spec.min_ready_seconds.unwrap_or(0);
    errors.nonnegative(&at.child("minReadySeconds"), ready_seconds);
    errors.nonnegative(&at.child("revisionHistoryLimit"), spec.revision_history_limit.unwrap_or(0));
    if let Some(seconds) = spec.progress_deadline_seconds {
        let at = at.child("progressDeadlineSeconds");
        errors.nonnegative(&at, seconds);
        if seconds <= ready_seconds {
            errors.invalid(&at, seconds, "must be greater than minReadySeconds");
        }
    }
    errors.into_list()
}

/// Checks a ReplicaSet that is to be created.
pub fn validate_replica_set(replica_set: &ReplicaSet) -> Vec<FieldError> {
    let spec = &replica_set.spec;
    let (mut errors, at) = begin(&replica_set.metadata, NameRule::Subdomain);
    errors.nonnegative(&at.child("replicas"), spec.replicas.unwrap_or(0));
    errors.nonnegative(&at.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    validate_selector(&spec.selector, "deployment", &at.child("selector"), &mut errors);
    let template = spec.template.clone().unwrap_or_default();
    validate_workload_template(&template, &spec.selector, "ReplicaSet", &at.child("template"), &mut errors);
    errors.into_list()
}

/// Checks a DaemonSet that is to be created.
pub fn validate_daemon_set(daemon_set: &DaemonSet) -> Vec<FieldError> {
    let spec = &daemon_set.spec;
    let (mut errors, at) = begin(&daemon_set.metadata, NameRule::Subdomain);
    let selector_at = at.child("selector");
    validate_label_selector(Some(&spec.selector), &selector_at, &mut errors);
    validate_selector_matches(&spec.template, &spec.selector, &at.child("template"), &mut errors);
    if is_empty(&spec.selector) {
        errors.invalid_object(&selector_at, &spec.selector, "empty selector is invalid for daemonset");
    }
    validate_template(&spec.template, &at.child("template"), &mut errors);
    validate_runs_forever(&spec.template, "DaemonSet", &at.child("template"), &mut errors);
    errors.nonnegative(&at.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    validate_daemon_set_strategy(spec, &at.child("updateStrategy"), &mut errors);
    errors.nonnegative(&at.child("revisionHistoryLimit"), spec.revision_history_limit.unwrap_or(0));
    errors.into_list()
}

/// Checks a StatefulSet that is to be created.
pub fn validate_stateful_set(stateful_set: &StatefulSet) -> Vec<FieldError> {
    let spec = &stateful_set.spec;
    let (mut errors, at) = begin(&stateful_set.metadata, NameRule::Label);
    let policy = text(&spec.pod_management_policy);
    match policy {
        "" => errors.required(&at.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        _ => errors.invalid(&at.child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'"),
    }
    validate_stateful_set_strategy(spec, &at.child("updateStrategy"), &mut errors);
    errors.nonnegative(&at.child("replicas"), spec.replicas.unwrap_or(0));
    errors.nonnegative(&at.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    errors.nonnegative(&at.child("ordinals.start"), start);
    let service = text(&spec.service_name);
    if !service.is_empty() {
        errors.invalid_text(&at.child("serviceName"), service, names::dns_label(service));
    }
    validate_selector(&spec.selector, "statefulset", &at.child("selector"), &mut errors);
    let template = with_claims(spec);
    let template_at = at.child("template");
    validate_selector_matches(&template, &spec.selector, &template_at, &mut errors);
    validate_template(&template, &template_at, &mut errors);
    validate_runs_forever(&spec.template, "StatefulSet", &template_at, &mut errors);
    errors.into_list()
}

/// Checks a ReplicationController that is to be created.
pub fn validate_replication_controller(controller: &ReplicationController) -> Vec<FieldError> {
    let spec = controller.spec.clone().unwrap_or_default();
    let (mut errors, at) = begin(&controller.metadata, NameRule::Subdomain);
    errors.nonnegative(&at.child("minReadySeconds"), spec.min_ready_seconds.unwrap_or(0));
    let selector = LabelSelector { match_labels: spec.selector, ..Default::default() };
    if is_empty(&selector) {
        errors.required(&at.child("selector"), "");
    }
    match spec.replicas {
        None => errors.required(&at.child("replicas"), ""),
        Some(replicas) => errors.nonnegative(&at.child("replicas"), replicas),
    }
    let template_at = at.child("template");
    match &spec.template {
        None => errors.required(&template_at, ""),
        Some(template) => {
            let kind = "ReplicationController";
            validate_workload_template(template, &selector, kind, &template_at, &mut errors);
        }
    }
    errors.into_list()
}

fn begin(metadata: &ObjectMeta, rule: NameRule) -> (Errors, FieldPath) {
    let mut errors = Errors::default();
    validate_object_meta(metadata, Scope::Namespaced, rule, &FieldPath::root("metadata"), &mut errors);
    (errors, FieldPath::root("spec"))
}

fn is_empty(selector: &LabelSelector) -> bool {
    let has_labels = selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty());
    !has_labels && items(&selector.match_expressions).is_empty()
}

fn validate_selector(selector: &LabelSelector, kind: &str, at: &FieldPath, errors: &mut Errors) {
    let before = errors.len();
    validate_label_selector(Some(selector), at, errors);
    let is_usable = errors.len() == before;
    if is_empty(selector) {
        errors.invalid_object(at, selector, format!("empty selector is invalid for {kind}"));
    }
    if !is_usable {
        errors.invalid_object(at, selector, if kind == "statefulset" { "" } else { "invalid label selector" });
    }
}

/// A template is looked at only if its selector can be; that is as Kubernetes has it.
fn validate_workload_template(
    template: &PodTemplateSpec,
    selector: &LabelSelector,
    kind: &str,
    at: &FieldPath,
    errors: &mut Errors,
) {
    validate_selector_matches(template, selector, at, errors);
    validate_template(template, at, errors);
    validate_runs_forever(template, kind, at, errors);
}

fn validate_selector_matches(
    template: &PodTemplateSpec,
    selector: &LabelSelector,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    if !is_empty(selector) && selector_matches(Some(selector), &labels) == Some(false) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid_object(&at.child("metadata").child("labels"), &labels, detail);
    }
}

/// L-1224: pods that are kept running always restart, and have no deadline.
fn validate_runs_forever(template: &PodTemplateSpec, kind: &str, at: &FieldPath, errors: &mut Errors) {
    let spec = template.spec.clone().unwrap_or_default();
    let at = at.child("spec");
    errors.one_of(&at.child("restartPolicy"), text(&spec.restart_policy), &["Always"]);
    if spec.active_deadline_seconds.is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&at.child("activeDeadlineSeconds"), detail);
    }
}

fn validate_deployment_strategy(spec: &DeploymentSpec, at: &FieldPath, errors: &mut Errors) {
    let strategy = spec.strategy.clone().unwrap_or_default();
    let rolling_at = at.child("rollingUpdate");
    match (text(&strategy.type_), &strategy.rolling_update) {
        ("Recreate", Some(_)) => {
            errors.forbidden(&rolling_at, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.required(&rolling_at, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(update)) => {
            let (unavailable, surge) = (update.max_unavailable.as_ref(), update.max_surge.as_ref());
            let unavailable_at = rolling_at.child("maxUnavailable");
            validate_number_or_percent(unavailable, &unavailable_at, errors);
            validate_number_or_percent(surge, &rolling_at.child("maxSurge"), errors);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                errors.invalid_object(&unavailable_at, &unavailable, "may not be 0 when `maxSurge` is 0");
            }
            validate_at_most_all(unavailable, &unavailable_at, errors);
        }
        _ => {
            let value = serde_json::to_value(&strategy).unwrap_or_default();
            errors.not_supported_value(at, value, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn validate_daemon_set_strategy(spec: &DaemonSetSpec, at: &FieldPath, errors: &mut Errors) {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let rolling_at = at.child("rollingUpdate");
    match (text(&strategy.type_), &strategy.rolling_update) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&rolling_at, ""),
        ("RollingUpdate", Some(update)) => {
            let (unavailable, surge) = (update.max_unavailable.as_ref(), update.max_surge.as_ref());
            let (unavailable_at, surge_at) = (rolling_at.child("maxUnavailable"), rolling_at.child("maxSurge"));
            validate_number_or_percent(unavailable, &unavailable_at, errors);
            validate_number_or_percent(surge, &surge_at, errors);
            validate_at_most_all(unavailable, &unavailable_at, errors);
            validate_at_most_all(surge, &surge_at, errors);
            match (amount(unavailable) != 0, amount(surge) != 0) {
                (true, true) => {
                    errors.invalid_object(&surge_at, &surge, "may not be set when maxUnavailable is non-zero");
                }
                (false, false) => errors.required(&unavailable_at, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => {
            let value = serde_json::to_value(&strategy).unwrap_or_default();
            errors.not_supported_value(at, value, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn validate_stateful_set_strategy(spec: &StatefulSetSpec, at: &FieldPath, errors: &mut Errors) {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let rolling_at = at.child("rollingUpdate");
    match (text(&strategy.type_), &strategy.rolling_update) {
        ("", _) => errors.required(at, ""),
        ("OnDelete", Some(update)) => {
            errors.invalid_object(&rolling_at, update, "only allowed for updateStrategy 'RollingUpdate'");
        }
        ("OnDelete", None) | ("RollingUpdate", None) => {}
        ("RollingUpdate", Some(update)) => {
            errors.nonnegative(&rolling_at.child("partition"), update.partition.unwrap_or(0));
        }
        _ => errors.invalid_object(at, &strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// The template as pods will have it: with the volumes of the claims, and the names that the controller gives.
fn with_claims(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let Some(pod) = &mut template.spec else { return template };
    pod.subdomain = None;
    pod.hostname = None;
    let claims = items(&spec.volume_claim_templates).iter().filter_map(|claim| claim.metadata.name.clone());
    let mut volumes: BTreeMap<String, Volume> = BTreeMap::new();
    for name in claims {
        let source = k8s_openapi::api::core::v1::PersistentVolumeClaimVolumeSource {
            claim_name: name.clone(),
            ..Default::default()
        };
        volumes.insert(name.clone(), Volume { name, persistent_volume_claim: Some(source), ..Default::default() });
    }
    let own = pod.volumes.take().unwrap_or_default();
    let own = own.into_iter().filter(|volume| !volumes.contains_key(&volume.name)).collect::<Vec<_>>();
    pod.volumes = Some(volumes.into_values().chain(own).collect());
    template
}

fn validate_number_or_percent(value: Option<&IntOrString>, at: &FieldPath, errors: &mut Errors) {
    match value {
        None => {}
        Some(IntOrString::Int(number)) => errors.nonnegative(at, *number),
        Some(IntOrString::String(percent)) if percent_of(percent).is_none() => {
            let detail = names::with_format(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                &["1%", "93%"],
            );
            errors.invalid(at, percent.as_str(), detail);
        }
        Some(IntOrString::String(_)) => {}
    }
}

fn validate_at_most_all(value: Option<&IntOrString>, at: &FieldPath, errors: &mut Errors) {
    if let Some(IntOrString::String(percent)) = value
        && percent_of(percent).is_some_and(|percent| percent > 100)
    {
        errors.invalid(at, percent.as_str(), "must not be greater than 100%");
    }
}

fn amount(value: Option<&IntOrString>) -> i64 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => i64::from(*number),
        Some(IntOrString::String(percent)) => percent_of(percent).unwrap_or(0),
    }
}

fn percent_of(percent: &str) -> Option<i64> {
    let digits = percent.strip_suffix('%')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
