//! Schedules in the syntax of cron, as github.com/robfig/cron/v3 reads them: five fields, or a name
//! such as `@daily`, or `@every` and a duration. Pure.

use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// The days that are searched for the next time of a schedule: five years.
const HORIZON: usize = 5 * 366;

/// The times at which something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Every(SignedDuration),
    Fields(Box<Fields>),
}

/// The values of each field, and whether the days may be any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: Vec<i8>,
    hours: Vec<i8>,
    days: Vec<i8>,
    months: Vec<i8>,
    weekdays: Vec<i8>,
    any_day: bool,
    any_weekday: bool,
}

impl Schedule {
    /// Reads a schedule. Returns `None` if it is not valid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(period) = text.strip_prefix("@every ") {
            let period: SignedDuration = period.parse().ok()?;
            let seconds = SignedDuration::from_secs(period.as_secs().max(1));
            return (!period.is_negative()).then_some(Self::Every(seconds));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else { return None };
        let (days, any_day) = field(days, 1, 31, &[])?;
        let (weekdays, any_weekday) = field(weekdays, 0, 6, &DAYS)?;
        Some(Self::Fields(Box::new(Fields {
            minutes: field(minutes, 0, 59, &[])?.0,
            hours: field(hours, 0, 23, &[])?.0,
            months: field(months, 1, 12, &MONTHS)?.0,
            days,
            weekdays,
            any_day,
            any_weekday,
        })))
    }

    /// Returns the first time after another, in whole seconds. Returns `None` if there is none
    /// within five years.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let fields = match self {
            Self::Every(period) => {
                return Timestamp::from_second(after.as_second().checked_add(period.as_secs())?).ok();
            }
            Self::Fields(fields) => fields,
        };
        let mut date = zone.to_datetime(after).date();
        for _ in 0..HORIZON {
            if fields.include(date) {
                // In the hour that a change of the clocks repeats, the order of the times of the
                // clock is not that of time.
                let times =
                    fields.hours.iter().flat_map(|hour| fields.minutes.iter().map(move |it| (*hour, *it)));
                let times = times.flat_map(|(hour, minute)| instants(date, hour, minute, zone));
                if let Some(next) = times.flatten().filter(|it| *it > after).min() {
                    return Some(next);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }
}

impl Fields {
    /// Returns true if a day is in the schedule. If both the day of the month and the day of the
    /// week are limited, one of them is enough.
    fn include(&self, date: Date) -> bool {
        let day = self.days.contains(&date.day());
        let weekday = self.weekdays.contains(&date.weekday().to_sunday_zero_offset());
        let is_day = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        self.months.contains(&date.month()) && is_day
    }
}

/// Returns the instants of a time of the clock: two when the clock is set back, none in the hour
/// that is left out when it is set forward.
fn instants(date: Date, hour: i8, minute: i8, zone: &TimeZone) -> [Option<Timestamp>; 2] {
    let Ok(time) = Time::new(hour, minute, 0, 0) else { return [None, None] };
    let local = date.to_datetime(time);
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => [offset.to_timestamp(local).ok(), None],
        AmbiguousOffset::Gap { .. } => [None, None],
        AmbiguousOffset::Fold { before, after } => {
            [before.to_timestamp(local).ok(), after.to_timestamp(local).ok()]
        }
    }
}

/// Reads a field. Returns its values, in order, and true if it has all of them.
fn field(text: &str, min: i8, max: i8, names: &[&str]) -> Option<(Vec<i8>, bool)> {
    let (mut values, mut any) = (Vec::new(), false);
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let value = |it: &str| -> Option<i8> {
            let named = names.iter().position(|name| name.eq_ignore_ascii_case(it));
            let named = named.and_then(|it| i8::try_from(it).ok()?.checked_add(min));
            let plain = || Some(it).filter(|it| it.bytes().all(|it| it.is_ascii_digit()))?.parse().ok();
            named.or_else(plain).filter(|it| (min..=max).contains(it))
        };
        let stride: usize = step.map_or(Some(1), |it| it.parse().ok().filter(|it| *it > 0))?;
        let (first, last) = match range {
            "*" | "?" => {
                any |= stride == 1;
                (min, max)
            }
            range => match range.split_once('-') {
                Some((first, last)) => (value(first)?, value(last)?),
                None if step.is_some() => (value(range)?, max),
                None => (value(range)?, value(range)?),
            },
        };
        if first > last {
            return None;
        }
        values.extend((first..=last).step_by(stride));
    }
    values.sort_unstable();
    values.dedup();
    Some((values, any))
}

