//! Tokens of an expression.

use std::sync::Arc;

use super::error::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    End,
    Ident(Arc<str>),
    Int(String),
    Uint(String),
    Double(String),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// An operator, a bracket, or one of the words `true`, `false`, `null` and `in`.
    Symbol(&'static str),
}

/// The symbols, longest first.
const SYMBOLS: [&str; 25] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%", "=",
];

/// Splits an expression into tokens with their offsets. The last token is [`Token::End`].
///
/// # Errors
/// The first text that is no token.
pub(crate) fn tokens(source: &str) -> Result<Vec<(Token, usize)>, Issue> {
    let mut lexer = Lexer { source, at: 0 };
    let mut found = Vec::new();
    loop {
        lexer.skip_space();
        let at = lexer.at;
        let token = lexer.next()?;
        let is_end = token == Token::End;
        found.push((token, at));
        if is_end {
            return Ok(found);
        }
    }
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with([' ', '\t', '\r', '\n', '\u{c}']) {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Token, Issue> {
        let first = self.byte(0);
        match first {
            0 if self.rest().is_empty() => return Ok(Token::End),
            b'0'..=b'9' => return Ok(self.number()),
            b'.' if self.byte(1).is_ascii_digit() => return Ok(self.number()),
            b'"' | b'\'' => return self.quoted(0, false, false),
            _ => {}
        }
        if let Some((letters, raw, bytes)) = self.string_prefix() {
            return self.quoted(letters, raw, bytes);
        }
        if first == b'_' || first.is_ascii_alphabetic() {
            let rest = self.rest();
            let end = rest.find(|it: char| it != '_' && !it.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let (word, _) = rest.split_at(end);
            self.at += end;
            return Ok(match word {
                "true" => Token::Symbol("true"),
                "false" => Token::Symbol("false"),
                "null" => Token::Symbol("null"),
                "in" => Token::Symbol("in"),
                _ => Token::Ident(word.into()),
            });
        }
        match SYMBOLS.iter().find(|it| self.rest().starts_with(**it)) {
            Some(symbol) if *symbol != "=" => {
                self.at += symbol.len();
                Ok(Token::Symbol(symbol))
            }
            _ => Err(self.unrecognized(self.at + self.rest().chars().next().map_or(0, char::len_utf8))),
        }
    }

    fn unrecognized(&self, end: usize) -> Issue {
        let text = self.source.get(self.at..end).unwrap_or_default();
        Issue { at: self.at, message: format!("Syntax error: token recognition error at: '{text}'") }
    }

    fn digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.byte(0) == b'0' && self.byte(1) == b'x' && self.byte(2).is_ascii_hexdigit() {
            self.at += 2;
            while self.byte(0).is_ascii_hexdigit() {
                self.at += 1;
            }
        } else {
            self.digits();
            let mut is_double = false;
            if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
                is_double = true;
                self.at += 1;
                self.digits();
            }
            if matches!(self.byte(0), b'e' | b'E') {
                let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
                if self.byte(1 + sign).is_ascii_digit() {
                    is_double = true;
                    self.at += 1 + sign;
                    self.digits();
                }
            }
            if is_double {
                return Token::Double(self.source.get(start..self.at).unwrap_or_default().to_owned());
            }
        }
        let text = self.source.get(start..self.at).unwrap_or_default().to_owned();
        if matches!(self.byte(0), b'u' | b'U') {
            self.at += 1;
            return Token::Uint(text);
        }
        Token::Int(text)
    }

    /// Returns the number of letters before a quote, whether they are for a raw string, and whether
    /// for bytes.
    fn string_prefix(&self) -> Option<(usize, bool, bool)> {
        let (mut raw, mut bytes, mut letters) = (false, false, 0);
        loop {
            match self.byte(letters) {
                b'r' | b'R' if !raw => raw = true,
                b'b' | b'B' if !bytes && !raw => bytes = true,
                b'"' | b'\'' if letters > 0 => return Some((letters, raw, bytes)),
                _ => return None,
            }
            letters += 1;
        }
    }

    fn quoted(&mut self, letters: usize, raw: bool, bytes: bool) -> Result<Token, Issue> {
        let start = self.at + letters;
        let rest = self.source.get(start..).unwrap_or_default();
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|it| rest.starts_with(it)).unwrap_or("'");
        let (mut end, inner) = (start + quote.len(), start + quote.len());
        loop {
            let ahead = self.source.get(end..).unwrap_or_default();
            if ahead.starts_with(quote) {
                break;
            }
            match ahead.chars().next() {
                None => return Err(self.unrecognized(end)),
                Some('\n' | '\r') if quote.len() == 1 => return Err(self.unrecognized(end)),
                Some('\\') if !raw => {
                    end += 1 + ahead.chars().nth(1).map_or(0, char::len_utf8);
                }
                Some(ch) => end += ch.len_utf8(),
            }
        }
        let text = self.source.get(inner..end).unwrap_or_default();
        let after = end + quote.len();
        let content = if raw { Some(text.as_bytes().to_vec()) } else { unescaped(text, bytes) };
        let Some(content) = content else { return Err(self.unrecognized(after)) };
        let token = if bytes {
            Token::Bytes(content.into())
        } else {
            let Ok(content) = String::from_utf8(content) else { return Err(self.unrecognized(after)) };
            Token::String(content.into())
        };
        self.at = after;
        Ok(token)
    }
}

