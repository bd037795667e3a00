//! The columns of an Event, which both event groups share.

use jiff::Timestamp;
pub(super) use k8s_openapi::api::core::v1::Event as CoreEvent;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
pub(super) use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use serde_json::Value;

use super::table::{Column, Tabular, name};
use crate::absent::text;
use crate::time;

const COLUMNS: &[Column] = &[
    Column::text("Last Seen"),
    Column::text("Type"),
    Column::text("Reason"),
    Column::text("Object"),
    Column::wide("Subobject"),
    Column::wide("Source"),
    Column::text("Message"),
    Column::wide("First Seen"),
    Column::wide("Count"),
    Column { format: "name", ..Column::wide("Name") },
];

impl Tabular for CoreEvent {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let series = self.series.as_ref();
        Parts {
            metadata: &self.metadata,
            object: &self.involved_object,
            source: self.source.as_ref(),
            controller: text(&self.reporting_component),
            instance: text(&self.reporting_instance),
            kind: text(&self.type_),
            reason: text(&self.reason),
            message: text(&self.message),
            first: self.first_timestamp.as_ref(),
            last: self.last_timestamp.as_ref(),
            event_time: self.event_time.as_ref(),
            count: self.count.unwrap_or(0),
            series: series.map(|series| (series.count.unwrap_or(0), series.last_observed_time.as_ref())),
        }
        .cells(now)
    }
}

impl Tabular for Event {
    const COLUMNS: &'static [Column] = COLUMNS;

    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let nothing = ObjectReference::default();
        let series = self.series.as_ref();
        Parts {
            metadata: &self.metadata,
            object: self.regarding.as_ref().unwrap_or(&nothing),
            source: self.deprecated_source.as_ref(),
            controller: text(&self.reporting_controller),
            instance: text(&self.reporting_instance),
            kind: text(&self.type_),
            reason: text(&self.reason),
            message: text(&self.note),
            first: self.deprecated_first_timestamp.as_ref(),
            last: self.deprecated_last_timestamp.as_ref(),
            event_time: self.event_time.as_ref(),
            count: self.deprecated_count.unwrap_or(0),
            series: series.map(|series| (series.count, Some(&series.last_observed_time))),
        }
        .cells(now)
    }
}

/// What the two forms of an event have in common.
struct Parts<'a> {
    metadata: &'a ObjectMeta,
    object: &'a ObjectReference,
    source: Option<&'a EventSource>,
    controller: &'a str,
    instance: &'a str,
    kind: &'a str,
    reason: &'a str,
    message: &'a str,
    first: Option<&'a Time>,
    last: Option<&'a Time>,
    event_time: Option<&'a MicroTime>,
    count: i32,
    series: Option<(i32, Option<&'a MicroTime>)>,
}

impl Parts<'_> {
    fn cells(&self, now: Timestamp) -> Vec<Value> {
        let event_time = self.event_time.map(|event_time| event_time.0);
        let first = self.first.map(|first| first.0).or(event_time);
        let (last, count) = match self.series {
            Some((count, last)) => (last.map(|last| last.0), count),
            // An event that happened once need not count.
            None => (self.last.map(|last| last.0).or(first), if self.count == 0 { 1 } else { self.count }),
        };
        vec![
            time::age(last, now).into(),
            self.kind.into(),
            self.reason.into(),
            self.target().into(),
            text(&self.object.field_path).into(),
            self.source_words().into(),
            self.message.trim().into(),
            time::age(first, now).into(),
            count.into(),
            name(self.metadata),
        ]
    }

    /// `pod/web`.
    fn target(&self) -> String {
        let kind = text(&self.object.kind).to_lowercase();
        match text(&self.object.name) {
            "" => kind,
            name => format!("{kind}/{name}"),
        }
    }

    /// `kubelet, node1`.
    fn source_words(&self) -> String {
        let or = |first: Option<&Option<String>>, second: &str| match first.map(text).unwrap_or_default() {
            "" => second.to_owned(),
            first => first.to_owned(),
        };
        let component = or(self.source.map(|source| &source.component), self.controller);
        match or(self.source.map(|source| &source.host), self.instance) {
            host if host.is_empty() => component,
            host => format!("{component}, {host}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::printers::tests::check_group;

    #[test]
    fn a_67_the_cells_of_an_event() {
        let event = json!({
            "metadata": {"name": "web.17"},
            "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{app}"},
            "source": {"component": "kubelet", "host": "n"},
            "type": "Warning", "reason": "BackOff", "message": " Back-off \n", "count": 4,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:04:00Z",
        });
        let wanted = json!([
            "60s",
            "Warning",
            "BackOff",
            "pod/web",
            "spec.containers{app}",
            "kubelet, n",
            "Back-off",
            "5m",
            4,
            "web.17"
        ]);
        check_group("", "Event", event, wanted);
    }

    #[test]
    fn a_265_both_forms_of_an_event_read_alike() {
        let wanted = json!(["60s", "Normal", "Started", "pod/web", "", "kubelet, n", "hello", "60s", 1, "e"]);
        let core = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "web"}, "type": "Normal", "reason": "Started",
            "message": "hello", "eventTime": "2026-01-01T00:04:00.000000Z", "reportingComponent": "kubelet", "reportingInstance": "n",
        });
        check_group("", "Event", core, wanted.clone());
        let new = json!({
            "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "web"}, "type": "Normal", "reason": "Started",
            "note": "hello", "eventTime": "2026-01-01T00:04:00.000000Z", "reportingController": "kubelet", "reportingInstance": "n",
        });
        check_group("events.k8s.io", "Event", new, wanted);
    }

    #[test]
    fn a_series_says_how_often_and_when_last() {
        let event = json!({
            "metadata": {"name": "e"}, "regarding": {"kind": "Node"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "series": {"count": 7, "lastObservedTime": "2026-01-01T00:04:30.000000Z"},
        });
        check_group("events.k8s.io", "Event", event, json!(["30s", "", "", "node", "", "", "", "5m", 7, "e"]));
    }
}
