//! The correlation of events, as clients of Kubernetes do it before they send (L-1002).
//!
//! [`EventCorrelator`] counts equal events into one, gathers events that differ in their message only, and drops what a source says too often of one object.
//! It is pure: it sends nothing, and `now` is passed in.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Different messages of otherwise equal events, from which on they are gathered.
const SIMILAR_MAX: usize = 10;
/// Similar events that lie further apart than this are not gathered.
const SIMILAR_WITHIN: SignedDuration = SignedDuration::from_secs(600);
/// Events that a source can record of one object at once.
const BURST: f64 = 25.0;
/// Seconds after which one more can be recorded.
const REFILL_SECONDS: f64 = 300.0;
/// Entries of each memory; the one that was used longest ago makes room.
const ENTRIES_MAX: usize = 4096;

/// Remembers what was recorded, and decides what to record.
#[derive(Debug, Default)]
pub struct EventCorrelator {
    similar: BTreeMap<String, Similar>,
    counted: BTreeMap<String, Counted>,
    allowances: BTreeMap<String, Allowance>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Counted {
    name: String,
    count: i32,
    first: Option<Time>,
    last: Timestamp,
}

#[derive(Debug)]
struct Allowance {
    tokens: f64,
    last: Timestamp,
}

impl EventCorrelator {
    /// The event to write: under its own name with a count of 1, or under the name of an equal one with a higher count.
    ///
    /// `None` if the source has said too much of the object.
    /// The event needs `involvedObject`, `source`, `type`, `reason` and `message`; name, namespace, times and count are set here.
    pub fn correlate(&mut self, now: Timestamp, event: Event) -> Option<Event> {
        let (event, key) = self.gather(now, event);
        let event = self.count(now, event, key);
        self.is_allowed(now, &event).then_some(event)
    }

    /// Makes one event of many that differ in their message only.
    fn gather(&mut self, now: Timestamp, mut event: Event) -> (Event, String) {
        let message = event.message.clone().unwrap_or_default();
        let key = similarity_key(&event);
        make_room(&mut self.similar, &key, |similar| similar.last);
        let similar =
            self.similar.entry(key.clone()).or_insert_with(|| Similar { messages: BTreeSet::new(), last: now });
        if now.duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() < SIMILAR_MAX {
            let field_path = event.involved_object.field_path.clone().unwrap_or_default();
            return (event, format!("{key}\0{field_path}\0{message}"));
        }
        similar.messages.pop_first();
        event.message = Some(format!("(combined from similar events): {message}"));
        (event, key)
    }

