//! Times and durations, as Kubernetes writes them in JSON.

use std::fmt::Write;

/// The seconds from 1970 to the years that have four digits.
const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

const DAY: i64 = 86_400;

/// Appends a time such as `2026-11-17T21:47:18Z`, with microseconds if `nanos` are given. Returns
/// false, and appends nothing, if the year does not have four digits.
pub(super) fn push_time(seconds: i64, nanos: Option<i64>, out: &mut String) -> bool {
    if !(YEAR_0..YEAR_10000).contains(&seconds) {
        return false;
    }
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let micros = nanos.map_or(0, |it| it.clamp(0, 999_999_999) / 1000);
    let written = match nanos {
        None => write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"),
        Some(_) => {
            write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
        }
    };
    written.is_ok()
}

/// Returns the date of a day, counted from 1970-01-01: years of 400 years, 100, 4 and 1, which
/// start in March, so that the day that some years lack is their last one.
fn date(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, of_month)
}

/// Parses a time such as `2026-11-17T21:47:18Z`, with any number of decimals and any offset.
/// Returns the seconds since 1970, rounded down, and the nanoseconds after them. Every time that an
/// API server accepts has them, also the last day of the year 9999.
pub(super) fn parse_time(text: &str) -> Option<(i64, i64)> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let separators = [(4, '-'), (7, '-'), (10, 'T'), (13, ':'), (16, ':')];
    if !separators.iter().all(|(at, it)| text.get(*at..).is_some_and(|rest| rest.starts_with(*it))) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut zone = text.get(19..)?;
    let mut nanos = 0;
    if let Some(fraction) = zone.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let digits = fraction.get(..length.min(9)).filter(|it| !it.is_empty())?;
        nanos = format!("{digits:0<9}").parse().ok()?;
        zone = fraction.get(length..)?;
    }
    let of_day = hour * 3600 + minute * 60 + second;
    Some((day_of(year, month, day) * DAY + of_day - offset(zone)?, nanos))
}

/// Returns the seconds of an offset such as `Z` or `+02:00`.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').filter(|it| it.0.len() == 2 && it.1.len() == 2)?;
    Some(sign * (i64::from(hours.parse::<u8>().ok()?) * 3600 + i64::from(minutes.parse::<u8>().ok()?) * 60))
}

/// Returns the number of a day, counted from 1970-01-01: the reverse of [`date`].
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Appends a duration as Go's `time.Duration` formats it: `1h0m0s`, `1.5s`, `300ms`.
pub(super) fn push_duration(nanos: i64, out: &mut String) {
    if nanos < 0 {
        out.push('-');
    }
    let nanos = nanos.unsigned_abs();
    match nanos {
        0 => out.push_str("0s"),
        1..1_000 => push_decimal(nanos, 0, "ns", out),
        1_000..1_000_000 => push_decimal(nanos, 3, "µs", out),
        1_000_000..1_000_000_000 => push_decimal(nanos, 6, "ms", out),
        _ => {
            let (minutes, rest) = (nanos / 60_000_000_000, nanos % 60_000_000_000);
            if minutes >= 60 {
                push_decimal(minutes / 60, 0, "h", out);
            }
            if minutes > 0 {
                push_decimal(minutes % 60, 0, "m", out);
            }
            push_decimal(rest, 9, "s", out);
        }
    }
}

/// Appends `value` with `decimals` of its digits after the point, without zeros at the end.
fn push_decimal(value: u64, decimals: u32, unit: &str, out: &mut String) {
    let one = 10_u64.pow(decimals);
    let digits = format!("{:0width$}", value % one, width = decimals as usize);
    let digits = digits.trim_end_matches('0');
    out.push_str(&(value / one).to_string());
    if decimals > 0 && !digits.is_empty() {
        out.push('.');
        out.push_str(digits);
    }
    out.push_str(unit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanos: Option<i64>) -> Option<String> {
        let mut out = String::new();
        push_time(seconds, nanos, &mut out).then_some(out)
    }

    #[test]
    fn times_are_formatted_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_794_951_438, "2026-11-17T21:37:18Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (YEAR_0, "0000-01-01T00:00:00Z"),
            (YEAR_10000 - 1, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(time(seconds, None).as_deref(), Some(expected));
        }
        assert_eq!(time(1, Some(2_003_999)).as_deref(), Some("1970-01-01T00:00:01.002003Z"));
        for seconds in [YEAR_10000, YEAR_0 - 1, i64::MAX, i64::MIN] {
            assert_eq!(time(seconds, None), None);
        }
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        for (nanos, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let mut out = String::new();
            push_duration(nanos, &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn times_are_parsed_with_offsets_and_decimals() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("1969-12-31T23:59:59.5Z", Some((-1, 500_000_000))),
            ("2026-11-17T23:37:18.000000001234+02:00", Some((1_794_951_438, 1))),
            ("1970-01-01T00:00:00-01:30", Some((5_400, 0))),
            ("9999-12-31T23:59:59.000000Z", Some((YEAR_10000 - 1, 0))),
            ("0000-01-01T00:00:00Z", Some((YEAR_0, 0))),
            ("2026-11-17 21:37:18Z", None),
            ("2026-13-17T21:37:18Z", None),
            ("2026-11-17T24:37:18Z", None),
            ("2026-11-17T21:37:18", None),
            ("2026-11-17T21:37:18.Z", None),
            ("2026-11-17T21:37:18+2:00", None),
            ("2026-11-1\u{e9}T21:37:18Z", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_formatted_time_is_parsed_to_itself(
            seconds in YEAR_0..YEAR_10000,
            micros in proptest::option::of(0..1_000_000_i64),
        ) {
            let nanos = micros.map(|it| it * 1000);
            let text = time(seconds, nanos).expect("a year of four digits");
            proptest::prop_assert_eq!(parse_time(&text), Some((seconds, nanos.unwrap_or(0))));
        }
    }
}
