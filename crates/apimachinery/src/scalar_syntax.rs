//! Validation of the text form of scalars: times, quantities and base64, with the error messages of
//! Go's decoders (Go 1.26 time/format.go and encoding/base64; k8s.io/apimachinery v0.36.4
//! pkg/api/resource/quantity.go).
//!
//! Each function returns the error message, or `None` for valid text. The values are not
//! interpreted.

use crate::strconv::quote;

const QUANTITY: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The suffixes of quantities, apart from exponents.
const SUFFIXES: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Validates a point in time.
pub(crate) fn time(text: &str) -> Option<String> {
    point_in_time(text, SECONDS)
}

/// Validates a point in time with microseconds.
pub(crate) fn micro_time(text: &str) -> Option<String> {
    point_in_time(text, MICROSECONDS)
}

/// Validates a quantity. As in k8s.io/apimachinery v0.36.4 pkg/api/resource/quantity.go, one
/// without digits is valid: it is zero.
pub(crate) fn quantity(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = |it: char| it.is_ascii_digit();
    let whole = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches(digits);
    let suffix = whole.strip_prefix('.').map_or(whole, |fraction| fraction.trim_start_matches(digits));
    if text.is_empty() {
        return Some(QUANTITY.to_owned());
    }
    let letters = suffix.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if !exponent.bytes().all(|it| it.is_ascii_digit()) {
        return Some(QUANTITY.to_owned());
    }
    let is_exponent = suffix
        .strip_prefix(['e', 'E'])
        .map(|it| it.strip_prefix(['+', '-']).unwrap_or(it))
        .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()));
    (!is_exponent && !SUFFIXES.contains(&suffix)).then(|| "unable to parse quantity's suffix".to_owned())
}

/// Validates base64: line ends are skipped, padding is required.
pub(crate) fn base64(text: &str) -> Option<String> {
    let illegal = |at: usize| Some(format!("illegal base64 data at input byte {at}"));
    let bytes = text.as_bytes();
    let mut in_group = 0;
    let mut padding = 0;
    let mut group_start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => continue,
            b'=' if in_group >= 2 && in_group + padding < 4 => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => {
                if in_group == 0 {
                    group_start = at;
                }
                in_group = (in_group + 1) % 4;
            }
            _ => return illegal(at),
        }
    }
    match (in_group, padding) {
        (0, _) => None,
        (some, pads) if some + pads == 4 => None,
        (_, 0) => illegal(group_start),
        _ => illegal(bytes.len()),
    }
}

/// Parses `text` piece by piece, as Go's `time.Parse` does. The error names the first piece that
/// does not match and the rest of the text.
fn point_in_time(text: &str, layout: &str) -> Option<String> {
    let complain = |rest: &str, piece: &str| {
        let (text, rest) = (quote(text), quote(rest));
        Some(format!("parsing time {text} as {layout:?}: cannot parse {rest} as {piece:?}"))
    };
    let mut rest = text;
    let mut numbers = Vec::new();
    for piece in ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"] {
        let (taken, after) = match rest.split_at_checked(piece.len()) {
            Some(it) => it,
            None => return complain(rest, piece),
        };
        if piece.as_bytes()[0].is_ascii_digit() {
            match taken.parse::<u32>().ok().filter(|_| taken.bytes().all(|it| it.is_ascii_digit())) {
                Some(number) => numbers.push(number),
                None => return complain(rest, piece),
            }
        } else if taken != piece {
            return complain(rest, piece);
        }
        rest = after;
    }
    let digits = rest.strip_prefix('.').map_or(0, |it| it.bytes().take_while(u8::is_ascii_digit).count());
    if layout == MICROSECONDS {
        if digits < 6 {
            return complain(rest, ".000000");
        }
        rest = &rest[7..];
    } else if digits > 0 {
        rest = &rest[1 + digits..];
    }
    let Some(extra) = after_zone(rest) else { return complain(rest, "Z07:00") };
    if !extra.is_empty() {
        return Some(format!("parsing time {}: extra text: {}", quote(text), quote(extra)));
    }
    let what = out_of_range(&numbers).or_else(|| zone_out_of_range(rest));
    what.map(|what| format!("parsing time {}: {what} out of range", quote(text)))
}

