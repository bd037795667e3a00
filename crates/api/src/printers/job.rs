//! The columns of a Job (L-1120 to L-1123).

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};

use crate::absent::items;
use crate::time;

/// One line of `kubectl get jobs -o wide`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// NAME.
    pub name: String,
    /// STATUS.
    pub status: String,
    /// COMPLETIONS.
    pub completions: String,
    /// DURATION.
    pub duration: String,
    /// AGE.
    pub age: String,
    /// CONTAINERS, for wide output.
    pub containers: String,
    /// IMAGES, for wide output.
    pub images: String,
}

/// The line of a Job.
pub fn job_row(job: &Job, now: Timestamp) -> JobRow {
    let (no_spec, no_status) = (JobSpec::default(), JobStatus::default());
    let spec = job.spec.as_ref().unwrap_or(&no_spec);
    let status = job.status.as_ref().unwrap_or(&no_status);
    let containers = spec.template.spec.iter().flat_map(|spec| &spec.containers);
    let join = |words: Vec<&str>| words.join(",");
    JobRow {
        name: job.metadata.name.clone().unwrap_or_default(),
        status: status_word(job, status).to_owned(),
        completions: completions(spec, status),
        duration: duration(status, now),
        age: time::age(job.metadata.creation_timestamp.as_ref().map(|created| created.0), now),
        containers: join(containers.clone().map(|container| container.name.as_str()).collect()),
        images: join(containers.map(|container| container.image.as_deref().unwrap_or_default()).collect()),
    }
}

/// L-1120: the first that holds.
fn status_word(job: &Job, status: &JobStatus) -> &'static str {
    let holds = |kind: &str| {
        items(&status.conditions).iter().any(|condition| condition.type_ == kind && condition.status == "True")
    };
    if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if job.metadata.deletion_timestamp.is_some() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

/// L-1121.
fn completions(spec: &JobSpec, status: &JobStatus) -> String {
    let succeeded = status.succeeded.unwrap_or(0);
    match (spec.completions, spec.parallelism) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// L-1122.
fn duration(status: &JobStatus, now: Timestamp) -> String {
    let Some(start) = &status.start_time else { return String::new() };
    let end = status.completion_time.as_ref().map_or(now, |end| end.0);
    time::human_duration(end.duration_since(start.0))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(spec: Value, status: Value) -> (String, String, String) {
        let job: Job = serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec, "status": status}))
            .unwrap_or_default();
        let row = job_row(&job, Timestamp::from_second(100).unwrap_or_default());
        (row.status, row.completions, row.duration)
    }

    fn strings(status: &str, completions: &str, duration: &str) -> (String, String, String) {
        (status.to_owned(), completions.to_owned(), duration.to_owned())
    }

    #[test]
    fn l_1120_to_1122_the_columns_of_a_job() {
        let template = json!({"spec": {"containers": []}});
        let start = "1970-01-01T00:00:10Z";
        assert_eq!(
            row(json!({"completions": 3, "template": template}), json!({"succeeded": 1, "startTime": start})),
            strings("Running", "1/3", "90s")
        );
        let complete = json!({"succeeded": 1, "startTime": start, "completionTime": "1970-01-01T00:00:15Z",
            "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]});
        assert_eq!(row(json!({"completions": 1, "template": template}), complete), strings("Complete", "1/1", "5s"));
        assert_eq!(row(json!({"parallelism": 2, "template": template}), json!({})), strings("Running", "0/1 of 2", ""));
    }
}
