//! Schedules of CronJobs: their grammar (J-128) and when they are due next.
//!
//! A schedule is read as Kubernetes reads it, with its words for what is wrong.
//! When a due time is acted upon, and what becomes of missed ones, is the CronJob controller's business.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use thiserror::Error;

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ScheduleError(String);

/// When a CronJob is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    rule: Rule,
    time_zone: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Every(SignedDuration),
    At(Box<Fields>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minute: Set,
    hour: Set,
    day_of_month: Set,
    month: Set,
    day_of_week: Set,
}

/// Numbers that a field has, and whether it was written with a star.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    bits: u64,
    is_star: bool,
}

impl Set {
    fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits.checked_shr(number).is_some_and(|bits| bits & 1 == 1))
    }
}

struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { low: 0, high: 59, names: &[] };
const HOURS: Bounds = Bounds { low: 0, high: 23, names: &[] };
const DAYS_OF_MONTH: Bounds = Bounds { low: 1, high: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAYS_OF_WEEK: Bounds = Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };
/// A schedule that finds no time within so many years never does.
const YEARS_MAX: i16 = 5;

impl Schedule {
    /// Reads a schedule.
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        if text.is_empty() {
            return Err(ScheduleError("empty spec string".to_owned()));
        }
        let (time_zone, rest) = split_time_zone(text)?;
        let rule = if rest.starts_with('@') { parse_descriptor(rest)? } else { parse_fields(rest)? };
        Ok(Schedule { rule, time_zone: time_zone.map(str::to_owned) })
    }

    /// The zone that stands in the schedule itself, which new CronJobs may not have.
    pub fn time_zone(&self) -> Option<&str> {
        self.time_zone.as_deref()
    }

    /// The first due time after `after`, by the clock of the zone given.
    /// `None` if there is none, as on the 30th of February.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let whole_second = |time: Timestamp| Timestamp::from_second(time.as_second()).ok();
        match &self.rule {
            Rule::Every(delay) => whole_second(after)?.checked_add(*delay).ok(),
            Rule::At(fields) => {
                let start = whole_second(after)?.checked_add(1.second()).ok()?.to_zoned(zone.clone());
                fields.first_at_or_after(start).map(|time| time.timestamp())
            }
        }
    }
}

impl Fields {
    /// Goes from the coarse to the fine field, and back to the first whenever a step turns over a coarser one.
    fn first_at_or_after(&self, start: Zoned) -> Option<Zoned> {
        let year_max = start.year().saturating_add(YEARS_MAX);
        let mut time = start;
        while time.year() <= year_max {
            if !self.month.has(time.month()) {
                time = time.first_of_month().ok()?.start_of_day().ok()?.checked_add(1.month()).ok()?;
            } else if !self.has_day(&time) {
                time = time.start_of_day().ok()?.tomorrow().ok()?.start_of_day().ok()?;
            } else if !self.hour.has(time.hour()) {
                time = start_of_hour(&time)?.checked_add(1.hour()).ok()?;
            } else if !self.minute.has(time.minute()) || time.second() != 0 {
                let minute = time.checked_sub(i64::from(time.second()).seconds()).ok()?;
                time = minute.checked_add(1.minute()).ok()?;
            } else {
                return Some(time);
            }
        }
        None
    }

    /// If both day fields are restricted, either will do.
    fn has_day(&self, time: &Zoned) -> bool {
        let of_month = self.day_of_month.has(time.day());
        let of_week = self.day_of_week.has(time.weekday().to_sunday_zero_offset());
        if self.day_of_month.is_star || self.day_of_week.is_star { of_month && of_week } else { of_month || of_week }
    }
}

fn start_of_hour(time: &Zoned) -> Option<Zoned> {
    let past = i64::from(time.minute()) * 60 + i64::from(time.second());
    time.checked_sub(past.seconds()).ok()
}

fn split_time_zone(text: &str) -> Result<(Option<&str>, &str), ScheduleError> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok((None, text));
    };
    let Some((zone, rest)) = rest.split_once(' ') else {
        let why = "invalid schedule format: runtime error: slice bounds out of range [:-1]";
        return Err(ScheduleError(why.to_owned()));
    };
    if !zone.is_empty() && find_time_zone(zone).is_none() {
        return Err(ScheduleError(format!("provided bad location {zone}: unknown time zone {zone}")));
    }
    Ok((Some(zone), rest.trim()))
}

/// The time zone of an IANA name, written as the database writes it.
pub fn find_time_zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name))
}

fn parse_fields(text: &str) -> Result<Rule, ScheduleError> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
        let list = fields.join(" ");
        return Err(ScheduleError(format!("expected exactly 5 fields, found {}: [{list}]", fields.len())));
    };
    Ok(Rule::At(Box::new(Fields {
        minute: parse_field(minute, &MINUTES)?,
        hour: parse_field(hour, &HOURS)?,
        day_of_month: parse_field(day_of_month, &DAYS_OF_MONTH)?,
        month: parse_field(month, &MONTHS)?,
        day_of_week: parse_field(day_of_week, &DAYS_OF_WEEK)?,
    })))
}

fn parse_descriptor(text: &str) -> Result<Rule, ScheduleError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(ScheduleError(format!("unrecognized descriptor: {text}")));
            };
            return match parse_duration(duration) {
                Ok(delay) => {
                    // Shorter than a second is a second, and parts of seconds are cut off.
                    Ok(Rule::Every(SignedDuration::from_secs(delay.as_secs().max(1))))
                }
                Err(why) => Err(ScheduleError(format!("failed to parse duration {text}: {why}"))),
            };
        }
    };
    parse_fields(fields)
}

