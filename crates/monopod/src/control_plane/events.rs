//! Where events are recorded: counted and gathered as Kubernetes' clients do it, then stored.

use std::sync::{Mutex, PoisonError};

use api::events::EventCorrelator;
use apiserver::{ApiError, Part, Registry, ResourceType, WriteOptions};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use serde_json::Value;

/// Records events into the registry.
pub(crate) struct EventSink {
    registry: Registry,
    correlator: Mutex<EventCorrelator>,
}

impl EventSink {
    pub(crate) fn new(registry: Registry) -> Self {
        EventSink { registry, correlator: Mutex::default() }
    }

    /// Records an event of a controller.
    pub(crate) async fn record(
        &self,
        regarding: ObjectReference,
        component: &str,
        warning: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let event = Event {
            involved_object: regarding,
            source: Some(EventSource { component: Some(component.to_owned()), host: None }),
            reporting_component: Some(component.to_owned()),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        };
        self.submit(event).await
    }

    /// Counts an event with its equals, and stores what comes of it.
    pub(crate) async fn submit(&self, event: Event) -> Result<(), ApiError> {
        let now = self.registry.now();
        let correlated = self.correlator.lock().unwrap_or_else(PoisonError::into_inner).correlate(now, event);
        match correlated {
            Some(event) => self.put(event).await,
            // The source says too much of this object; Kubernetes drops it without a word.
            None => Ok(()),
        }
    }

    /// Creates the event, or replaces the one of its name.
    async fn put(&self, event: Event) -> Result<(), ApiError> {
        let events = ResourceType::of::<Event>().ok_or_else(|| ApiError::internal("events are not served"))?;
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let json = serde_json::to_value(&event).map_err(ApiError::internal)?;
        let options = WriteOptions::default();
        match self.registry.create(events, &namespace, json.clone(), &options).await {
            Err(error) if error.is_already_exists() => self.replace(events, &namespace, json).await,
            answer => answer.map(drop),
        }
    }

    async fn replace(&self, events: &ResourceType, namespace: &str, json: Value) -> Result<(), ApiError> {
        self.registry.update(events, namespace, Part::Main, json, &WriteOptions::default()).await.map(drop)
    }
}
