//! JSON bodies, decoded as leniently as Go does (`unquoteBytes` in Go 1.26
//! encoding/json/decode.go).
//!
//! Invalid UTF-8, and `\u` escapes of lone surrogates, become U+FFFD. serde_json rejects both.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::plain_json;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Parses a body. Returns the parsed text along with its value: the body itself, unless something
/// in it was replaced.
pub fn parse(body: &Bytes) -> (Bytes, serde_json::Result<Value>) {
    match plain_json::from_slice(body) {
        Ok(value) => (body.clone(), Ok(value)),
        // Nearly every body parses at the first attempt, which is not slowed down.
        Err(_) => {
            let text = Bytes::from(readable(body).into_owned());
            let value = plain_json::from_slice(&text);
            (text, value)
        }
    }
}

/// Replaces everything in a text that serde_json rejects and Go does not.
pub(crate) fn readable(body: &[u8]) -> Cow<'_, str> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(body.len());
            for chunk in body.utf8_chunks() {
                text.push_str(chunk.valid());
                // One for each byte, as `utf8.DecodeRune` continues after one byte.
                text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
            }
            Cow::Owned(text)
        }
    };
    let lone = lone_surrogates(&text);
    if lone.is_empty() {
        return text;
    }
    let (mut mended, mut from) = (String::with_capacity(text.len()), 0);
    for at in lone {
        mended.push_str(&text[from..at]);
        mended.push_str(r"\ufffd");
        from = at + ESCAPE;
    }
    mended.push_str(&text[from..]);
    Cow::Owned(mended)
}

/// The length of `\u1234`.
const ESCAPE: usize = 6;

/// Returns the positions of escapes of lone surrogates.
fn lone_surrogates(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let escape = text.get(at..at.checked_add(ESCAPE)?)?.strip_prefix(r"\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let (mut lone, mut at) = (Vec::new(), 0);
    while let Some(next) = bytes[at..].iter().position(|it| *it == b'\\') {
        at += next;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                lone.push(at);
                ESCAPE
            }
            // Another escape: the byte after the backslash may be a backslash too.
            _ => 2,
        };
        if at >= bytes.len() {
            break;
        }
    }
    lone
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8]) -> Value {
        parse(&Bytes::copy_from_slice(body)).1.expect("it can be read")
    }

    #[test]
    fn invalid_utf_8_is_replaced_byte_by_byte() {
        assert_eq!(
            read(b"{\"a\xff\":\"b\xe2\x82c\"}"),
            serde_json::json!({ "a\u{fffd}": "b\u{fffd}\u{fffd}c" })
        );
        let body = Bytes::from_static(b"[\"fine\"]");
        assert_eq!(parse(&body).0.as_ptr(), body.as_ptr(), "nothing was copied");
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_not() {
        for (written, read_as) in [
            (r#"["\ud800"]"#, "\u{fffd}"),
            (r#"["\udc00x"]"#, "\u{fffd}x"),
            (r#"["\ud800\ud800\udc00"]"#, "\u{fffd}\u{10000}"),
            (r#"["\ud83d\ude00\udfff"]"#, "\u{1f600}\u{fffd}"),
            (r#"["\\ud800\ud800"]"#, "\\ud800\u{fffd}"),
            (r#"["\ud800\n"]"#, "\u{fffd}\n"),
        ] {
            assert_eq!(read(written.as_bytes()), serde_json::json!([read_as]), "{written}");
        }
    }

    #[test]
    fn malformed_json_stays_malformed() {
        for body in [&b"\xff"[..], b"[\"\\ud8\"]", b"\\", b"[\"\\", b"{\"a\":\"\\ud800\"", b""] {
            assert!(parse(&Bytes::copy_from_slice(body)).1.is_err(), "{body:?}");
        }
    }
}
