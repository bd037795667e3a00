//! Times and durations as Kubernetes writes them.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// An age or a duration in a column of `kubectl` (L-1108): the two units that matter, `5m30s`, `3d4h`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let two = |large: i64, small: i64, names: (&str, &str)| {
        let (first, rest) = (seconds / large, seconds % large / small);
        if rest == 0 { format!("{first}{}", names.0) } else { format!("{first}{}{rest}{}", names.0, names.1) }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 1, ("m", "s")),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, MINUTE, ("h", "m")),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, HOUR, ("d", "h")),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, DAY, ("y", "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The age of something made at `since`; `<unknown>` if that is not known.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(|| "<unknown>".to_owned(), |since| human_duration(now.duration_since(since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l_1108_ages_show_the_two_units_that_matter() {
        let rows = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR, "8y"),
        ];
        for (seconds, wanted) in rows {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), wanted, "{seconds}");
        }
    }
}
