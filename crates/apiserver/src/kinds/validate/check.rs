//! The shapes problems come in: required, not supported, out of range.

use std::net::IpAddr;

use serde_json::Value;

use crate::kinds::look::{at, text};
use crate::kinds::names;
use crate::strconv;
use crate::{Problem, ProblemKind};

/// A list of problems that grows while an object is read.
pub(super) type Problems = Vec<Problem>;

/// A value that is missing.
pub(super) fn required(out: &mut Problems, field: &str, detail: &str) {
    out.push(Problem::new(field, ProblemKind::Required, detail));
}

/// A value that may not be there, or not be changed.
pub(super) fn forbidden(out: &mut Problems, field: &str, detail: &str) {
    out.push(Problem::new(field, ProblemKind::Forbidden, detail));
}

/// A value that is wrong.
pub(super) fn invalid(out: &mut Problems, field: &str, value: &Value, detail: &str) {
    out.push(Problem::with_value(field, ProblemKind::Invalid, shown(value), detail));
}

/// A value as problems show it: a text in the quotes of Go, anything else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), strconv::quote)
}

/// A text that is wrong for each of some reasons.
pub(super) fn wrong_text(out: &mut Problems, field: &str, value: &str, reasons: Vec<String>) {
    for reason in reasons {
        invalid(out, field, &value.into(), &reason);
    }
}

/// A value that is there twice.
pub(super) fn duplicate(out: &mut Problems, field: &str, value: &Value) {
    out.push(Problem::with_value(field, ProblemKind::Duplicate, shown(value), ""));
}

/// A value that is none of those supported.
pub(super) fn unsupported(out: &mut Problems, field: &str, value: &Value, supported: &[&str]) {
    let listed: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
    let detail = format!("supported values: {}", listed.join(", "));
    out.push(Problem::with_value(field, ProblemKind::NotSupported, shown(value), &detail));
}

/// Checks that a text is one of those supported; an absent one is none.
pub(super) fn one_of(out: &mut Problems, object: &Value, pointer: &str, field: &str, supported: &[&str]) {
    let value = text(object, pointer);
    if !supported.contains(&value) {
        unsupported(out, field, &value.into(), supported);
    }
}

/// Checks that a number, where there is one, is not below zero.
pub(super) fn not_negative(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    if let Some(value) = at(object, pointer).filter(|value| value.as_i64().is_some_and(|it| it < 0)) {
        invalid(out, field, value, "must be greater than or equal to 0");
    }
}

/// Checks that a field stays as it is.
pub(super) fn immutable(out: &mut Problems, new: &Value, old: &Value, pointer: &str, field: &str) {
    if at(new, pointer) != at(old, pointer) {
        let value = at(new, pointer).cloned().unwrap_or_default();
        invalid(out, field, &value, "field is immutable");
    }
}

/// Checks that a number is one of a port.
pub(super) fn port_number(out: &mut Problems, field: &str, port: i64) {
    if !(1..=65535).contains(&port) {
        invalid(out, field, &port.into(), names::PORT);
    }
}

/// Checks a number or a percentage, where there is one: neither below zero nor malformed.
pub(super) fn number_or_percent(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    match at(object, pointer) {
        Some(value @ Value::String(percent)) => {
            let digits = percent.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                invalid(out, field, value, PERCENT);
            }
        }
        _ => not_negative(out, object, pointer, field),
    }
}

/// Checks that a percentage, where there is one, is at most the whole.
pub(super) fn at_most_all(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    let percent = text(object, pointer).strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        invalid(out, field, &text(object, pointer).into(), "must not be greater than 100%");
    }
}

/// Checks that a text is an address.
pub(super) fn address(out: &mut Problems, field: &str, text: &str) {
    if text.parse::<IpAddr>().is_err() {
        invalid(out, field, &text.into(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

/// Checks that an address can be reached from elsewhere; what is no address was told before.
pub(super) fn outward(out: &mut Problems, field: &str, text: &str) {
    let Ok(ip) = text.parse::<IpAddr>() else { return };
    if ip.is_loopback() {
        invalid(out, field, &text.into(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    beyond_the_link(out, field, text);
}

/// Checks that an address means one place in the cluster: neither none, nor one of this link only. Loopback is let pass:
/// the original refuses it in endpoints, and here services are played on it.
pub(super) fn beyond_the_link(out: &mut Problems, field: &str, text: &str) {
    let Ok(ip) = text.parse::<IpAddr>() else { return };
    let (link, many) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xffcf == 0xff02),
    };
    if ip.is_unspecified() {
        invalid(out, field, &text.into(), "may not be unspecified (0.0.0.0 or ::)");
    }
    if link {
        invalid(out, field, &text.into(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if many {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        invalid(out, field, &text.into(), detail);
    }
}

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
