//! Strings and errors formatted as Go's `strconv` formats them (Go 1.26 strconv/quote.go and
//! strconv/atoi.go), because kube-apiserver's messages contain them.

use std::num::{IntErrorKind, ParseIntError};

/// Returns the message of the error with which a function of `strconv` rejects a string.
pub fn error(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

/// Returns a quoted string as Go's `%q` formats it. JSON and Rust escape other characters, or in
/// another way.
pub fn quote(text: &str) -> String {
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

/// Returns true if Go prints a character without escaping it: no control, format or private-use
/// character, and no space other than the ASCII one.
pub fn is_printable(it: char) -> bool {
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
            let parse_error = text.parse::<i64>().expect_err("not an i64");
            assert_eq!(
                error("ParseInt", text, &parse_error),
                format!("strconv.ParseInt: parsing {text:?}: {why}")
            );
        }
    }
}
