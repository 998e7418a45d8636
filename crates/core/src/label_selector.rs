//! Label selectors: building, parsing, printing and matching.
//!
//! The grammar is the API's: `a`, `!a`, `a=b`, `a==b`, `a!=b`, `a>1`, `a<1`, `a in (b,c)`,
//! `a notin (b,c)`, joined by commas. Parsing a printed selector gives the same selector.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use smallvec::SmallVec;

use crate::meta::Labels;
use crate::requirement::{InvalidRequirement, Operator, Requirement};

/// A label that no object carries; see [`LabelSelector::nothing`].
const IMPOSSIBLE: &str = "dogwatch.invalid/impossible";

/// A selector of objects by their labels. All requirements must hold. Selects everything by
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: SmallVec<[Requirement; 2]>,
}

/// The error of parsing text that is not a label selector, with the position of the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("label selector {text:?}: {problem}")]
pub struct LabelSelectorError {
    text: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("expected {expected}, found {found}")]
    Unexpected { found: String, expected: &'static str },
    #[error(transparent)]
    Requirement(#[from] InvalidRequirement),
    #[error("{0:?} is not an operator of matchExpressions")]
    Operator(String),
    #[error("kube-core has no {0:?}")]
    NotInKube(Operator),
}

impl LabelSelectorError {
    /// Returns the error of converting a requirement to kube-core, which has no such operator.
    pub(crate) fn not_in_kube(requirement: &Requirement) -> Self {
        Self { text: requirement.to_string(), problem: Problem::NotInKube(requirement.operator()) }
    }
}

impl LabelSelector {
    /// Selects every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Selects no object, here and on the server.
    ///
    /// It consists of two contradictory requirements, so that printing it never widens it.
    pub fn nothing() -> Self {
        let pair = [Operator::Exists, Operator::DoesNotExist];
        let requirements =
            pair.map(|it| Requirement::new(IMPOSSIBLE, it, NO_VALUES).expect("the constant is a label key"));
        Self { requirements: requirements.into_iter().collect() }
    }

    /// Returns true if it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns true if it was created by [`Self::nothing`].
    pub fn is_nothing(&self) -> bool {
        let of_impossible =
            |operator| self.requirements.iter().any(|it| it.key() == IMPOSSIBLE && it.operator() == operator);
        of_impossible(Operator::Exists) && of_impossible(Operator::DoesNotExist)
    }

    /// Requires a label to have this value.
    ///
    /// # Errors
    /// Returns an error if the key or the value is not valid for a label.
    pub fn equals(self, key: &str, value: &str) -> Result<Self, LabelSelectorError> {
        self.and(key, Operator::Equals, [value])
    }

    /// Adds a requirement of any kind.
    ///
    /// # Errors
    /// Returns an error if the key or a value is not valid for a label, or if the operator takes
    /// another number of values.
    pub fn and<'v>(
        mut self,
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<Self, LabelSelectorError> {
        match Requirement::new(key, operator, values) {
            Ok(requirement) => {
                self.push(requirement);
                Ok(self)
            }
            Err(problem) => Err(LabelSelectorError { text: key.to_owned(), problem: problem.into() }),
        }
    }

    /// Selects the objects that all of these selectors select.
    ///
    /// ```
    /// use dogwatch_core::LabelSelector;
    ///
    /// let selectors = ["tier=web".parse()?, "app=shop,canary".parse()?];
    /// assert_eq!(LabelSelector::all_of(selectors).to_string(), "app=shop,canary,tier=web");
    /// # Ok::<_, dogwatch_core::LabelSelectorError>(())
    /// ```
    pub fn all_of(selectors: impl IntoIterator<Item = Self>) -> Self {
        Self::of(selectors.into_iter().flat_map(|it| it.requirements))
    }

    fn of(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut selector = Self { requirements: requirements.into_iter().collect() };
        // Ordered by key, as the server prints them; those of the same key keep their order.
        selector.requirements.sort_by(|one, other| one.key().cmp(other.key()));
        selector
    }

    /// Returns the requirements, ordered by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if an object with these labels is selected.
    pub fn matches(&self, labels: Labels<'_>) -> bool {
        self.requirements.iter().all(|it| it.matches(labels))
    }

    /// Keeps requirements ordered by key, as the server prints them; those of the same key keep
    /// their order.
    fn push(&mut self, requirement: Requirement) {
        let at = self.requirements.partition_point(|it| it.key() <= requirement.key());
        self.requirements.insert(at, requirement);
    }
}

const NO_VALUES: [&str; 0] = [];

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parser = Parser { rest: text };
        parser.selector().map_err(|problem| LabelSelectorError { text: text.to_owned(), problem })
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl TryFrom<&meta_v1::LabelSelector> for LabelSelector {
    type Error = LabelSelectorError;

    /// Converts the selector of a Deployment, a ReplicaSet and the like. An empty one selects
    /// everything.
    fn try_from(source: &meta_v1::LabelSelector) -> Result<Self, Self::Error> {
        let new = |key: &str, operator, values: &mut dyn Iterator<Item = &str>| {
            Requirement::new(key, operator, values)
                .map_err(|problem| LabelSelectorError { text: key.to_owned(), problem: problem.into() })
        };
        let mut requirements = Vec::new();
        for (key, value) in source.match_labels.iter().flatten() {
            requirements.push(new(key, Operator::Equals, &mut std::iter::once(value.as_str()))?);
        }
        for expression in source.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let problem = Problem::Operator(other.to_owned());
                    return Err(LabelSelectorError { text: expression.key.clone(), problem });
                }
            };
            let mut values = expression.values.iter().flatten().map(String::as_str);
            requirements.push(new(&expression.key, operator, &mut values)?);
        }
        Ok(Self::of(requirements))
    }
}