/// Returns the last time of a schedule after one instant and up to another, and the number of times
/// in between, as well as it follows from a fixed period (`mostRecentScheduleTime` in
/// k8s.io/kubernetes v1.36.4 pkg/controller/cronjob/utils.go).
pub(super) fn last_between(
    schedule: &Schedule,
    zone: &TimeZone,
    after: Timestamp,
    now: Timestamp,
) -> (Option<Timestamp>, i64) {
    let Some(first) = schedule.next(after, zone).filter(|it| *it <= now) else { return (None, 0) };
    let Some(second) = schedule.next(first, zone).filter(|it| *it <= now) else { return (Some(first), 0) };
    let period = second.as_second().saturating_sub(first.as_second()).max(1);
    let missed = now.as_second().saturating_sub(first.as_second()) / period;
    let jump = SignedDuration::from_secs(missed.saturating_sub(1).saturating_mul(period));
    let from = first.checked_add(jump).unwrap_or(first);
    let mut last = None;
    let mut next = schedule.next(from, zone);
    while let Some(time) = next.filter(|it| *it <= now) {
        last = Some(time);
        next = schedule.next(time, zone);
    }
    (last, missed.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_next_time_follows_from_the_fields() {
        for (schedule, after, expected) in [
            ("* * * * *", "2026-01-02T03:04:05Z", "2026-01-02T03:05:00Z"),
            ("*/15 * * * *", "2026-01-02T03:45:00Z", "2026-01-02T04:00:00Z"),
            ("5/20 3 * * *", "2026-01-02T03:06:00Z", "2026-01-02T03:25:00Z"),
            ("0 9-17/4 * * MON-FRI", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z"),
            ("0 0 13 * fri", "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"),
            ("0 0 31 2,mar ?", "2026-01-02T00:00:00Z", "2026-03-31T00:00:00Z"),
            ("0 0 29 2 *", "2026-01-02T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("@monthly", "2026-01-02T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("@every 1h30m", "2026-01-02T00:00:00.5Z", "2026-01-02T01:30:00Z"),
        ] {
            let next = Schedule::parse(schedule).unwrap().next(at(after), &TimeZone::UTC);
            assert_eq!(next, Some(at(expected)), "{schedule}");
        }
        assert_eq!(
            Schedule::parse("0 0 30 2 *").unwrap().next(at("2026-01-02T00:00:00Z"), &TimeZone::UTC),
            None
        );
    }

    #[test]
    fn a_change_of_the_clocks_leaves_times_out_and_repeats_others() {
        // A zone by rules, since a machine may have no database of zones.
        let zone = TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap();
        let daily = Schedule::parse("30 2 * * *").unwrap();
        assert_eq!(daily.next(at("2026-03-08T00:00:00Z"), &zone), Some(at("2026-03-09T06:30:00Z")));
        let hourly = Schedule::parse("*/30 1 * * *").unwrap();
        let mut times = vec![at("2026-11-01T00:00:00Z")];
        for _ in 0..4 {
            times.push(hourly.next(times[times.len() - 1], &zone).unwrap());
        }
        let expected =
            ["2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z"];
        assert_eq!(times[1..], expected.map(at));
    }

    #[test]
    fn what_is_not_a_schedule_is_rejected() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "@never",
            "@every x",
            "+1 * * * *",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_of_many_missed_times_is_found_without_visiting_all() {
        let schedule = Schedule::parse("* * * * *").unwrap();
        let between = |after: &str, now: &str| last_between(&schedule, &TimeZone::UTC, at(after), at(now));
        assert_eq!(between("2026-01-01T00:00:10Z", "2026-01-01T00:00:50Z"), (None, 0));
        assert_eq!(
            between("2026-01-01T00:00:10Z", "2026-01-01T00:01:50Z"),
            (Some(at("2026-01-01T00:01:00Z")), 0)
        );
        let years = between("2001-01-01T00:00:00Z", "2026-01-01T00:00:30Z");
        assert_eq!(years.0, Some(at("2026-01-01T00:00:00Z")));
        assert!(years.1 > 13_000_000);
    }
}
