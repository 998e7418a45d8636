//! Schedules of cron jobs: five fields or a name, with the error messages of
//! github.com/robfig/cron/v3.

use serde_json::Value;

use crate::kinds::json_access::{at, text};
use crate::kinds::validate::check::{FieldErrors, invalid, required};
use crate::strconv;

const NAMED: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The minimum and maximum of a field, and the names of its values.
type Bounds = (i64, i64, &'static [&'static str]);

const FIELDS: [Bounds; 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];

/// Checks the schedule of a cron job and its time zone.
pub(super) fn schedule(out: &mut FieldErrors, spec: &Value) {
    let written = text(spec, "/schedule");
    if written.is_empty() {
        required(out, "spec.schedule", "");
    } else if written.contains("TZ=") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        invalid(out, "spec.schedule", &written.into(), detail);
    } else if let Err(why) = parse(written) {
        invalid(out, "spec.schedule", &written.into(), &why);
    }
    if let Some(Value::String(zone)) = at(spec, "/timeZone") {
        time_zone(out, zone);
    }
}

fn time_zone(out: &mut FieldErrors, zone: &str) {
    let field = "spec.timeZone";
    if zone.is_empty() {
        return invalid(out, field, &zone.into(), "timeZone must be nil or non-empty string");
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return invalid(out, field, &zone.into(), detail);
    }
    let zones = jiff::tz::db();
    if !zones.is_definitively_empty() && zones.get(zone).is_err() {
        invalid(out, field, &zone.into(), &format!("unknown time zone {zone}"));
    }
}

/// Parses a schedule, or returns the error message.
pub(super) fn parse(written: &str) -> Result<(), String> {
    if let Some(period) = written.strip_prefix("@every ") {
        let valid = period.ends_with(['s', 'm', 'h']) && period.starts_with(|c: char| c.is_ascii_digit());
        return if valid {
            Ok(())
        } else {
            Err(format!("failed to parse duration {written}: time: invalid duration {period:?}"))
        };
    }
    if written.starts_with('@') {
        let known = NAMED.contains(&written);
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {written}")) };
    }
    let fields: Vec<&str> = written.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let shown = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{shown}]", fields.len()));
    }
    for (field, bounds) in fields.into_iter().zip(FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, bounds)?;
        }
    }
    Ok(())
}

fn range(written: &str, (least, most, names): Bounds) -> Result<(), String> {
    let parts: Vec<&str> = written.split('/').collect();
    let (ends, step) = match parts.as_slice() {
        [ends] => (*ends, None),
        [ends, step] => (*ends, Some(*step)),
        _ => return Err(format!("too many slashes: {written}")),
    };
    let ends: Vec<&str> = ends.split('-').collect();
    let (first, last) = match ends.as_slice() {
        ["*" | "?"] => (least, most),
        [one] => {
            let first = value(one, names)?;
            (first, if step.is_some() { most } else { first })
        }
        [first, last] => (value(first, names)?, value(last, names)?),
        _ => return Err(format!("too many hyphens: {written}")),
    };
    let step = step.map_or(Ok(1), |step| value(step, &[]))?;
    if first < least {
        return Err(format!("beginning of range ({first}) below minimum ({least}): {written}"));
    }
    if last > most {
        return Err(format!("end of range ({last}) above maximum ({most}): {written}"));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {written}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {written}"));
    }
    Ok(())
}

fn value(written: &str, names: &[&str]) -> Result<i64, String> {
    if let Some(index) = names.iter().position(|name| name.eq_ignore_ascii_case(written)) {
        // Months count from one, days of the week from zero.
        let first = i64::from(names.len() == MONTHS.len());
        return Ok(i64::try_from(index).unwrap_or_default() + first);
    }
    let number: i64 = written.parse().map_err(|it| {
        format!("failed to parse int from {written}: {}", strconv::error("Atoi", written, &it))
    })?;
    if number < 0 {
        return Err(format!("negative number ({number}) not allowed: {written}"));
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_schedules_are_accepted_and_invalid_ones_explained() {
        for right in ["* * * * *", "*/5 0-6,8 1 jan-DEC sun", "@daily", "@every 1h30m", "0 0 ? * 1-5"] {
            assert_eq!(parse(right), Ok(()), "{right}");
        }
        for (wrong, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 0 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ] {
            assert_eq!(parse(wrong), Err(why.to_owned()), "{wrong}");
        }
    }
}
