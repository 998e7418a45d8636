//! Removes white space and parts of a value.

use std::ops::Range;

/// Returns a value without the white space between its tokens, and without some of its parts, which
/// are ordered by their start.
pub(crate) fn compact(value: &str, without: &[Range<usize>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut from = 0;
    for part in without {
        // Two parts may share the comma between them.
        if part.start > from {
            push(&value.as_bytes()[from..part.start], &mut out);
        }
        from = from.max(part.end);
    }
    push(&value.as_bytes()[from..], &mut out);
    out
}

/// Appends tokens, of which no string is cut.
fn push(tokens: &[u8], out: &mut Vec<u8>) {
    let mut rest = tokens;
    while let Some(quote) = rest.iter().position(|it| *it == b'"') {
        let (before, string) = rest.split_at(quote);
        push_punctuation(before, out);
        let end = string_end(string);
        out.extend_from_slice(&string[..end]);
        rest = &string[end..];
    }
    push_punctuation(rest, out);
}

/// Appends bytes outside of strings. Malformed JSON such as `1 2` does not become another value.
fn push_punctuation(bytes: &[u8], out: &mut Vec<u8>) {
    let mut last = None;
    for &byte in bytes {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        if !is_space {
            if last == Some(Between::Words) && is_word(byte) {
                out.push(b' ');
            }
            out.push(byte);
        }
        last = match (is_space, last) {
            (false, _) => is_word(byte).then_some(Between::InWord),
            (true, Some(_)) => Some(Between::Words),
            (true, None) => None,
        };
    }
}

/// The position in numbers and words such as `true`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    InWord,
    /// After white space that follows a word.
    Words,
}

fn is_word(byte: u8) -> bool {
    !matches!(byte, b'{' | b'}' | b'[' | b']' | b':' | b',')
}

/// Returns the length of the string at the start.
fn string_end(string: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = string[at..].iter().position(|it| matches!(it, b'"' | b'\\')) {
        at += found + 1;
        if string[at - 1] == b'"' {
            return at;
        }
        // The escaped character.
        at = string.len().min(at + 1);
    }
    string.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_between_tokens_is_removed() {
        let value = "{ \"a b\" :\n[ 1,\t\"c \\\" d \\\\\" , true ],\r\n \"\" : {} }";
        let text = String::from_utf8(compact(value, &[])).expect("UTF-8");
        assert_eq!(text, r#"{"a b":[1,"c \" d \\",true],"":{}}"#);
    }

    #[test]
    fn malformed_json_stays_malformed() {
        for (value, expected) in [("[1 2]", "[1 2]"), ("[ tr \n ue ]", "[tr ue]"), ("[1 , 2 ]", "[1,2]")] {
            assert_eq!(compact(value, &[]), expected.as_bytes(), "{value}");
        }
    }

    #[test]
    fn parts_are_removed() {
        assert_eq!(compact(r#"{"a":1,"b":2,"c":3}"#, &[6..12, 12..18]), br#"{"a":1}"#);
        assert_eq!(compact(r#"{"a":1,"b":2}"#, &[1..7, 6..12]), b"{}");
    }
}
