//! The error messages of invalid selectors, as kube-apiserver writes them.
//!
//! Used only after a selector was rejected, so it has to be right and not fast: it parses the text
//! again, token by token, as k8s.io/apimachinery v0.36.4 pkg/labels/selector.go and
//! pkg/fields/selector.go do, up to the mistake.

use crate::names;
use crate::strconv::quote;

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A token of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

/// A parser that reads a selector from left to right.
struct Parser<'a> {
    rest: &'a str,
}

/// Returns the error message for a label selector; empty if kube-apiserver accepts it.
pub(super) fn label_error(text: &str) -> String {
    Parser { rest: text }.selector().err().unwrap_or_default()
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<(), String> {
        loop {
            match self.peek() {
                Token::End => return Ok(()),
                Token::Word(_) | Token::Symbol("!") => {
                    self.requirement().map_err(|why| format!("unable to parse requirement: {why}"))?;
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            match self.next() {
                Token::End => return Ok(()),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
                },
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<(), String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let key = match self.next() {
            Token::Word(key) => key,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let problems = names::qualified(key);
        if !problems.is_empty() {
            return Err(format!("<nil>: Invalid value: {}: {}", quote(key), problems.join("; ")));
        }
        if absent || matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(());
        }
        match self.next() {
            Token::Word("in" | "notin") => {
                for (at, value) in self.values()?.into_iter().enumerate() {
                    check_value(at, key, value)?;
                }
                Ok(())
            }
            Token::Symbol("=" | "==" | "!=") => check_value(0, key, self.value()?),
            Token::Symbol(">" | "<") => match self.value()? {
                value if value.parse::<i64>().is_err() => Err(format!(
                    "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                    quote(value)
                )),
                _ => Ok(()),
            },
            other => Err(format!("found '{}', expected: {OPERATORS}", other.text())),
        }
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok("");
        }
        match self.next() {
            Token::Word(value) => Ok(value),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        match self.next() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => {}
                Token::Word(value) => {
                    values.push(value);
                    match self.peek() {
                        Token::Symbol("," | ")") => {}
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
    }

    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start();
        let is_symbol = |it: char| "=!(),><".contains(it);
        let end = match self.rest.chars().next() {
            None => return Token::End,
            Some('=' | '!') if self.rest[1..].starts_with('=') => 2,
            Some(first) if is_symbol(first) => 1,
            Some(_) => {
                self.rest.find(|it: char| is_symbol(it) || it.is_whitespace()).unwrap_or(self.rest.len())
            }
        };
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        if text.starts_with(is_symbol) { Token::Symbol(text) } else { Token::Word(text) }
    }
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }
}

fn check_value(at: usize, key: &str, value: &str) -> Result<(), String> {
    let problems = names::label_value(value);
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("values[{at}][{key}]: Invalid value: {}: {}", quote(value), problems.join("; ")))
}

/// Returns the error message for a field selector; empty if kube-apiserver accepts it. Terms are
/// checked in sorted order.
pub(super) fn field_error(text: &str) -> String {
    let mut escaped = false;
    let splits = |it: char| {
        let splits = it == ',' && !escaped;
        escaped = it == '\\' && !escaped;
        splits
    };
    let mut terms: Vec<_> = text.split(splits).filter(|it| !it.is_empty()).collect();
    terms.sort_unstable();
    let wrong = terms.into_iter().find_map(|term| {
        let value = ["!=", "==", "="].iter().filter_map(|it| Some((term.find(it)?, it.len())));
        match value.min_by_key(|(at, length)| (*at, std::cmp::Reverse(*length))) {
            None => Some(format!("invalid selector: '{text}'; can't understand '{term}'")),
            Some((at, length)) => value_error(&term[at + length..]),
        }
    });
    wrong.unwrap_or_default()
}

fn value_error(value: &str) -> Option<String> {
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\\' | ',' | '=') => {}
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Some(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            // kube-apiserver prints the code point as a number.
            ',' | '=' => {
                let number = u32::from(letter);
                return Some(format!("invalid field selector: unescaped character in value: {number}"));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selector_errors_have_the_messages_of_kube_apiserver() {
        let requirement = |why: &str| format!("unable to parse requirement: {why}");
        for (text, expected) in [
            ("a in (x", requirement("found '', expected: ',' or ')'")),
            (
                "a>x",
                requirement(
                    "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
                ),
            ),
            (",a", "found ',', expected: !, identifier, or 'end of string'".to_owned()),
            ("a,", "found '', expected: identifier after ','".to_owned()),
            ("a in x", requirement("found 'x' expected: '('")),
            ("!", requirement("found '', expected: identifier")),
            ("!a=b", "found '=', expected: ',' or 'end of string'".to_owned()),
            ("a=b c", "found 'c', expected: ',' or 'end of string'".to_owned()),
            ("a!b", requirement("found '!', expected: in, notin, =, ==, !=, gt, lt")),
            ("a b", requirement("found 'b', expected: in, notin, =, ==, !=, gt, lt")),
            ("env===x", requirement("found '=', expected: identifier")),
            ("a=(b)", requirement("found '(', expected: identifier")),
            ("a in (b) c", "found 'c', expected: ',' or 'end of string'".to_owned()),
        ] {
            assert_eq!(label_error(text), expected, "{text}");
        }
        assert!(
            label_error("a=b$c").starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"b$c\": a valid label"
            )
        );
        assert!(
            label_error("a$=b")
                .starts_with("unable to parse requirement: <nil>: Invalid value: \"a$\": name part must")
        );
        for right in ["", "a in ()", "a in (x,,y)", "in", "!a", "a=b,c!=d,e>5"] {
            assert_eq!(label_error(right), "", "{right}");
        }
    }

    #[test]
    fn field_selector_errors_have_the_messages_of_kube_apiserver() {
        for (text, expected) in [
            ("z=1,a", "invalid selector: 'z=1,a'; can't understand 'a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=b,c!=d,", ""),
            ("a=b\\,c\\=d\\\\", ""),
        ] {
            assert_eq!(field_error(text), expected, "{text}");
        }
    }
}
