//! The columns of the batch group, as cells.

use jiff::Timestamp;
pub(super) use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Container;
use serde_json::Value;

use super::job::job_row;
use super::table::{Column, Tabular, age, name};
use super::words::{container_images, container_names};
use crate::selector::format_label_selector;
use crate::time;

impl Tabular for Job {
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Completions"),
        Column::text("Duration"),
        Column::AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let row = job_row(self, now);
        let selector = format_label_selector(self.spec.as_ref().and_then(|spec| spec.selector.as_ref()));
        [row.name, row.status, row.completions, row.duration, row.age, row.containers, row.images, selector]
            .map(Value::from)
            .into()
    }
}

impl Tabular for CronJob {
    /// L-1124, J-141.
    const COLUMNS: &'static [Column] = &[
        Column::NAME,
        Column::text("Schedule"),
        Column::text("Timezone"),
        Column::boolean("Suspend"),
        Column::integer("Active"),
        Column::text("Last Schedule"),
        Column::AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let spec = &self.spec;
        let status = self.status.as_ref();
        let job = spec.job_template.spec.as_ref();
        let pod = job.and_then(|job| job.template.spec.as_ref());
        let containers: &[Container] = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
        // The cell of a boolean column, yet a word: so does Kubernetes.
        let suspend = match spec.suspend {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let last = status.and_then(|status| status.last_schedule_time.as_ref());
        let none = || "<none>".to_owned();
        vec![
            name(&self.metadata),
            spec.schedule.clone().into(),
            spec.time_zone.clone().unwrap_or_else(none).into(),
            suspend.into(),
            status.map_or(0, |status| status.active.iter().flatten().count()).into(),
            last.map_or_else(none, |last| time::age(Some(last.0), now)).into(),
            age(&self.metadata, now),
            container_names(containers).into(),
            container_images(containers).into(),
            format_label_selector(job.and_then(|job| job.selector.as_ref())).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check_group;

    #[test]
    fn j_138_the_cells_of_a_job() {
        let job = json!({
            "metadata": {"name": "j", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "completions": 2,
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "s"}]}},
            },
            "status": {"startTime": "2026-01-01T00:00:10Z", "succeeded": 1},
        });
        let wanted = json!(["j", "Running", "1/2", "4m50s", "5m", "c", "i", "batch.kubernetes.io/controller-uid=u"]);
        check_group("batch", "Job", job, wanted);
    }

    #[test]
    fn j_141_the_cells_of_a_cron_job() {
        let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let metadata = json!({"name": "j", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let plain = json!({"metadata": metadata, "spec": {"schedule": "* * * * *", "jobTemplate": template}});
        let wanted = json!(["j", "* * * * *", "<none>", "<unset>", 0, "<none>", "5m", "c", "i", "<none>"]);
        check_group("batch", "CronJob", plain, wanted);
        let busy = json!({
            "metadata": metadata,
            "spec": {"schedule": "@hourly", "timeZone": "Europe/Berlin", "suspend": false, "jobTemplate": template},
            "status": {"active": [{"name": "a"}, {"name": "b"}], "lastScheduleTime": "2026-01-01T00:04:00Z"},
        });
        let wanted = json!(["j", "@hourly", "Europe/Berlin", "False", 2, "60s", "5m", "c", "i", "<none>"]);
        check_group("batch", "CronJob", busy, wanted);
    }
}
