//! Texts and numbers in the words of Go's `strconv`, which kube-apiserver passes on to its clients.

use std::num::{IntErrorKind, ParseIntError};

/// Returns the error of a function of `strconv` that cannot read a text.
pub(crate) fn error(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

/// Returns a text in quotes as Go's `%q` writes it. Neither JSON nor Rust escape the same characters in the same way.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for it in text.chars() {
        match it {
            '"' | '\\' => quoted.extend(['\\', it]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            it if is_printable(it) => quoted.push(it),
            it if it.is_ascii() => quoted.push_str(&format!("\\x{:02x}", u32::from(it))),
            it if it <= '\u{ffff}' => quoted.push_str(&format!("\\u{:04x}", u32::from(it))),
            it => quoted.push_str(&format!("\\U{:08x}", u32::from(it))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character as it is: no control, no space but the ASCII one, no format character, no private one.
fn is_printable(it: char) -> bool {
    let formats = matches!(it, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..);
    it == ' ' || !(it.is_control() || it.is_whitespace() || formats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_quoted_as_go_quotes_it() {
        for (text, quoted) in [
            ("plain é 日本", r#""plain é 日本""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\u{a0}\u{200b}\u{85}", r#""\u00a0\u200b\u0085""#),
            ("\u{f0000}", r#""\U000f0000""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

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
