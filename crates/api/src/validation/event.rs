//! Events: lenient through core/v1, strict through events.k8s.io/v1.

use k8s_openapi::api::core::v1::Event;

use super::errors::Errors;
use super::meta::{Scope, validate_immutable, validate_object_meta, validate_object_meta_update};
use super::names::{self, NameRule};
use crate::absent::text;
use crate::field::{FieldError, FieldPath};

const NAME_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Checks an event written through core/v1, created or replaced.
pub fn validate_core_event(event: &Event) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_agreement(event, "reportingComponent", &mut errors);
    errors.into_list()
}

/// Checks an event that is to be created through events.k8s.io/v1.
pub fn validate_event(event: &Event) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_agreement(event, "reportingController", &mut errors);
    let metadata_at = FieldPath::root("metadata");
    validate_object_meta(&event.metadata, Scope::Namespaced, NameRule::Subdomain, &metadata_at, &mut errors);
    validate_series(event, &mut errors);
    if event.event_time.is_none() {
        errors.required(&FieldPath::root("eventTime"), "");
    }
    let kind = text(&event.type_);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&FieldPath::root("type"), "", format!("has invalid value: {kind}"));
    }
    let source = event.source.clone().unwrap_or_default();
    let old_fields = [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count.unwrap_or(0) != 0),
        ("source", !text(&source.component).is_empty() || !text(&source.host).is_empty()),
    ];
    for (field, _) in old_fields.into_iter().filter(|(_, is_set)| *is_set) {
        errors.invalid(&FieldPath::root(field), "", "needs to be unset");
    }
    errors.into_list()
}

/// Checks an event that is to replace another through events.k8s.io/v1: only the series may go on.
pub fn validate_event_update(new: &Event, old: &Event) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_agreement(new, "reportingController", &mut errors);
    validate_object_meta_update(&new.metadata, &old.metadata, &FieldPath::root("metadata"), &mut errors);
    if new.series != old.series {
        validate_series(new, &mut errors);
    }
    let at = FieldPath::root;
    validate_immutable(&new.involved_object, &old.involved_object, &at("involvedObject"), &mut errors);
    validate_immutable(&new.reason, &old.reason, &at("reason"), &mut errors);
    validate_immutable(&new.message, &old.message, &at("message"), &mut errors);
    validate_immutable(&new.source, &old.source, &at("source"), &mut errors);
    validate_immutable(&new.first_timestamp, &old.first_timestamp, &at("firstTimestamp"), &mut errors);
    validate_immutable(&new.last_timestamp, &old.last_timestamp, &at("lastTimestamp"), &mut errors);
    validate_immutable(&new.count.unwrap_or(0), &old.count.unwrap_or(0), &at("count"), &mut errors);
    validate_immutable(&new.reason, &old.reason, &at("reason"), &mut errors);
    validate_immutable(&new.type_, &old.type_, &at("type"), &mut errors);
    if !is_same_microsecond(new, old) {
        validate_immutable(&new.event_time, &old.event_time, &at("eventTime"), &mut errors);
    }
    validate_immutable(&new.action, &old.action, &at("action"), &mut errors);
    validate_immutable(&new.related, &old.related, &at("related"), &mut errors);
    let controller_at = at("reportingController");
    validate_immutable(&new.reporting_component, &old.reporting_component, &controller_at, &mut errors);
    let instance_at = at("reportingInstance");
    validate_immutable(&new.reporting_instance, &old.reporting_instance, &instance_at, &mut errors);
    errors.into_list()
}

/// Event and object stand in one namespace; an event of the new kind says who reported it.
fn validate_agreement(event: &Event, controller_field: &str, errors: &mut Errors) {
    let (namespace, of_object) = (text(&event.metadata.namespace), text(&event.involved_object.namespace));
    let is_old = event.event_time.is_none();
    let agrees = match (is_old, of_object.is_empty()) {
        (true, true) => matches!(namespace, "" | "default"),
        (true, false) => namespace == of_object,
        (false, true) => matches!(namespace, "default" | "kube-system"),
        (false, false) => true,
    };
    if !agrees {
        let at = FieldPath::root("involvedObject").child("namespace");
        errors.invalid(&at, of_object, "does not match event.namespace");
    }
    if !is_old {
        validate_report(event, controller_field, errors);
    }
    errors.invalid_text(&FieldPath::root("namespace"), namespace, names::dns_subdomain(namespace));
}

fn validate_report(event: &Event, controller_field: &str, errors: &mut Errors) {
    let controller = text(&event.reporting_component);
    let controller_at = FieldPath::root(controller_field);
    if controller.is_empty() {
        errors.required(&controller_at, "");
    }
    errors.invalid_text(&controller_at, controller, names::qualified_name(controller));
    let fields =
        [("reportingInstance", &event.reporting_instance), ("action", &event.action), ("reason", &event.reason)];
    for (field, value) in fields {
        let at = FieldPath::root(field);
        if text(value).is_empty() {
            errors.required(&at, "");
        }
        if text(value).len() > NAME_BYTES_MAX {
            errors.invalid(&at, "", format!("can have at most {NAME_BYTES_MAX} characters"));
        }
    }
    if text(&event.message).len() > MESSAGE_BYTES_MAX {
        let detail = format!("can have at most {MESSAGE_BYTES_MAX} characters");
        errors.invalid(&FieldPath::root("message"), "", detail);
    }
}

fn validate_series(event: &Event, errors: &mut Errors) {
    let Some(series) = &event.series else { return };
    if series.count.unwrap_or(0) < 2 {
        errors.invalid(&FieldPath::root("series.count"), "", "should be at least 2");
    }
    if series.last_observed_time.is_none() {
        errors.required(&FieldPath::root("series.lastObservedTime"), "");
    }
}

/// Clients cut times to microseconds, which is no change.
fn is_same_microsecond(new: &Event, old: &Event) -> bool {
    let microsecond = |event: &Event| event.event_time.as_ref().map(|time| time.0.as_microsecond());
    microsecond(new) == microsecond(old)
}
