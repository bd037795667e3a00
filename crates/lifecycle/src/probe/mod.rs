//! Probes: when they are attempted, and what their outcomes mean.
//!
//! The attempt itself is the node's work ([`crate::Action::Probe`]).
//! `schedule` knows the ticks, `worker` the thresholds.

pub(crate) mod schedule;
pub(crate) mod worker;

use k8s_openapi::api::core::v1::Probe;

/// The three probes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    pub(crate) const ALL: [ProbeKind; 3] = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];

    /// As events name it (L-423).
    pub(crate) fn name(self) -> &'static str {
        match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Readiness => "Readiness",
            ProbeKind::Liveness => "Liveness",
        }
    }

    /// What is held true of a new container before its first result (L-403).
    pub(crate) fn initial(self) -> ProbeResult {
        match self {
            ProbeKind::Startup => ProbeResult::Unknown,
            ProbeKind::Readiness => ProbeResult::Failure,
            ProbeKind::Liveness => ProbeResult::Success,
        }
    }
}

/// What a worker holds true of its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    Unknown,
    Success,
    Failure,
}

/// A probe's numbers with the API's defaults (L-111).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeNumbers {
    pub(crate) period_seconds: i64,
    pub(crate) initial_delay_seconds: i64,
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
}

impl ProbeNumbers {
    pub(crate) fn of(probe: &Probe) -> Self {
        let positive = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        ProbeNumbers {
            period_seconds: i64::from(positive(probe.period_seconds, 10)),
            initial_delay_seconds: i64::from(probe.initial_delay_seconds.unwrap_or(0).max(0)),
            success_threshold: positive(probe.success_threshold, 1),
            failure_threshold: positive(probe.failure_threshold, 3),
        }
    }
}
