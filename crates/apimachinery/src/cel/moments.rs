//! Durations and moments: parsing, formatting and their parts.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use super::error::EvaluationError;

/// The first and the last second that a moment can have: the years 1 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The length of the name of a time zone; the longest ones have 32 bytes.
const MAX_ZONE: usize = 100;

/// Parses a duration as Go does: `1h30m`, `-1.5s`. The result is in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i128;
    while !rest.is_empty() {
        let (amount, after) = take_amount(rest)?;
        let end = after.find(|it: char| it.is_ascii_digit() || it == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = match unit {
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        sum = sum.checked_add(amount.of(unit)?)?;
        rest = after;
    }
    i64::try_from(if negative { -sum } else { sum }).ok()
}

/// Parses the format `duration` of a schema: that of Go, or numbers with names of units such as
/// `3 days` (k8s.io/kube-openapi pkg/validation/strfmt/duration.go).
pub(crate) fn parse_schema_duration(text: &str) -> Option<i64> {
    if let Some(duration) = parse_duration(text) {
        return Some(duration);
    }
    let (negative, mut rest) = match text.trim().strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let mut sum = 0_i128;
    while !rest.is_empty() {
        let (amount, after) = take_amount(rest)?;
        let after = after.trim_start();
        let end = after.find(|it: char| !it.is_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix('s').filter(|it| it.len() > 2).unwrap_or(&unit);
        let unit = match unit {
            "n" | "ns" | "nano" | "nanosecond" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" | "micro" | "microsecond" => 1_000,
            "ms" | "milli" | "millisecond" => 1_000_000,
            "s" | "sec" | "second" => 1_000_000_000,
            "m" | "min" | "minute" => 60_000_000_000,
            "h" | "hr" | "hour" => 3_600_000_000_000,
            "d" | "day" => 86_400_000_000_000,
            "w" | "wk" | "week" => 604_800_000_000_000,
            _ => return None,
        };
        sum = sum.checked_add(amount.of(unit)?)?;
        rest = after.trim_start();
    }
    i64::try_from(if negative { -sum } else { sum }).ok()
}

/// A decimal number: digits, of which some are behind the point.
struct Amount {
    digits: i128,
    places: u32,
}

impl Amount {
    fn of(&self, unit: i128) -> Option<i128> {
        Some(self.digits.checked_mul(unit)? / 10_i128.checked_pow(self.places)?)
    }
}

fn take_amount(text: &str) -> Option<(Amount, &str)> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Beyond a nanosecond digits have no effect.
    let fraction = fraction.get(..fraction.len().min(15))?;
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    Some((Amount { digits, places: u32::try_from(fraction.len()).ok()? }, rest))
}

/// Formats a duration in seconds: `1.5s`.
pub(crate) fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let mut text = format!("{sign}{seconds}");
    if fraction > 0 {
        let digits = format!("{fraction:09}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text.push('s');
    text
}

/// Parses a moment in the format of RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_form = bytes.len() >= 20
        && bytes.get(4) == Some(&b'-')
        && bytes.get(7) == Some(&b'-')
        && matches!(bytes.get(10), Some(b'T' | b't'))
        && bytes.get(13) == Some(&b':')
        && bytes.get(16) == Some(&b':');
    let moment: Timestamp = has_form.then(|| text.parse().ok())??;
    in_range(moment)
}

/// Parses a date, as the moment when it begins.
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    let date: jiff::civil::Date = (text.len() == 10).then(|| text.parse().ok())??;
    in_range(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

fn in_range(moment: Timestamp) -> Option<Timestamp> {
    SECONDS.contains(&moment.as_second()).then_some(moment)
}

/// Returns the moment so many seconds after 1970.
pub(crate) fn from_seconds(seconds: i64) -> Option<Timestamp> {
    in_range(Timestamp::from_second(seconds).ok()?)
}

/// Adds a duration to a moment.
pub(crate) fn add(moment: Timestamp, nanos: i64) -> Option<Timestamp> {
    let sum = moment.as_nanosecond().checked_add(i128::from(nanos))?;
    in_range(Timestamp::from_nanosecond(sum).ok()?)
}

/// Returns the duration between two moments.
pub(crate) fn between(later: Timestamp, earlier: Timestamp) -> Option<i64> {
    i64::try_from(later.as_nanosecond().checked_sub(earlier.as_nanosecond())?).ok()
}

/// Returns a part of a moment in a time zone, by the function that reads it.
pub(crate) fn part(moment: Timestamp, function: &str, zone: Option<&str>) -> Result<i64, EvaluationError> {
    let zone = match zone {
        None => TimeZone::UTC,
        Some(name) => time_zone(name)?,
    };
    let local = moment.to_zoned(zone).datetime();
    Ok(match function {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        _ => i64::from(local.millisecond()),
    })
}

/// Returns a part of a duration, by the function that reads it.
pub(crate) fn duration_part(nanos: i64, function: &str) -> i64 {
    match function {
        "getHours" => nanos / 3_600_000_000_000,
        "getMinutes" => nanos / 60_000_000_000,
        "getSeconds" => nanos / 1_000_000_000,
        _ => nanos / 1_000_000,
    }
}

/// Returns a time zone by its name, or by its distance from UTC such as `+02:00`.
fn time_zone(name: &str) -> Result<TimeZone, EvaluationError> {
    let offset = || {
        let (sign, rest) = match name.as_bytes().first()? {
            b'-' => (-1, name.get(1..)?),
            b'+' => (1, name.get(1..)?),
            _ => (1, name),
        };
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let is_valid = (0..24).contains(&hours) && (0..60).contains(&minutes);
        let seconds = sign * (hours * 3600 + minutes * 60);
        is_valid.then(|| Offset::from_seconds(seconds).ok())?
    };
    match offset() {
        Some(offset) => Ok(TimeZone::fixed(offset)),
        None if name == "UTC" || name.is_empty() => Ok(TimeZone::UTC),
        None if name.len() > MAX_ZONE => Err(EvaluationError::failed("unknown time zone")),
        None => TimeZone::get(name).map_err(|_| EvaluationError::failed(format!("unknown time zone {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_formatted() {
        for (text, nanos) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("0", Some(0)),
            ("1.0000000001s", Some(1_000_000_000)),
            ("1", None),
            ("h", None),
            ("1d", None),
            ("9999999h", None),
            ("1h ", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
        assert_eq!(parse_schema_duration("3 days"), Some(259_200_000_000_000));
        assert_eq!(parse_schema_duration("1w"), Some(604_800_000_000_000));
        assert_eq!(parse_schema_duration("soon"), None);
        assert_eq!(format_duration(-1_500_000_000), "-1.5s");
        assert_eq!(format_duration(3_600_000_000_000), "3600s");
    }

    #[test]
    fn parts_of_a_moment_depend_on_the_zone() {
        let moment = parse_timestamp("2026-01-31T23:30:15.25Z").unwrap();
        assert_eq!(part(moment, "getMonth", None).unwrap(), 0);
        assert_eq!(part(moment, "getDate", Some("+01:00")).unwrap(), 1);
        assert_eq!(part(moment, "getDayOfWeek", None).unwrap(), 6);
        assert_eq!(part(moment, "getMilliseconds", None).unwrap(), 250);
        assert!(part(moment, "getDate", Some("nowhere")).is_err());
        for text in ["2026-01-31", "0000-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "x"] {
            assert!(parse_timestamp(text).is_none(), "{text}");
        }
    }
}
