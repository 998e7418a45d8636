//! JSON bodies, read as leniently as Go's `encoding/json` reads text.
//!
//! Bytes that are not UTF-8, and `\u` escapes that are half of a surrogate pair, stand for U+FFFD. serde_json refuses both.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Reads a body. Returns the text that was read beside its value: the body itself, unless something in it was replaced.
pub(crate) fn parse(body: &Bytes) -> (Bytes, serde_json::Result<Value>) {
    match serde_json::from_slice(body) {
        Ok(value) => (body.clone(), Ok(value)),
        // Nearly every body is read at the first attempt, so that one is not slowed down.
        Err(_) => {
            let text = Bytes::from(readable(body).into_owned());
            let value = serde_json::from_slice(&text);
            (text, value)
        }
    }
}

/// Replaces in a text what JSON cannot say.
pub(crate) fn readable(body: &[u8]) -> Cow<'_, str> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(body.len());
            for chunk in body.utf8_chunks() {
                text.push_str(chunk.valid());
                // One for each byte, as `utf8.DecodeRune` goes on after one byte.
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

/// Where escapes begin that are half of a pair without the other half.
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
            // Another escape: the byte behind the backslash may be one too.
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
    fn what_is_no_text_is_replaced_byte_by_byte() {
        assert_eq!(
            read(b"{\"a\xff\":\"b\xe2\x82c\"}"),
            serde_json::json!({ "a\u{fffd}": "b\u{fffd}\u{fffd}c" })
        );
        let body = Bytes::from_static(b"[\"fine\"]");
        assert_eq!(parse(&body).0.as_ptr(), body.as_ptr(), "nothing was copied");
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_are_not() {
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
    fn what_is_no_json_stays_none() {
        for body in [&b"\xff"[..], b"[\"\\ud8\"]", b"\\", b"[\"\\", b"{\"a\":\"\\ud800\"", b""] {
            assert!(parse(&Bytes::copy_from_slice(body)).1.is_err(), "{body:?}");
        }
    }
}