/// Returns the part of an offset such as `+02:00` that Go rejects.
fn zone_out_of_range(zone: &str) -> Option<&'static str> {
    let number = |range| zone.get(range).and_then(|it: &str| it.parse::<u8>().ok()).unwrap_or_default();
    match (number(1..3), number(4..6)) {
        (25.., _) => Some("time zone offset hour"),
        (_, 61..) => Some("time zone offset minute"),
        _ => None,
    }
}

/// Returns the text after `Z`, `+hh:mm` or `-hh:mm`.
fn after_zone(rest: &str) -> Option<&str> {
    if let Some(extra) = rest.strip_prefix('Z') {
        return Some(extra);
    }
    let (zone, extra) = rest.split_at_checked(6)?;
    let zone = zone.as_bytes();
    let digits = [1, 2, 4, 5].iter().all(|it| zone[*it].is_ascii_digit());
    (matches!(zone[0], b'+' | b'-') && zone[3] == b':' && digits).then_some(extra)
}

fn out_of_range(numbers: &[u32]) -> Option<&'static str> {
    let &[year, month, day, hour, minute, second] = numbers else { return None };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    match () {
        () if !(1..=12).contains(&month) => Some("month"),
        () if !(1..=days).contains(&day) => Some("day"),
        () if hour > 23 => Some("hour"),
        () if minute > 59 => Some("minute"),
        () if second > 59 => Some("second"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_texts_are_accepted() {
        for it in ["2024-02-29T01:02:03Z", "2024-02-28T01:02:03.5+02:00", "1970-01-01T00:00:00-01:30"] {
            assert_eq!(time(it), None, "{it}");
        }
        assert_eq!(micro_time("2024-02-29T01:02:03.123456Z"), None);
        for it in ["1", "-1.5", "+2Gi", ".5", "5.", "100m", "1e3", "1E-3", "1E", "0", "m", ".", "-", " 1Gi "]
        {
            assert_eq!(quantity(it), None, "{it}");
        }
        for it in ["", "YQ==", "YWI=", "YWJj", "YWJj\nYWJj", "+/A="] {
            assert_eq!(base64(it), None, "{it}");
        }
    }

    #[test]
    fn invalid_texts_get_the_messages_of_kube_apiserver() {
        for (text, message) in [
            ("x", r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            (
                "2024-01-01",
                r#"parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2024-13-01T00:00:00Z", r#"parsing time "2024-13-01T00:00:00Z": month out of range"#),
            ("2023-02-29T00:00:00Z", r#"parsing time "2023-02-29T00:00:00Z": day out of range"#),
            (
                "2023-02-28T00:00:00+25:00",
                r#"parsing time "2023-02-28T00:00:00+25:00": time zone offset hour out of range"#,
            ),
            (
                "2023-02-28T00:00:00-23:61",
                r#"parsing time "2023-02-28T00:00:00-23:61": time zone offset minute out of range"#,
            ),
            ("2023-02-28T00:00:00Zx", r#"parsing time "2023-02-28T00:00:00Zx": extra text: "x""#),
        ] {
            assert_eq!(time(text).as_deref(), Some(message));
        }
        assert!(micro_time("2024-02-29T01:02:03Z").unwrap().ends_with(r#"cannot parse "Z" as ".000000""#));
        for text in ["zz", "", "1.2.3", "1x", "1 2"] {
            assert_eq!(quantity(text).as_deref(), Some(QUANTITY), "{text}");
        }
        for text in ["1mm", "1e", "1Ki2", "1k2"] {
            assert_eq!(quantity(text).as_deref(), Some("unable to parse quantity's suffix"), "{text}");
        }
        for (text, at) in [("!!", 0), ("YWJ", 0), ("YWJjY", 4), ("YWJj!", 4), ("YQ=", 3), ("YQ==x", 4)] {
            assert_eq!(base64(text), Some(format!("illegal base64 data at input byte {at}")), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,40}", stamp in "[0-9]{4}-0[1-9]-[0-9TZ:.+é-]{0,24}") {
            for it in [&text, &stamp] {
                let _ = (time(it), micro_time(it), quantity(it), base64(it));
            }
        }
    }
}
