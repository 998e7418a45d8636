//! Numbers: the grammar of JSON, and integers if they fit.

use crate::token::Number;

/// Parses the number at the start of `text`, and returns it with its length. Returns `None` if
/// there is none, or if it is beyond the range of a float.
pub(crate) fn number(text: &[u8]) -> Option<(Number, usize)> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(negative);
    let mut at = start;
    let mut sum = Some(0_u64);
    while let Some(digit) = text.get(at).map(|it| it.wrapping_sub(b'0')).filter(|it| *it < 10) {
        sum = sum.and_then(|it| it.checked_mul(10)?.checked_add(digit.into()));
        at += 1;
    }
    let leading_zero = at > start + 1 && text[start] == b'0';
    if at == start || leading_zero {
        return None;
    }
    if let (Some(sum), false) = (sum, matches!(text.get(at), Some(b'.' | b'e' | b'E')))
        && let Some(integer) = integer(sum, negative)
    {
        return Some((integer, at));
    }
    let length = float_length(text, at)?;
    let float: f64 = std::str::from_utf8(&text[..length]).ok()?.parse().ok()?;
    float.is_finite().then_some((Number::Float(float), length))
}

/// Returns the length of the number at the start of `text`, whatever its range. Returns `None` if
/// there is none.
pub(crate) fn length(text: &[u8]) -> Option<usize> {
    let start = usize::from(text.first() == Some(&b'-'));
    let at = digits(text, start)?;
    let leading_zero = at > start + 1 && text[start] == b'0';
    if leading_zero { None } else { float_length(text, at) }
}

fn integer(sum: u64, negative: bool) -> Option<Number> {
    match (negative, sum) {
        (false, _) => Some(Number::Unsigned(sum)),
        // Minus zero is a float, and so is a number that does not fit into an i64.
        (true, 0) => None,
        (true, _) => 0_i64.checked_sub_unsigned(sum).map(Number::Signed),
    }
}

/// Returns the length of a number whose integer part ends at `at`.
fn float_length(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'.') {
        at = digits(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(text.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(text, at)?;
    }
    Some(at)
}

/// Returns the end of a run of at least one digit.
fn digits(text: &[u8], from: usize) -> Option<usize> {
    let length = text.get(from..)?.iter().take_while(|it| it.is_ascii_digit()).count();
    (length > 0).then_some(from + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_parsed_by_the_grammar_of_json() {
        use Number::{Float, Signed, Unsigned};
        for (text, expected) in [
            ("0", Some((Unsigned(0), 1))),
            ("42,", Some((Unsigned(42), 2))),
            ("-7}", Some((Signed(-7), 2))),
            ("18446744073709551615", Some((Unsigned(u64::MAX), 20))),
            ("-9223372036854775808", Some((Signed(i64::MIN), 20))),
            ("18446744073709551616", Some((Float(18446744073709551616.0), 20))),
            ("-9223372036854775809", Some((Float(-9223372036854775809.0), 20))),
            ("-0", Some((Float(-0.0), 2))),
            ("1.5e3]", Some((Float(1500.0), 5))),
            ("1E-2", Some((Float(0.01), 4))),
            ("01", None),
            ("-", None),
            ("1.", None),
            ("1e", None),
            (".5", None),
            ("+1", None),
            ("1e999", None),
            ("", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
            let long = if text == "1e999" { Some(5) } else { expected.map(|it| it.1) };
            assert_eq!(length(text.as_bytes()), long, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_numbers_are_read_back(signed in any::<i64>(), float in -1e300..1e300_f64) {
            let text = signed.to_string();
            let expected = u64::try_from(signed).map_or(Number::Signed(signed), Number::Unsigned);
            prop_assert_eq!(number(text.as_bytes()), Some((expected, text.len())));
            let text = format!("{float:e}");
            prop_assert_eq!(number(text.as_bytes()), Some((Number::Float(float), text.len())));
            prop_assert_eq!(length(text.as_bytes()), Some(text.len()));
        }
    }
}
