//! Field selectors: `metadata.name=a,status.phase!=Running`, with the API's escapes.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use smallvec::SmallVec;

/// A selector of objects by fields that the server supports. All terms must hold. Selects
/// everything by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: SmallVec<[Term; 1]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    field: CompactString,
    value: CompactString,
    equal: bool,
}

/// The error of parsing text that is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field selector {text:?}: {problem}")]
pub struct FieldSelectorError {
    text: String,
    problem: String,
}

impl FieldSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects the one object of this name.
    pub fn name(name: &str) -> Self {
        Self::default().equals("metadata.name", name)
    }

    /// Requires a field to have this value.
    #[must_use]
    pub fn equals(self, field: &str, value: &str) -> Self {
        self.with(field, value, true)
    }

    /// Requires a field not to have this value.
    #[must_use]
    pub fn not_equals(self, field: &str, value: &str) -> Self {
        self.with(field, value, false)
    }

    /// Returns true if it selects every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the value that a field must have, if the selector requires exactly one.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|it| it.equal && it.field == field).map(|it| it.value.as_str())
    }

    /// Returns the terms in order: field, value, and whether they must be equal.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = (&str, &str, bool)> {
        self.terms.iter().map(|it| (it.field.as_str(), it.value.as_str(), it.equal))
    }

    /// Returns true if an object is selected. `read` returns the fields of the object; a missing
    /// field counts as empty.
    pub fn matches<'v>(&self, read: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.terms.iter().all(|it| (read(&it.field).unwrap_or_default() == it.value) == it.equal)
    }

    fn with(mut self, field: &str, value: &str, equal: bool) -> Self {
        self.terms.push(Term { field: field.into(), value: value.into(), equal });
        self
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |problem: String| FieldSelectorError { text: text.to_owned(), problem };
        let mut selector = Self::everything();
        for term in split_terms(text).filter(|it| !it.is_empty()) {
            let (field, value, equal) = split_term(term).ok_or_else(|| {
                refuse(format!("{term:?} has no operator: expected `field=value` or `field!=value`"))
            })?;
            let value = unescape(value).map_err(refuse)?;
            selector = selector.with(field, &value, equal);
        }
        Ok(selector)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |it| {
        let splits = it == ',' && !escaped;
        escaped = it == '\\' && !escaped;
        splits
    })
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find(['=', '!'])?;
    let (field, rest) = term.split_at(at);
    for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(operator) {
            return Some((field, value, equal));
        }
    }
    None
}

fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return Cow::Borrowed(value);
    }
    let mut escaped = String::with_capacity(value.len() + 4);
    for it in value.chars() {
        if matches!(it, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(it);
    }
    Cow::Owned(escaped)
}

fn unescape(value: &str) -> Result<Cow<'_, str>, String> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(it) = chars.next() {
        match it {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => {
                    return Err(format!("`\\{other}` is not an escape: expected `\\\\`, `\\,` or `\\=`"));
                }
                None => return Err(format!("{value:?} ends inside an escape")),
            },
            ',' | '=' => return Err(format!("`{it}` inside the value {value:?} must be written `\\{it}`")),
            other => plain.push(other),
        }
    }
    Ok(Cow::Owned(plain))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_parse_and_print_in_one_form() {
        for (text, printed) in [
            ("", ""),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a!=b", "a!=b"),
            ("a=", "a="),
            ("a=b,c!=d", "a=b,c!=d"),
            ("a=b,,c=d,", "a=b,c=d"),
            (r"a=b\,c", r"a=b\,c"),
            (r"a=b\\", r"a=b\\"),
            (r"a=\=", r"a=\="),
        ] {
            let selector: FieldSelector = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(selector.to_string(), printed, "{text:?}");
            assert_eq!(printed.parse(), Ok(selector), "{text:?}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for text in ["a", "a!b", r"a=\b", r"a=\", "a=b=c", "a===b"] {
            let error = text.parse::<FieldSelector>().expect_err(text);
            assert!(error.to_string().starts_with(&format!("field selector {text:?}: ")), "{error}");
        }
    }

    #[test]
    fn a_missing_field_counts_as_empty() {
        let read = |field: &str| (field == "spec.nodeName").then_some("n1");
        for (text, expected) in [
            ("spec.nodeName=n1", true),
            ("spec.nodeName!=n1", false),
            ("x=", true),
            ("x!=", false),
            ("x=,spec.nodeName=n2", false),
        ] {
            assert_eq!(text.parse::<FieldSelector>().expect("valid").matches(read), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(terms in proptest::collection::vec(("[a-z.]{1,8}", ".{0,8}", any::<bool>()), 0..4)) {
            let selector = terms.iter().fold(FieldSelector::everything(), |all, (field, value, equal)| all.with(field, value, *equal));
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<FieldSelector>();
        }
    }
}
