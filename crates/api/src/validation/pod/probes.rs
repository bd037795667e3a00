//! Probes and lifecycle hooks (L-1214, L-1215).

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::container::Surroundings;
use crate::absent::{items, text};
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names;

/// Sorted as Kubernetes lists them.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
const WINDOWS_SIGNALS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// What a probe or hook does; hooks have no gRPC, probes no sleep.
#[derive(Default)]
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

pub(super) fn validate_hooks_and_probes(
    container: &Container,
    surroundings: &Surroundings<'_>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    if let Some(lifecycle) = &container.lifecycle {
        validate_lifecycle(lifecycle, surroundings, &at.child("lifecycle"), errors);
    }
    if let Some(probe) = &container.liveness_probe {
        validate_single_success_probe(probe, &at.child("livenessProbe"), errors);
    }
    if let Some(probe) = &container.readiness_probe {
        let at = at.child("readinessProbe");
        validate_probe(probe, &at, errors);
        if let Some(seconds) = probe.termination_grace_period_seconds {
            let detail = "must not be set for readinessProbes";
            errors.invalid(&at.child("terminationGracePeriodSeconds"), seconds, detail);
        }
    }
    if let Some(probe) = &container.startup_probe {
        validate_single_success_probe(probe, &at.child("startupProbe"), errors);
    }
}

/// A port's number or name.
pub(crate) fn validate_port(port: &IntOrString, at: &FieldPath, errors: &mut Errors) {
    match port {
        IntOrString::Int(number) => errors.port_number(at, *number),
        IntOrString::String(name) => errors.invalid_text(at, name, names::port_name(name)),
    }
}

fn validate_lifecycle(lifecycle: &Lifecycle, surroundings: &Surroundings<'_>, at: &FieldPath, errors: &mut Errors) {
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            let at = at.child(field);
            validate_handler(&handler_of_hook(hook), surroundings.grace_period_seconds, &at, errors);
        }
    }
    if let Some(signal) = &lifecycle.stop_signal {
        let at = at.child("stopSignal");
        match surroundings.os {
            None => errors.forbidden(&at, "may not be set for containers with empty `spec.os.name`"),
            Some("windows") => errors.one_of(&at, signal, &WINDOWS_SIGNALS),
            Some("linux") => errors.one_of(&at, signal, &LINUX_SIGNALS),
            Some(_) => {}
        }
    }
}

fn handler_of_hook(hook: &LifecycleHandler) -> Handler<'_> {
    Handler {
        exec: hook.exec.as_ref(),
        http_get: hook.http_get.as_ref(),
        tcp_socket: hook.tcp_socket.as_ref(),
        grpc: None,
        sleep: hook.sleep.as_ref(),
    }
}

fn validate_single_success_probe(probe: &Probe, at: &FieldPath, errors: &mut Errors) {
    validate_probe(probe, at, errors);
    let threshold = probe.success_threshold.unwrap_or(0);
    if threshold != 1 {
        errors.invalid(&at.child("successThreshold"), threshold, "must be 1");
    }
}

fn validate_probe(probe: &Probe, at: &FieldPath, errors: &mut Errors) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    validate_handler(&handler, None, at, errors);
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (field, value) in numbers {
        errors.nonnegative(&at.child(field), value.unwrap_or(0));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds.filter(|seconds| *seconds <= 0) {
        errors.invalid(&at.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

fn validate_handler(handler: &Handler<'_>, grace_period_seconds: Option<i64>, at: &FieldPath, errors: &mut Errors) {
    let mut has_handler = false;
    // The first handler is checked, all others are refused.
    let mut is_first = |field: &str, errors: &mut Errors| {
        let is_first = !std::mem::replace(&mut has_handler, true);
        if !is_first {
            errors.forbidden(&at.child(field), "may not specify more than 1 handler type");
        }
        is_first
    };
    let exec = handler.exec.filter(|_| is_first("exec", errors));
    if exec.is_some_and(|action| items(&action.command).is_empty()) {
        errors.required(&at.child("exec").child("command"), "");
    }
    if let Some(action) = handler.http_get.filter(|_| is_first("httpGet", errors)) {
        validate_http_get(action, &at.child("httpGet"), errors);
    }
    if let Some(action) = handler.tcp_socket.filter(|_| is_first("tcpSocket", errors)) {
        validate_port(&action.port, &at.child("tcpSocket").child("port"), errors);
    }
    if let Some(action) = handler.grpc.filter(|_| is_first("grpc", errors)) {
        errors.port_number(&at.child("grpc").child("port"), action.port);
    }
    if let Some(action) = handler.sleep.filter(|_| is_first("sleep", errors)) {
        validate_sleep(action, grace_period_seconds, &at.child("sleep"), errors);
    }
    if !has_handler {
        errors.required(at, "must specify a handler type");
    }
}

fn validate_http_get(action: &HTTPGetAction, at: &FieldPath, errors: &mut Errors) {
    if text(&action.path).is_empty() {
        errors.required(&at.child("path"), "");
    }
    validate_port(&action.port, &at.child("port"), errors);
    errors.one_of(&at.child("scheme"), text(&action.scheme), &["HTTP", "HTTPS"]);
    for header in items(&action.http_headers) {
        errors.invalid_text(&at.child("httpHeaders"), &header.name, names::http_header_name(&header.name));
    }
}

fn validate_sleep(action: &SleepAction, grace_period_seconds: Option<i64>, at: &FieldPath, errors: &mut Errors) {
    let Some(grace) = grace_period_seconds else { return };
    if action.seconds < 0 || action.seconds > grace {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(at, action.seconds, detail);
    }
}
