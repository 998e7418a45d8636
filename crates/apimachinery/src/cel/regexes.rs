//! Regular expressions in Go's syntax.
//!
//! Only what differs is translated: the classes of Go's `\d`, `\w`, `\s` and `\b` are those of
//! ASCII, and `[`, `&` and `~` have no meaning within a class.
//!
//! The caller pays for a search by the size of the text and of the compiled expression: the more
//! states it has, the more of them can be active at each byte.

use std::borrow::Cow;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;

/// The memory of a compiled expression, in bytes.
const MAX_SIZE: usize = 1024 * 1024;

/// The memory that each thread keeps to search for an expression, in bytes.
pub(crate) const CACHE_SIZE: usize = 128 * 1024;

/// The number of bytes of a compiled expression that make the search of a byte one unit of work
/// slower.
const BYTES_PER_UNIT: usize = 256;

/// The work of searching a byte for the smallest expression.
const LEAST_UNITS: usize = 8;

/// The bytes of the rest of a text that one unit of work pays for, for each of several matches.
const REST_PER_UNIT: usize = 2;

/// Compiles a pattern.
///
/// # Errors
/// The reason, without the pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let config = Regex::config()
        .nfa_size_limit(Some(MAX_SIZE))
        .onepass_size_limit(Some(CACHE_SIZE))
        .hybrid_cache_capacity(CACHE_SIZE);
    let mut builder = Regex::builder();
    builder.configure(config).syntax(syntax::Config::new().nest_limit(250));
    builder.build(&translated(pattern)).map_err(|error: BuildError| match error.size_limit() {
        Some(limit) => format!("expression needs more than {limit} bytes"),
        None => format!("error parsing regexp: `{pattern}`"),
    })
}

/// Returns the work of searching a text.
pub(crate) fn work_of_search(regex: &Regex, text: &str) -> u64 {
    let units = LEAST_UNITS.saturating_add(regex.memory_usage() / BYTES_PER_UNIT);
    (text.len() as u64).saturating_mul(units as u64)
}

/// Returns the work of the search for one of several matches, if this much of the text is left: it
/// may read all of that before it finds a short one.
pub(crate) fn work_of_match(rest: usize) -> u64 {
    (rest / REST_PER_UNIT) as u64
}

fn translated(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains(['\\', '[']) {
        return Cow::Borrowed(pattern);
    }
    let mut result = String::with_capacity(pattern.len());
    let mut in_class = false;
    let mut at_start = false;
    let mut rest = pattern;
    while let Some(ch) = rest.chars().next() {
        let length = ch.len_utf8();
        let mut taken = length;
        match ch {
            '\\' => {
                let next = rest.chars().nth(1);
                taken += next.map_or(0, char::len_utf8);
                match next {
                    Some('d') => result.push_str("[0-9]"),
                    Some('D') => result.push_str("[^0-9]"),
                    Some('w') => result.push_str("[0-9A-Za-z_]"),
                    Some('W') => result.push_str("[^0-9A-Za-z_]"),
                    Some('s') => result.push_str("[\\t\\n\\x0c\\r ]"),
                    Some('S') => result.push_str("[^\\t\\n\\x0c\\r ]"),
                    Some('b') if !in_class => result.push_str("(?-u:\\b)"),
                    Some('B') if !in_class => result.push_str("(?-u:\\B)"),
                    Some('Q') if !in_class => {
                        let quoted = rest.get(taken..).unwrap_or_default();
                        let end = quoted.find("\\E");
                        let text = quoted.get(..end.unwrap_or(quoted.len())).unwrap_or_default();
                        result.push_str(&regex::escape(text));
                        taken += text.len() + end.map_or(0, |_| 2);
                    }
                    _ => result.push_str(rest.get(..taken).unwrap_or_default()),
                }
                at_start = false;
            }
            '[' if !in_class => {
                result.push('[');
                if rest.starts_with("[^") {
                    result.push('^');
                    taken += 1;
                }
                (in_class, at_start) = (true, true);
            }
            // A class may begin with a bracket.
            ']' if in_class && at_start => {
                result.push_str("\\]");
                at_start = false;
            }
            ']' if in_class => {
                result.push(']');
                in_class = false;
            }
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                let end = rest.find(":]").map_or(length, |it| it + 2);
                result.push_str(rest.get(..end).unwrap_or_default());
                taken = end;
                at_start = false;
            }
            '[' | '&' | '~' if in_class => {
                result.push('\\');
                result.push(ch);
                at_start = false;
            }
            _ => {
                result.push(ch);
                at_start = false;
            }
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        let fits = |pattern: &str, text: &str| compile(pattern).unwrap().is_match(text);
        assert!(fits(r"^\d+$", "123") && !fits(r"^\d+$", "\u{661}"));
        assert!(fits(r"^[\w.-]+$", "a.b-c") && !fits(r"^[\w]$", "\u{e9}"));
        assert!(fits(r"^[^\s]+$", "abc") && !fits(r"^\S+$", "a b"));
        assert!(fits(r"^[[]$", "[") && fits(r"^[]a]$", "]") && fits(r"^[a&&b]$", "&"));
        assert!(fits(r"^[[:alpha:]]+$", "abc") && fits(r"^\Qa.b\E$", "a.b") && !fits(r"^\Qa.b\E$", "axb"));
        assert!(compile("[").is_err() && compile("(?:a{1000}){1000}").is_err());
    }
}