fn parse_field(text: &str, bounds: &Bounds) -> Result<Set, ScheduleError> {
    let mut set = Set::default();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let part = parse_range(range, bounds)?;
        set.bits |= part.bits;
        set.is_star |= part.is_star;
    }
    Ok(set)
}

fn parse_range(text: &str, bounds: &Bounds) -> Result<Set, ScheduleError> {
    let wrong = |why: String| Err(ScheduleError(why));
    let mut parts = text.split('/');
    let range = parts.next().unwrap_or("");
    let ends: Vec<&str> = range.split('-').collect();
    let mut is_star = false;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => {
            is_star = true;
            (bounds.low, bounds.high)
        }
        [only] => parse_number(only, bounds.names).map(|number| (number, number))?,
        [first, last] => (parse_number(first, bounds.names)?, parse_number(last, bounds.names)?),
        [first, ..] => {
            parse_number(first, bounds.names)?;
            return wrong(format!("too many hyphens: {text}"));
        }
        [] => return wrong(format!("too many hyphens: {text}")),
    };
    let step = match (parts.next(), parts.next()) {
        (None, _) => 1,
        (Some(step), None) => {
            let step = parse_number(step, &[])?;
            if ends.len() == 1 {
                end = bounds.high;
            }
            is_star &= step <= 1;
            step
        }
        _ => return wrong(format!("too many slashes: {text}")),
    };
    if start < bounds.low {
        return wrong(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.low));
    }
    if end > bounds.high {
        return wrong(format!("end of range ({end}) above maximum ({}): {text}", bounds.high));
    }
    if start > end {
        return wrong(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    let Ok(step_by @ 1..) = usize::try_from(step) else {
        return wrong(format!("step of range should be a positive number: {text}"));
    };
    let bits = (start..=end).step_by(step_by).fold(0_u64, |bits, number| bits | 1 << number);
    Ok(Set { bits, is_star })
}

fn parse_number(text: &str, names: &[&str]) -> Result<u32, ScheduleError> {
    if let Some(place) = names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
        // Months count from one, days of the week from zero.
        let first = usize::from(names.len() == MONTHS.names.len());
        return u32::try_from(place + first).map_err(|_| ScheduleError(format!("failed to parse int from {text}")));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = match text.parse::<i64>() {
        Ok(number) if number < 0 => {
            return Err(ScheduleError(format!("negative number ({number}) not allowed: {text}")));
        }
        Ok(number) => match u32::try_from(number) {
            Ok(number) => return Ok(number),
            // Greater than any bound; the bound is named where it is checked.
            Err(_) => return Ok(u32::MAX),
        },
        Err(_) if is_number => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(ScheduleError(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}")))
}

/// Reads `1h30m` and the like.
fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = SignedDuration::ZERO;
    while !rest.is_empty() {
        let number_end =
            rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end =
            after.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let seconds = match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        let part = SignedDuration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(total * sign)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use jiff::Timestamp;

    use super::{Schedule, find_time_zone};

    fn next(schedule: &str, after: &str, zone: &str) -> Option<String> {
        let zone = find_time_zone(zone).unwrap();
        let after: Timestamp = after.parse().unwrap();
        Schedule::parse(schedule).unwrap().next_after(after, &zone).map(|time| time.to_string())
    }

    #[test]
    fn due_times_follow_the_grammar() {
        let cases = [
            ("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
            ("*/15 * * * *", "2026-01-01T00:14:59.5Z", "2026-01-01T00:15:00Z"),
            ("*/1 * * * ?", "2026-01-01T00:00:01Z", "2026-01-01T00:01:00Z"),
            ("20-35/15 * * * *", "2026-01-01T00:20:00Z", "2026-01-01T00:35:00Z"),
            ("5/20 * * * *", "2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z"),
            ("0 3 * * mon-fri", "2026-01-02T04:00:00Z", "2026-01-05T03:00:00Z"),
            ("0 0 13 * fri", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 31 * *", "2026-02-01T00:00:00Z", "2026-03-31T00:00:00Z"),
            ("0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
            ("@yearly", "2026-05-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("@hourly", "2026-01-01T00:59:59Z", "2026-01-01T01:00:00Z"),
            ("@every 1h30m", "2026-01-01T00:00:00.7Z", "2026-01-01T01:30:00Z"),
            ("@every 10ms", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ];
        let found: Vec<_> = cases.iter().map(|(schedule, after, _)| next(schedule, after, "UTC")).collect();
        let expected: Vec<_> = cases.iter().map(|(_, _, due)| Some((*due).to_owned())).collect();
        assert_eq!(found, expected);
        assert_eq!(next("0 0 30 2 *", "2026-01-01T00:00:00Z", "UTC"), None);
    }

    #[test]
    fn due_times_follow_the_clock_of_the_zone() {
        // Clocks go from 02:00 to 03:00 on the 29th of March: there is no 02:30.
        let spring = next("30 2 * * *", "2026-03-28T12:00:00Z", "Europe/Berlin");
        assert_eq!(spring.as_deref(), Some("2026-03-30T00:30:00Z"));
        let plain = next("0 9 * * *", "2026-07-01T08:00:00Z", "America/New_York");
        assert_eq!(plain.as_deref(), Some("2026-07-01T13:00:00Z"));
        assert!(find_time_zone("europe/berlin").is_none());
    }

    #[test]
    fn what_is_no_schedule_is_named_as_kubernetes_names_it() {
        let cases = [
            ("", "empty spec string"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            ("TZ=Moon/Base 0 0 * * *", "provided bad location Moon/Base: unknown time zone Moon/Base"),
        ];
        let found: Vec<_> =
            cases.iter().map(|(text, _)| (*text, Schedule::parse(text).unwrap_err().to_string())).collect();
        assert_eq!(found, cases.map(|(text, why)| (text, why.to_owned())));
    }
}