/// Replaces escape sequences. In bytes, `\x` and octal sequences are single bytes; in text they are
/// code points.
fn unescaped(text: &str, bytes: bool) -> Option<Vec<u8>> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, behind) = rest.split_at(at);
        result.extend_from_slice(plain.as_bytes());
        let mut chars = behind.chars();
        chars.next();
        let letter = chars.next()?;
        let after = chars.as_str();
        let simple = match letter {
            'a' => Some(7),
            'b' => Some(8),
            'f' => Some(12),
            'n' => Some(b'\n'),
            'r' => Some(b'\r'),
            't' => Some(b'\t'),
            'v' => Some(11),
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(letter).ok(),
            _ => None,
        };
        if let Some(byte) = simple {
            result.push(byte);
            rest = after;
            continue;
        }
        let (digits, radix, from) = match letter {
            'x' | 'X' => (2, 16, after),
            'u' if !bytes => (4, 16, after),
            'U' if !bytes => (8, 16, after),
            '0'..='3' => (3, 8, behind.get(1..)?),
            _ => return None,
        };
        let code = from.get(..digits).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let code = u32::from_str_radix(code, radix).ok()?;
        if bytes {
            result.push(u8::try_from(code).ok()?);
        } else {
            result.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = from.get(digits..)?;
    }
    result.extend_from_slice(rest.as_bytes());
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<Token> {
        tokens(source).unwrap().into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn numbers_and_texts_have_the_forms_of_the_language() {
        assert_eq!(
            kinds("1 0x1F 2u 1.5 .5 1e3 a.b"),
            [
                Token::Int("1".to_owned()),
                Token::Int("0x1F".to_owned()),
                Token::Uint("2".to_owned()),
                Token::Double("1.5".to_owned()),
                Token::Double(".5".to_owned()),
                Token::Double("1e3".to_owned()),
                Token::Ident("a".into()),
                Token::Symbol("."),
                Token::Ident("b".into()),
                Token::End
            ]
        );
        let text = |it: &str| Token::String(it.into());
        assert_eq!(kinds(r#"'a\n\x41\u00e9\101' // no"#), [text("a\nA\u{e9}A"), Token::End]);
        assert_eq!(kinds(r"r'\d' '''a'b''' b'\xff'"), [
            text("\\d"),
            text("a'b"),
            Token::Bytes([255_u8].into()),
            Token::End
        ]);
    }

    #[test]
    fn a_text_without_its_end_is_refused() {
        for source in ["'a", "'a\nb'", "'\\q'", "a = b", "#"] {
            assert!(tokens(source).is_err(), "{source}");
        }
    }
}
