//! Strings with escapes such as `\n`, `\"` and `\u00e9`.
//!
//! The reader passes only strings that contain a backslash; all others are used as they are.

/// An invalid escape, at this offset in the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadEscape(pub(super) usize);

/// Appends the unescaped form of `raw`, the part between the quotes.
///
/// # Errors
/// Returns an error if an escape is unknown or incomplete, or is half of a surrogate pair.
pub(super) fn unescape(raw: &str, out: &mut String) -> Result<(), BadEscape> {
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.push_str(&rest[..at]);
        let bad = BadEscape(raw.len() - rest.len() + at);
        let escape = &rest[at + 1..];
        let (plain, length) = match escape.as_bytes().first().ok_or(bad)? {
            b'"' => ('"', 1),
            b'\\' => ('\\', 1),
            b'/' => ('/', 1),
            b'b' => ('\u{8}', 1),
            b'f' => ('\u{c}', 1),
            b'n' => ('\n', 1),
            b'r' => ('\r', 1),
            b't' => ('\t', 1),
            b'u' => unicode(escape).ok_or(bad)?,
            _ => return Err(bad),
        };
        out.push(plain);
        rest = &escape[length..];
    }
    out.push_str(rest);
    Ok(())
}

fn memchr(byte: u8, text: &str) -> Option<usize> {
    text.bytes().position(|it| it == byte)
}

/// Parses `uXXXX`, or `uXXXX\uXXXX` for a character beyond the basic plane, and returns it with its
/// length.
fn unicode(escape: &str) -> Option<(char, usize)> {
    let first = four_digits(escape.get(1..5)?)?;
    if let Some(plain) = char::from_u32(first) {
        return Some((plain, 5));
    }
    let second = four_digits(escape.get(5..)?.strip_prefix("\\u")?.get(..4)?)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(joined).map(|it| (it, 11))
}

fn four_digits(text: &str) -> Option<u32> {
    text.bytes().try_fold(0, |sum, byte| Some(sum * 16 + char::from(byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(raw: &str) -> Result<String, BadEscape> {
        let mut out = String::new();
        unescape(raw, &mut out).map(|()| out)
    }

    #[test]
    fn escapes_follow_the_grammar_of_json() {
        for (raw, plain) in [
            (r"\u0061\n\t\r\b\f\/\\\x22", None),
            (r#"\"\\\/\b\f\n\r\t"#, Some("\"\\/\u{8}\u{c}\n\r\t")),
            (r"caf\u00e9 \u003c\u003E", Some("café <>")),
            (r"\ud83d\ude00!", Some("😀!")),
            (r"\ud83d", None),
            (r"\ud83dx", None),
            (r"\ude00\ud83d", None),
            (r"\ud83d\u0041", None),
            (r"\u12", None),
            (r"\u+123", None),
            (r"\q", None),
            ("\\", None),
            (r"\u00é", None),
        ] {
            assert_eq!(unescaped(raw).ok().as_deref(), plain, "{raw}");
        }
    }

    #[test]
    fn a_bad_escape_is_reported_with_its_position() {
        assert_eq!(unescaped(r"ab\n\q"), Err(BadEscape(4)));
    }

    proptest! {
        #[test]
        fn any_string_survives_escaping_and_unescaping(text in any::<String>(), all in any::<bool>()) {
            let mut raw = serde_json::to_string(&text).expect("a string");
            if all {
                raw = text.encode_utf16().fold("\"".to_owned(), |raw, unit| raw + &format!("\\u{unit:04x}")) + "\"";
            }
            prop_assert_eq!(unescaped(&raw[1..raw.len() - 1]), Ok(text));
        }
    }
}
