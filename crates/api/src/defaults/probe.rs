//! Defaults of probes and lifecycle hooks (L-111).

use k8s_openapi::api::core::v1::{HTTPGetAction, Lifecycle, LifecycleHandler, Probe};

use crate::absent::{default_number, default_text};

pub(super) fn probe(probe: &mut Probe) {
    default_number(&mut probe.timeout_seconds, 1);
    default_number(&mut probe.period_seconds, 10);
    default_number(&mut probe.success_threshold, 1);
    default_number(&mut probe.failure_threshold, 3);
    if let Some(action) = &mut probe.http_get {
        http_get(action);
    }
    if let Some(action) = &mut probe.grpc {
        action.service.get_or_insert_default();
    }
}

pub(super) fn lifecycle(lifecycle: &mut Lifecycle) {
    lifecycle.post_start.as_mut().map(hook);
    lifecycle.pre_stop.as_mut().map(hook);
}

fn hook(handler: &mut LifecycleHandler) {
    if let Some(action) = &mut handler.http_get {
        http_get(action);
    }
}

fn http_get(action: &mut HTTPGetAction) {
    default_text(&mut action.path, "/");
    default_text(&mut action.scheme, "HTTP");
}
