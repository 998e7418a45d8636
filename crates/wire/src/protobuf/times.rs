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

/// Returns the date of a day, counted from 1970-01-01: years of 400 years, 100, 4 and 1, which start
/// in March, so that the day that some years lack is their last one.
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
}
