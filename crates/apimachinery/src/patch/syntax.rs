//! The syntax errors of JSON, with the messages of Go 1.26 encoding/json/scanner.go.
//!
//! Only used after the parser has rejected a text, so it is written for exactness and not for
//! speed. It does not recurse, because the text is arbitrary input.

use crate::depth;

/// Returns the first syntax error in `text`, or `None` if the text is well-formed.
pub fn mistake(text: &[u8]) -> Option<String> {
    Scanner { text, at: 0, open: Vec::new() }.scan().err()
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The expected closing brackets, outermost first.
    open: Vec<u8>,
}

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    AfterValue,
}

impl Scanner<'_> {
    fn scan(&mut self) -> Result<(), String> {
        let mut next = Next::Value;
        loop {
            while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
                self.at += 1;
            }
            let Some(&byte) = self.text.get(self.at) else {
                return if next == Next::AfterValue && self.open.is_empty() { Ok(()) } else { Err(end()) };
            };
            next = match (next, byte) {
                (Next::ValueOrEnd, b']') | (Next::KeyOrEnd, b'}') => self.close(),
                (Next::Value | Next::ValueOrEnd, _) => self.value(byte)?,
                (Next::Key | Next::KeyOrEnd, b'"') => {
                    self.string()?;
                    Next::Colon
                }
                (Next::Key | Next::KeyOrEnd, _) => {
                    return Err(invalid(byte, "looking for beginning of object key string"));
                }
                (Next::Colon, b':') => {
                    self.at += 1;
                    Next::Value
                }
                (Next::Colon, _) => return Err(invalid(byte, "after object key")),
                (Next::AfterValue, _) => self.after_value(byte)?,
            };
        }
    }

    fn value(&mut self, byte: u8) -> Result<Next, String> {
        match byte {
            b'{' => self.open(b'}', Next::KeyOrEnd),
            b'[' => self.open(b']', Next::ValueOrEnd),
            b'"' => self.string().map(|()| Next::AfterValue),
            b'-' | b'0'..=b'9' => self.number().map(|()| Next::AfterValue),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => Err(invalid(byte, "looking for beginning of value")),
        }
    }

    fn after_value(&mut self, byte: u8) -> Result<Next, String> {
        match (self.open.last(), byte) {
            (None, _) => Err(invalid(byte, "after top-level value")),
            (Some(b']'), b',') => {
                self.at += 1;
                Ok(Next::Value)
            }
            (Some(_), b',') => {
                self.at += 1;
                Ok(Next::Key)
            }
            (Some(&due), _) if due == byte => Ok(self.close()),
            (Some(b']'), _) => Err(invalid(byte, "after array element")),
            (Some(_), _) => Err(invalid(byte, "after object key:value pair")),
        }
    }

    fn open(&mut self, due: u8, next: Next) -> Result<Next, String> {
        self.at += 1;
        self.open.push(due);
        if self.open.len() > depth::TEXT { Err(depth::exceeded()) } else { Ok(next) }
    }

    fn close(&mut self) -> Next {
        self.at += 1;
        self.open.pop();
        Next::AfterValue
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            self.at += 1;
            match self.text.get(self.at) {
                None => return Err(end()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(&byte) if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                Some(_) => {}
            }
        }
    }

    /// Consumes an escape, up to its last byte.
    fn escape(&mut self) -> Result<(), String> {
        self.at += 1;
        match self.or_space() {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    self.at += 1;
                    let byte = self.or_space();
                    if !byte.is_ascii_hexdigit() {
                        return Err(invalid(byte, r"in \u hexadecimal character escape"));
                    }
                }
                Ok(())
            }
            byte => Err(invalid(byte, "in string escape code")),
        }
    }

    fn number(&mut self) -> Result<(), String> {
        if self.or_space() == b'-' {
            self.at += 1;
        }
        match self.or_space() {
            b'0' => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.or_space() == b'.' {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.or_space(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.or_space(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    /// Consumes one or more digits.
    fn digits(&mut self, place: &str) -> Result<(), String> {
        let first = self.or_space();
        if !first.is_ascii_digit() {
            return Err(invalid(first, place));
        }
        while self.or_space().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<Next, String> {
        for expected in word.bytes() {
            let byte = self.or_space();
            if byte != expected {
                let expected = char::from(expected);
                return Err(invalid(byte, &format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(Next::AfterValue)
    }

    /// Returns the current byte, or a space past the end, as Go's scanner does.
    fn or_space(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(b' ')
    }
}

fn end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(byte: u8, place: &str) -> String {
    let shown = match char::from(byte) {
        '\'' => r"\'".to_owned(),
        '"' => '"'.to_string(),
        '\u{7}' => r"\a".to_owned(),
        '\u{8}' => r"\b".to_owned(),
        '\u{b}' => r"\v".to_owned(),
        '\u{c}' => r"\f".to_owned(),
        letter @ ('\n' | '\r' | '\t' | '\\') => letter.escape_default().to_string(),
        letter if byte < 0x20 || byte == 0x7f => format!(r"\x{:02x}", u32::from(letter)),
        letter if (0x80..0xa1).contains(&byte) || byte == 0xad => format!(r"\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recorded from kube-apiserver 1.36.
    #[test]
    fn syntax_errors_have_the_messages_of_kube_apiserver() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("[{", "unexpected end of JSON input"),
            (r#"{"a""#, "unexpected end of JSON input"),
            ("{} x", "invalid character 'x' after top-level value"),
            (r#"{"a":1}}"#, "invalid character '}' after top-level value"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
            ("{1:2}", "invalid character '1' looking for beginning of object key string"),
            ("nul", "invalid character ' ' in literal null (expecting 'l')"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            ("{\"a\":\"\n\"}", r"invalid character '\n' in string literal"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            ("[1 2]", "invalid character '2' after array element"),
            (r#"{"a":01}"#, "invalid character '1' after object key:value pair"),
            (r#"{"a":1 "b":2}"#, r#"invalid character '"' after object key:value pair"#),
            (r#"{"a":"\q"}"#, "invalid character 'q' in string escape code"),
            (r#"{"a":"\uZZZZ"}"#, r"invalid character 'Z' in \u hexadecimal character escape"),
            (r#"{"a":1e}"#, "invalid character '}' in exponent of numeric literal"),
            (r#"{"a":-}"#, "invalid character '}' in numeric literal"),
            ("x", "invalid character 'x' looking for beginning of value"),
        ] {
            assert_eq!(mistake(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn text_of_any_depth_is_scanned_without_recursion() {
        assert_eq!(mistake("[".repeat(1_000_000).as_bytes()), Some(depth::exceeded()));
        let deep = "[".repeat(depth::TEXT) + &"]".repeat(depth::TEXT);
        assert_eq!(mistake(deep.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn a_text_has_an_error_exactly_when_the_parser_rejects_it(text in r#"[\[\]{},:" \\0-9a-c.eEntu+-]{0,12}"#) {
            let rejected = serde_json::from_str::<serde_json::Value>(&text).err();
            // Numbers too large for a float and lone surrogates are well-formed.
            prop_assume!(rejected.as_ref().is_none_or(|error| {
                let message = error.to_string();
                !message.contains("number out of range") && !message.contains("surrogate") && !message.contains("hex escape")
            }));
            prop_assert_eq!(mistake(text.as_bytes()).is_some(), rejected.is_some());
        }
    }
}
