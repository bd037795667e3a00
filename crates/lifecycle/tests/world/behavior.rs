//! How a container behaves in the world.

use std::time::Duration;

/// One instance of a container.
#[derive(Clone, Debug)]
pub struct Behavior {
    /// It ends by itself after a time, with a code.
    pub exits: Option<(Duration, i32)>,
    /// It ends so long after its stop signal, with a code; `None`: it ignores the signal.
    pub on_stop: Option<(Duration, i32)>,
    /// The startup probe passes from then on; `None`: never.
    pub starts_up: Option<Duration>,
    /// The readiness probe passes from then on.
    pub ready: Option<Duration>,
    /// The liveness probe fails from then on.
    pub dies: Option<Duration>,
    /// How long postStart takes; an error if it fails.
    pub post_start: (Duration, Option<String>),
    pub pre_stop: (Duration, Option<String>),
    pub message: String,
    pub reason: Option<String>,
}

impl Behavior {
    /// Runs for ever and ends at once on its stop signal, with 0.
    pub fn runs() -> Self {
        Behavior {
            exits: None,
            on_stop: Some((Duration::ZERO, 0)),
            starts_up: Some(Duration::ZERO),
            ready: Some(Duration::ZERO),
            dies: None,
            post_start: (Duration::ZERO, None),
            pre_stop: (Duration::ZERO, None),
            message: String::new(),
            reason: None,
        }
    }

    /// Ends by itself.
    pub fn exits(seconds: f64, code: i32) -> Self {
        Behavior { exits: Some((Duration::from_secs_f64(seconds), code)), ..Behavior::runs() }
    }

    /// Runs for ever and does not care for signals.
    pub fn stubborn() -> Self {
        Behavior { on_stop: None, ..Behavior::runs() }
    }

    /// Ends so long after its stop signal.
    pub fn stops(mut self, seconds: f64, code: i32) -> Self {
        self.on_stop = Some((Duration::from_secs_f64(seconds), code));
        self
    }

    pub fn starts_up(mut self, seconds: Option<f64>) -> Self {
        self.starts_up = seconds.map(Duration::from_secs_f64);
        self
    }

    pub fn ready(mut self, seconds: Option<f64>) -> Self {
        self.ready = seconds.map(Duration::from_secs_f64);
        self
    }

    pub fn dies(mut self, seconds: f64) -> Self {
        self.dies = Some(Duration::from_secs_f64(seconds));
        self
    }

    pub fn post_start(mut self, seconds: f64, error: Option<&str>) -> Self {
        self.post_start = (Duration::from_secs_f64(seconds), error.map(str::to_owned));
        self
    }

    pub fn pre_stop(mut self, seconds: f64, error: Option<&str>) -> Self {
        self.pre_stop = (Duration::from_secs_f64(seconds), error.map(str::to_owned));
        self
    }
}