/// A recursive-descent parser over the rest of the text.
struct Parser<'t> {
    rest: &'t str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// A sequence of characters that are neither space nor punctuation; `in` and `notin` are words
    /// too.
    Word(&'t str),
    Punctuation(&'static str),
    End,
}

/// Longest first, so that `==` is not read as two `=`.
const PUNCTUATION: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

impl<'t> Parser<'t> {
    fn selector(&mut self) -> Result<LabelSelector, Problem> {
        if self.peek() == Token::End {
            return Ok(LabelSelector::everything());
        }
        let mut requirements = Vec::new();
        loop {
            requirements.push(self.requirement()?);
            match self.next() {
                Token::End => return Ok(LabelSelector::of(requirements)),
                Token::Punctuation(",") => {}
                other => return Err(unexpected(other, "`,` or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Problem> {
        if self.peek() == Token::Punctuation("!") {
            self.next();
            let key = self.word("a label key")?;
            return Ok(Requirement::new(key, Operator::DoesNotExist, NO_VALUES)?);
        }
        let key = self.word("a label key")?;
        let operator = match self.peek() {
            Token::End | Token::Punctuation(",") => {
                return Ok(Requirement::new(key, Operator::Exists, NO_VALUES)?);
            }
            Token::Punctuation("=" | "==") => Operator::Equals,
            Token::Punctuation("!=") => Operator::NotEquals,
            Token::Punctuation(">") => Operator::GreaterThan,
            Token::Punctuation("<") => Operator::LessThan,
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            other => return Err(unexpected(other, "an operator (=, ==, !=, >, <, in, notin)")),
        };
        self.next();
        Ok(match operator {
            Operator::In | Operator::NotIn => Requirement::new(key, operator, self.value_list()?)?,
            _ => Requirement::new(key, operator, [self.value()])?,
        })
    }

    /// Parses a single value; a missing one is the empty value.
    fn value(&mut self) -> &'t str {
        match self.peek() {
            Token::Word(word) => {
                self.next();
                word
            }
            _ => "",
        }
    }

    /// Parses `(a,b)`. A missing value is the empty value, so `()` contains one.
    fn value_list(&mut self) -> Result<SmallVec<[&'t str; 4]>, Problem> {
        match self.next() {
            Token::Punctuation("(") => {}
            other => return Err(unexpected(other, "`(`")),
        }
        let mut values = SmallVec::new();
        loop {
            values.push(self.value());
            match self.next() {
                Token::Punctuation(",") => {}
                Token::Punctuation(")") => return Ok(values),
                other => return Err(unexpected(other, "`,` or `)`")),
            }
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<&'t str, Problem> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(unexpected(other, expected)),
        }
    }

    fn peek(&self) -> Token<'t> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'t> {
        self.rest = self.rest.trim_start_matches(is_space);
        if self.rest.is_empty() {
            return Token::End;
        }
        for mark in PUNCTUATION {
            if let Some(rest) = self.rest.strip_prefix(mark) {
                self.rest = rest;
                return Token::Punctuation(mark);
            }
        }
        let end = self.rest.find(|it| is_space(it) || "=!(),<>".contains(it)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Token::Word(word)
    }
}

fn is_space(it: char) -> bool {
    matches!(it, ' ' | '\t' | '\r' | '\n')
}

fn unexpected(token: Token<'_>, expected: &'static str) -> Problem {
    let found = match token {
        Token::Word(word) => format!("{word:?}"),
        Token::Punctuation(mark) => format!("`{mark}`"),
        Token::End => "the end".to_owned(),
    };
    Problem::Unexpected { found, expected }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::meta::Meta;

    #[test]
    fn selectors_parse_and_print_in_one_form() {
        for (text, printed) in [
            ("", ""),
            (" ", ""),
            ("a", "a"),
            ("!a", "!a"),
            ("! a", "!a"),
            ("a=b", "a=b"),
            ("a==b", "a=b"),
            ("a = b , c != d", "a=b,c!=d"),
            ("a=", "a="),
            ("a=,b", "a=,b"),
            ("b,a", "a,b"),
            ("x in (c,a,b,a)", "x in (a,b,c)"),
            ("x notin(a)", "x notin (a)"),
            ("x in ()", "x in ()"),
            ("x in (a,)", "x in (,a)"),
            ("x>1,x<9", "x>1,x<9"),
            ("in=notin", "in=notin"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("a.b/c=d", "a.b/c=d"),
            ("x in (a)\n,\ty", "x in (a),y"),
        ] {
            let selector: LabelSelector = text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(selector.to_string(), printed, "{text:?}");
            assert_eq!(printed.parse(), Ok(selector), "{text:?}");
        }
    }

    #[test]
    fn invalid_selectors_are_rejected_with_the_position() {
        for (text, problem) in [
            (",", "expected a label key, found `,`"),
            ("a,", "expected a label key, found the end"),
            ("!", "expected a label key, found the end"),
            ("!a=b", "expected `,` or the end, found `=`"),
            ("a b", "expected an operator (=, ==, !=, >, <, in, notin), found \"b\""),
            ("a in b", "expected `(`, found \"b\""),
            ("a in (b", "expected `,` or `)`, found the end"),
            ("a=b c", "expected `,` or the end, found \"c\""),
            ("a>x", "\"x\" is not an integer, which `>` and `<` compare with"),
        ] {
            let error = text.parse::<LabelSelector>().expect_err(text);
            assert_eq!(error.to_string(), format!("label selector {text:?}: {problem}"));
        }
        for text in ["-a=b", "a=-b", "a/b/c=d", "a=b/c"] {
            assert!(text.parse::<LabelSelector>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn nothing_stays_nothing_when_printed_and_parsed() {
        let nothing = LabelSelector::nothing();
        assert!(nothing.is_nothing() && !nothing.is_everything());
        assert!(!nothing.matches(Meta::default().labels()));
        assert_eq!(nothing.to_string().parse(), Ok(nothing));
    }

    #[test]
    fn the_selector_of_a_workload_is_converted() {
        let source = meta_v1::LabelSelector {
            match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
            match_expressions: Some(vec![meta_v1::LabelSelectorRequirement {
                key: "tier".to_owned(),
                operator: "NotIn".to_owned(),
                values: Some(vec!["db".to_owned()]),
            }]),
        };
        let selector = LabelSelector::try_from(&source).expect("valid");
        assert_eq!(selector.to_string(), "app=web,tier notin (db)");
        assert!(selector.matches(Meta::default().with_labels([("app", "web")]).labels()));
        assert!(!selector.matches(Meta::default().with_labels([("app", "web"), ("tier", "db")]).labels()));
    }

    prop_compose! {
        fn requirement()(key in "[a-z]{1,3}(/[a-z]{1,3})?", which in 0..8usize, values in proptest::collection::vec("[a-z0-9]{0,3}", 1..4), number in 0i64..100) -> Requirement {
            let one = values[..1].to_vec();
            let (operator, values) = match which {
                0 => (Operator::Equals, one),
                1 => (Operator::NotEquals, one),
                2 => (Operator::In, values),
                3 => (Operator::NotIn, values),
                4 => (Operator::Exists, vec![]),
                5 => (Operator::DoesNotExist, vec![]),
                6 => (Operator::GreaterThan, vec![number.to_string()]),
                _ => (Operator::LessThan, vec![number.to_string()]),
            };
            Requirement::new(&key, operator, values).expect("generated to be valid")
        }
    }

    proptest! {
        #[test]
        fn parse_after_print_is_identity(requirements in proptest::collection::vec(requirement(), 0..5)) {
            let mut selector = LabelSelector::everything();
            requirements.into_iter().for_each(|it| selector.push(it));
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<LabelSelector>();
        }
    }
}
