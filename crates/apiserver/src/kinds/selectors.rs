//! Which texts are selectors, with the original's words where they are not.
//!
//! The grammar of label selectors is the original's, token by token, since its words name the token it stumbled over. What a
//! selector that passes means is for `dogwatch_core` to say.

use super::names;

const SPECIAL: &[char] = &['=', '!', '(', ')', ',', '>', '<'];
const SPACE: &[char] = &[' ', '\t', '\r', '\n'];

/// Whether a text is a label selector.
///
/// # Errors
/// The words of the original for what it is instead.
pub fn check_labels(text: &str) -> Result<(), String> {
    let mut tokens = Tokens::new(text);
    loop {
        match tokens.first() {
            Token::Word(_) | Token::Symbol("!") => {}
            Token::End => return Ok(()),
            other => return Err(found(other, "!, identifier, or 'end of string'")),
        }
        requirement(&mut tokens).map_err(|why| format!("unable to parse requirement: {why}"))?;
        match tokens.next() {
            Token::End => return Ok(()),
            Token::Symbol(",") => match tokens.first() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => return Err(found(other, "identifier after ','")),
            },
            other => return Err(found(other, "',' or 'end of string'")),
        }
    }
}

/// Whether a text is a field selector.
///
/// # Errors
/// The words of the original for what it is instead.
pub fn check_fields(text: &str) -> Result<(), String> {
    let mut terms = terms(text);
    terms.sort_unstable();
    for term in terms.into_iter().filter(|it| !it.is_empty()) {
        let operators = ["!=", "==", "="];
        let at = operators.iter().filter_map(|it| Some((term.find(it)?, std::cmp::Reverse(it.len())))).min();
        let Some((at, std::cmp::Reverse(length))) = at else {
            return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
        };
        check_value(&term[at + length..])?;
    }
    Ok(())
}

/// What stands between the commas that no backslash escapes.
fn terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let splits = |it: char| {
        let splits = it == ',' && !escaped;
        escaped = it == '\\' && !escaped;
        splits
    };
    text.split(splits).collect()
}

