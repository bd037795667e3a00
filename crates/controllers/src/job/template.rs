//! The pods that a Job makes (J-61 to J-64).

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::pods::{
    COMPLETION_INDEX, INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT, TRACKING_FINALIZER, index_failures,
    index_ignored_failures,
};
use super::policy::judge;
use crate::object::{name_of, uid_of};

/// The server keeps this much of `generateName`, so that five characters of its own fit in.
const GENERATED_BASE_MAX: usize = 58;

/// The owner reference to a Job that its pods carry (J-62).
pub(crate) fn owner_reference(job: &Job) -> OwnerReference {
    OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: name_of(&job.metadata).to_owned(),
        uid: uid_of(&job.metadata).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod of a NonIndexed Job.
pub(crate) fn plain_pod(job: &Job, spec: &JobSpec) -> Pod {
    let template = spec.template.metadata.clone().unwrap_or_default();
    let mut finalizers = template.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|one| one == TRACKING_FINALIZER) {
        finalizers.push(TRACKING_FINALIZER.to_owned());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name_of(&job.metadata))),
            namespace: job.metadata.namespace.clone(),
            labels: template.labels,
            annotations: template.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![owner_reference(job)]),
            ..ObjectMeta::default()
        },
        spec: spec.template.spec.clone(),
        status: None,
    }
}

/// The pod of one index; `replaced` is the failed pod of the index before it, if failures are counted for each index (J-64).
pub(crate) fn indexed_pod(job: &Job, spec: &JobSpec, index: u32, replaced: Option<&Pod>) -> Pod {
    let mut pod = plain_pod(job, spec);
    let number = index.to_string();
    pod.metadata.generate_name = Some(generate_name(name_of(&job.metadata), index));
    let set = |map: &mut Option<BTreeMap<String, String>>, key: &str, value: String| {
        map.get_or_insert_default().insert(key.to_owned(), value);
    };
    set(&mut pod.metadata.labels, COMPLETION_INDEX, number.clone());
    set(&mut pod.metadata.annotations, COMPLETION_INDEX, number);
    if spec.backoff_limit_per_index.is_some() {
        let (failures, ignored) = failure_counts(job, replaced);
        let annotations = &mut pod.metadata.annotations;
        set(annotations, INDEX_FAILURE_COUNT, failures.to_string());
        if ignored > 0 {
            set(annotations, INDEX_IGNORED_FAILURE_COUNT, ignored.to_string());
        }
    }
    if let Some(pod_spec) = &mut pod.spec {
        pod_spec.hostname = Some(format!("{}-{index}", name_of(&job.metadata)));
        let init = pod_spec.init_containers.iter_mut().flatten();
        init.chain(&mut pod_spec.containers).for_each(add_index_env);
    }
    pod
}

/// J-88: the counts of the failed pod, one more where its own failure belongs.
fn failure_counts(job: &Job, replaced: Option<&Pod>) -> (i32, i32) {
    let Some(pod) = replaced else { return (0, 0) };
    let (failures, ignored) = (index_failures(pod), index_ignored_failures(pod));
    if judge(job, pod).counts() { (failures.saturating_add(1), ignored) } else { (failures, ignored.saturating_add(1)) }
}

/// J-61: the Job's part of the name is cut so that the index survives.
fn generate_name(job_name: &str, index: u32) -> String {
    let suffix = format!("-{index}-");
    let room = GENERATED_BASE_MAX.saturating_sub(suffix.len());
    let cut = job_name.get(..room).unwrap_or(job_name);
    format!("{cut}{suffix}")
}

fn add_index_env(container: &mut Container) {
    let env = container.env.get_or_insert_default();
    if env.iter().any(|one| one.name == "JOB_COMPLETION_INDEX") {
        return;
    }
    env.push(EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
            }),
            ..EnvVarSource::default()
        }),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j61_the_index_survives_a_long_job_name() {
        assert_eq!(generate_name("j", 3), "j-3-");
        let long = "a".repeat(63);
        let name = generate_name(&long, 12345);
        assert_eq!(name.len(), GENERATED_BASE_MAX);
        assert!(name.ends_with("a-12345-"));
    }
}
