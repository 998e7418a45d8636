//! Helpers that add problems: required, unsupported, out of range.

use std::net::IpAddr;

use serde_json::Value;

pub(crate) use crate::FieldErrors;
use crate::kinds::json_access::{at, text};
use crate::kinds::names;
use crate::strconv;
use crate::{FieldError, FieldErrorKind};

/// Reports a missing value.
pub(crate) fn required(out: &mut FieldErrors, field: &str, detail: &str) {
    out.push_with(|| FieldError::new(field, FieldErrorKind::Required, detail));
}

/// Reports a value that must not be set, or must not be changed.
pub(crate) fn forbidden(out: &mut FieldErrors, field: &str, detail: &str) {
    out.push_with(|| FieldError::new(field, FieldErrorKind::Forbidden, detail));
}

/// Reports an invalid value.
pub(crate) fn invalid(out: &mut FieldErrors, field: &str, value: &Value, detail: &str) {
    out.push_with(|| FieldError::with_value(field, FieldErrorKind::Invalid, shown(value), detail));
}

/// Formats a value as in messages: a string quoted as in Go, anything else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), strconv::quote)
}

/// Reports a string that is invalid for each of these reasons.
pub(crate) fn invalid_string(out: &mut FieldErrors, field: &str, value: &str, reasons: Vec<String>) {
    for reason in reasons {
        invalid(out, field, &value.into(), &reason);
    }
}

/// Reports a value that occurs more than once.
pub(crate) fn duplicate(out: &mut FieldErrors, field: &str, value: &Value) {
    out.push_with(|| FieldError::with_value(field, FieldErrorKind::Duplicate, shown(value), ""));
}

/// Reports a value that is not one of the supported ones.
pub(crate) fn unsupported(out: &mut FieldErrors, field: &str, value: &Value, supported: &[&str]) {
    out.push_with(|| {
        let listed: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
        let detail = format!("supported values: {}", listed.join(", "));
        FieldError::with_value(field, FieldErrorKind::NotSupported, shown(value), &detail)
    });
}

/// Checks that a string is one of the supported ones. An absent one is not.
pub(in crate::kinds) fn one_of(
    out: &mut FieldErrors,
    object: &Value,
    pointer: &str,
    field: &str,
    supported: &[&str],
) {
    let value = text(object, pointer);
    if !supported.contains(&value) {
        unsupported(out, field, &value.into(), supported);
    }
}

/// Checks that a number is not negative, if it is set.
pub(in crate::kinds) fn not_negative(out: &mut FieldErrors, object: &Value, pointer: &str, field: &str) {
    if let Some(value) = at(object, pointer).filter(|value| value.as_i64().is_some_and(|it| it < 0)) {
        invalid(out, field, value, "must be greater than or equal to 0");
    }
}

/// Checks that a field has not changed.
pub(in crate::kinds) fn immutable(
    out: &mut FieldErrors,
    new: &Value,
    old: &Value,
    pointer: &str,
    field: &str,
) {
    if at(new, pointer) != at(old, pointer) {
        let value = at(new, pointer).cloned().unwrap_or_default();
        invalid(out, field, &value, "field is immutable");
    }
}

/// Checks that a number is a valid port number.
pub(in crate::kinds) fn port_number(out: &mut FieldErrors, field: &str, port: i64) {
    if !(1..=65535).contains(&port) {
        invalid(out, field, &port.into(), names::PORT);
    }
}

/// Checks a number or a percentage, if it is set: neither negative nor malformed.
pub(in crate::kinds) fn number_or_percent(out: &mut FieldErrors, object: &Value, pointer: &str, field: &str) {
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

/// Checks that a percentage is at most 100%, if it is set.
pub(in crate::kinds) fn at_most_100_percent(
    out: &mut FieldErrors,
    object: &Value,
    pointer: &str,
    field: &str,
) {
    let percent = text(object, pointer).strip_suffix('%').and_then(|digits| digits.parse::<u64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        invalid(out, field, &text(object, pointer).into(), "must not be greater than 100%");
    }
}

/// Checks that a string is an IP address.
pub(in crate::kinds) fn address(out: &mut FieldErrors, field: &str, text: &str) {
    if text.parse::<IpAddr>().is_err() {
        invalid(out, field, &text.into(), "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

/// Checks that an address can be reached from outside. Strings that are not addresses are ignored;
/// they are reported by [`address`].
pub(in crate::kinds) fn external_address(out: &mut FieldErrors, field: &str, text: &str) {
    let Ok(ip) = text.parse::<IpAddr>() else { return };
    if ip.is_loopback() {
        invalid(out, field, &text.into(), "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    routable_address(out, field, text);
}

/// Checks that an address is neither unspecified nor link-local.
///
/// kube-apiserver also rejects loopback addresses in endpoints (`ValidateEndpointIP` of
/// k8s.io/kubernetes v1.36.4 pkg/apis/core/validation/validation.go). They are accepted here, so
/// that endpoints can refer to servers on the local machine.
pub(in crate::kinds) fn routable_address(out: &mut FieldErrors, field: &str, text: &str) {
    let Ok(ip) = text.parse::<IpAddr>() else { return };
    let (link, many) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xffcf == 0xff02),
    };
    if ip.is_unspecified() {
        invalid(out, field, &text.into(), &format!("may not be unspecified ({text})"));
    }
    if link {
        invalid(out, field, &text.into(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if many {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        invalid(out, field, &text.into(), detail);
    }
}

/// Checks that a string is a CIDR.
pub(in crate::kinds) fn cidr(out: &mut FieldErrors, field: &str, range: &str) {
    if !is_cidr(range) {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        invalid(out, field, &range.into(), detail);
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((ip, bits)) = text.split_once('/') else { return false };
    let most = match ip.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
