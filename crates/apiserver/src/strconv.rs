//! Errors of numbers in texts, in the words of Go's `strconv`, which kube-apiserver passes on to its clients.

use std::num::{IntErrorKind, ParseIntError};

/// Returns the error of a function of `strconv` that cannot read a text.
pub(crate) fn error(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_too_large_is_out_of_range() {
        for (text, why) in [
            ("9223372036854775808", "value out of range"),
            ("-9223372036854775809", "value out of range"),
            ("12a", "invalid syntax"),
            ("", "invalid syntax"),
        ] {
            let refused = text.parse::<i64>().expect_err("no such number");
            assert_eq!(
                error("ParseInt", text, &refused),
                format!("strconv.ParseInt: parsing {text:?}: {why}")
            );
        }
    }
}
