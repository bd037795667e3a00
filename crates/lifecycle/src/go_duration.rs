//! Durations in the form in which Go prints them, which is the form of Kubernetes' messages.

use std::time::Duration;

/// `duration` to the millisecond: `0s`, `350ms`, `1.532s`, `1m20s`, `5m0s`, `1h0m0s`.
pub(crate) fn format(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    if milliseconds < 1000 {
        return format!("{milliseconds}ms");
    }
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    let seconds = format_seconds(rest);
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

fn format_seconds(milliseconds: u128) -> String {
    let (whole, fraction) = (milliseconds / 1000, milliseconds % 1000);
    if fraction == 0 {
        return format!("{whole}s");
    }
    let digits = format!("{fraction:03}");
    format!("{whole}.{}s", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        let cases =
            [(0, "0s"), (350, "350ms"), (1532, "1.532s"), (10_000, "10s"), (80_000, "1m20s"), (300_000, "5m0s")];
        for (milliseconds, text) in cases {
            assert_eq!(format(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(format(Duration::from_secs(3_660)), "1h1m0s");
        assert_eq!(format(Duration::from_millis(60_100)), "1m0.1s");
    }
}