fn check_value(value: &str) -> Result<(), String> {
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\\' | ',' | '=') => {}
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
            },
            // The original tells the character by its number.
            ',' | '=' => {
                let number = u32::from(letter);
                return Err(format!("invalid field selector: unescaped character in value: {number}"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

/// The tokens that are left.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn new(rest: &'a str) -> Self {
        Self { rest }
    }

    /// The next token, which stays.
    fn first(&self) -> Token<'a> {
        Tokens { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches(SPACE);
        let length = match self.rest {
            "" => return Token::End,
            rest if rest.starts_with("!=") || rest.starts_with("==") => 2,
            rest if rest.starts_with(SPECIAL) => 1,
            rest => rest.find(|it| SPECIAL.contains(&it) || SPACE.contains(&it)).unwrap_or(rest.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        if token.starts_with(SPECIAL) { Token::Symbol(token) } else { Token::Word(token) }
    }
}

fn found(token: Token<'_>, expected: &str) -> String {
    let (Token::Word(text) | Token::Symbol(text)) = token else {
        return format!("found '', expected: {expected}");
    };
    format!("found '{text}', expected: {expected}")
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<(), String> {
    let mut token = tokens.next();
    let absent = token == Token::Symbol("!");
    if absent {
        token = tokens.next();
    }
    let Token::Word(key) = token else { return Err(found(token, "identifier")) };
    check_key(key)?;
    if absent || matches!(tokens.first(), Token::End | Token::Symbol(",")) {
        return Ok(());
    }
    match tokens.next() {
        Token::Word("in" | "notin") => {
            values(tokens)?.into_iter().enumerate().try_for_each(|(at, it)| check_label(key, at, it))
        }
        Token::Symbol("=" | "==" | "!=") => check_label(key, 0, value(tokens)?),
        Token::Symbol(">" | "<") => {
            let value = value(tokens)?;
            if value.parse::<i64>().is_err() {
                let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                return Err(format!("values[0]: Invalid value: {value:?}: {why}"));
            }
            check_label(key, 0, value)
        }
        other => Err(found(other, "in, notin, =, ==, !=, gt, lt")),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    let reasons = names::qualified(key);
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(format!("<nil>: Invalid value: {key:?}: {}", reasons.join("; ")))
    }
}

fn check_label(key: &str, at: usize, value: &str) -> Result<(), String> {
    let reasons = names::label_value(value);
    if reasons.is_empty() {
        return Ok(());
    }
    Err(format!("values[{at}][{key}]: Invalid value: {value:?}: {}", reasons.join("; ")))
}

/// The one value after an operator; none is the empty one.
fn value<'a>(tokens: &mut Tokens<'a>) -> Result<&'a str, String> {
    if matches!(tokens.first(), Token::End | Token::Symbol(",")) {
        return Ok("");
    }
    match tokens.next() {
        Token::Word(value) => Ok(value),
        other => Err(found(other, "identifier")),
    }
}

/// The values in brackets, sorted.
fn values<'a>(tokens: &mut Tokens<'a>) -> Result<Vec<&'a str>, String> {
    match tokens.next() {
        Token::Symbol("(") => {}
        Token::Word(text) | Token::Symbol(text) => return Err(format!("found '{text}' expected: '('")),
        Token::End => return Err("found '' expected: '('".to_owned()),
    }
    let mut values = Vec::new();
    match tokens.first() {
        Token::Word(_) | Token::Symbol(",") => {}
        Token::Symbol(")") => {
            tokens.next();
            return Ok(values);
        }
        other => return Err(found(other, "',', ')' or identifier")),
    }
    loop {
        match tokens.next() {
            Token::Word(value) => {
                values.push(value);
                match tokens.first() {
                    Token::Symbol(",") => {}
                    Token::Symbol(")") => break,
                    other => return Err(found(other, "',' or ')'")),
                }
            }
            // Between two commas, and beside a bracket, is the empty value.
            Token::Symbol(",") if tokens.first() == Token::Symbol(")") => break,
            Token::Symbol(",") => {}
            other => return Err(found(other, "',', or identifier")),
        }
    }
    tokens.next();
    values.sort_unstable();
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_label_selector() {
        for text in [
            "",
            "x",
            "!x",
            "x=",
            "x=1",
            "x==1",
            "x!=1",
            "x in (1,20)",
            "x notin (1)",
            "x in ()",
            "x in (1,,2)",
            "x in (,)",
            "x>5",
            "x<5",
            " x = 1 , y ",
            "example.com/z=",
            "in=notin",
            "x in (in,notin)",
            "x=1,!y,z in (a)",
        ] {
            assert_eq!(check_labels(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_no_label_selector_in_the_words_of_the_original() {
        for (text, expected) in [
            ("x===1", "unable to parse requirement: found '=', expected: identifier"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("bad!key=x", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
            ("k=bad value!", "found 'value', expected: ',' or 'end of string'"),
            ("x in (1", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x=(1)", "unable to parse requirement: found '(', expected: identifier"),
            ("=1", "found '=', expected: !, identifier, or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("x,", "found '', expected: identifier after ','"),
            ("x in 1", "unable to parse requirement: found '1' expected: '('"),
            ("x in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            (
                "x>a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(check_labels(text), Err(expected.to_owned()), "{text}");
        }
        let long = "v".repeat(64);
        let expected = format!(
            "unable to parse requirement: values[0][x]: Invalid value: {long:?}: must be no more than 63 bytes"
        );
        assert_eq!(check_labels(&format!("x={long}")), Err(expected));
        let refused = check_labels("-x=1").expect_err("no key begins so");
        assert!(
            refused.starts_with("unable to parse requirement: <nil>: Invalid value: \"-x\": name part"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_a_field_selector_and_what_is_not() {
        for text in ["", ",", "a=b", "a==b", "a!=b", "a=", "a=b,c!=d,", "a=b\\,c", "a=b\\=c\\\\"] {
            assert_eq!(check_fields(text), Ok(()), "{text}");
        }
        for (text, expected) in [
            ("z=1,a", "invalid selector: 'z=1,a'; can't understand 'a'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
        ] {
            assert_eq!(check_fields(text), Err(expected.to_owned()), "{text}");
        }
    }
}