    fn count(&mut self, now: Timestamp, mut event: Event, key: String) -> Event {
        make_room(&mut self.counted, &key, |counted| counted.last);
        let time = Time(now);
        let object = &event.involved_object;
        let name = || format!("{}.{:x}", object.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let counted = self.counted.entry(key).or_insert_with(|| Counted {
            name: name(),
            count: 0,
            first: Some(time.clone()),
            last: now,
        });
        counted.count = counted.count.saturating_add(1);
        counted.last = now;
        event.metadata.namespace = Some(object.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        event.metadata.name = Some(counted.name.clone());
        event.count = Some(counted.count);
        event.first_timestamp = counted.first.clone();
        event.last_timestamp = Some(time);
        event
    }

    /// A bucket of tokens for each source, object and type: warnings don't use up what is left for normal events.
    fn is_allowed(&mut self, now: Timestamp, event: &Event) -> bool {
        let kind = event.type_.as_deref().unwrap_or_default();
        let key = [&source_key(event), &object_key(event), kind].join("\0");
        make_room(&mut self.allowances, &key, |allowance| allowance.last);
        let allowance = self.allowances.entry(key).or_insert(Allowance { tokens: BURST, last: now });
        let passed = now.duration_since(allowance.last).as_secs_f64().max(0.0);
        allowance.tokens = (allowance.tokens + passed / REFILL_SECONDS).min(BURST);
        allowance.last = now;
        let allowed = allowance.tokens >= 1.0;
        if allowed {
            allowance.tokens -= 1.0;
        }
        allowed
    }
}

/// What events have in common that may be gathered; the container that they are about does not count.
fn similarity_key(event: &Event) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let own = [&event.type_, &event.reason, &event.reporting_component, &event.reporting_instance].map(part);
    [source_key(event), object_key(event), own.join("\0")].join("\0")
}

fn source_key(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    format!("{}\0{}", source.component.unwrap_or_default(), source.host.unwrap_or_default())
}

fn object_key(event: &Event) -> String {
    let object = &event.involved_object;
    [&object.api_version, &object.kind, &object.namespace, &object.name, &object.uid]
        .map(|part| part.as_deref().unwrap_or_default())
        .join("\0")
}

/// Drops the entry that was used longest ago, if there is no room for a new one.
fn make_room<V>(entries: &mut BTreeMap<String, V>, key: &str, last: impl Fn(&V) -> Timestamp) {
    if entries.len() < ENTRIES_MAX || entries.contains_key(key) {
        return;
    }
    if let Some(oldest) = entries.iter().min_by_key(|(_, value)| last(value)).map(|(key, _)| key.clone()) {
        entries.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EventSource, ObjectReference};

    use super::*;

    fn event(message: &str) -> Event {
        Event {
            involved_object: ObjectReference {
                name: Some("web".to_owned()),
                namespace: Some("shop".to_owned()),
                ..ObjectReference::default()
            },
            source: Some(EventSource { component: Some("kubelet".to_owned()), host: None }),
            type_: Some("Normal".to_owned()),
            reason: Some("Pulled".to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap_or_default()
    }

    fn seen(event: Option<Event>) -> Option<(String, i32, String)> {
        event.map(|event| {
            (
                event.metadata.name.unwrap_or_default(),
                event.count.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        })
    }

    #[test]
    fn l_1002_equal_events_are_counted_under_one_name() {
        let mut correlator = EventCorrelator::default();
        let first = correlator.correlate(at(0), event("pulled")).unwrap_or_default();
        let second = correlator.correlate(at(60), event("pulled")).unwrap_or_default();
        assert_eq!(first.metadata, second.metadata);
        assert_eq!(first.metadata.name.as_deref(), Some("web.17979cfe362a0000"));
        assert_eq!((first.count, second.count), (Some(1), Some(2)));
        assert_eq!((second.first_timestamp, second.last_timestamp), (Some(Time(at(0))), Some(Time(at(60)))));
    }

    #[test]
    fn l_1002_from_the_tenth_message_on_similar_events_are_gathered() {
        let mut correlator = EventCorrelator::default();
        for number in 0..9 {
            let message = format!("message {number}");
            assert_eq!(seen(correlator.correlate(at(number), event(&message))).map(|seen| seen.2), Some(message));
        }
        let tenth = seen(correlator.correlate(at(9), event("message 9")));
        let eleventh = seen(correlator.correlate(at(10), event("message 10")));
        let name = tenth.as_ref().map(|tenth| tenth.0.clone()).unwrap_or_default();
        assert_eq!(tenth, Some((name.clone(), 1, "(combined from similar events): message 9".to_owned())));
        assert_eq!(eleventh, Some((name, 2, "(combined from similar events): message 10".to_owned())));
        let later = seen(correlator.correlate(at(1000), event("message 11")));
        assert_eq!(later.map(|later| later.2).as_deref(), Some("message 11"));
    }

    #[test]
    fn l_1002_events_of_different_containers_are_counted_apart() {
        let mut correlator = EventCorrelator::default();
        let of = |container: &str| {
            let mut event = event("pulled");
            event.involved_object.field_path = Some(format!("spec.containers{{{container}}}"));
            event
        };
        let counts = [("a", 0), ("b", 1), ("a", 2)]
            .map(|(container, second)| correlator.correlate(at(second), of(container)).and_then(|event| event.count));
        assert_eq!(counts, [Some(1), Some(1), Some(2)]);
    }

    #[test]
    fn l_1002_warnings_leave_room_for_normal_events() {
        let mut correlator = EventCorrelator::default();
        let warning = || Event { type_: Some("Warning".to_owned()), ..event("failed") };
        let passed = (0..30).filter(|_| correlator.correlate(at(0), warning()).is_some()).count();
        assert_eq!((passed, correlator.correlate(at(0), event("pulled")).is_some()), (25, true));
    }

    #[test]
    fn l_1002_a_source_has_25_events_per_object_and_one_more_each_five_minutes() {
        let mut correlator = EventCorrelator::default();
        let passed = (0..30).filter(|_| correlator.correlate(at(0), event("again")).is_some()).count();
        assert_eq!(passed, 25);
        assert_eq!(correlator.correlate(at(299), event("again")), None);
        assert!(correlator.correlate(at(301), event("again")).is_some());
    }
}
