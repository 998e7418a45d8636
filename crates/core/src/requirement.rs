//! One term of a label selector: a key, an operator and values, valid by construction.

use std::fmt;

use compact_str::CompactString;
use smallvec::SmallVec;

use crate::meta::Labels;
use crate::names;

/// The operator of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operator {
    /// The value equals this one.
    Equals,
    /// The value differs from this one, or the key is absent.
    NotEquals,
    /// The value is one of these.
    In,
    /// The value is none of these, or the key is absent.
    NotIn,
    /// The key is present.
    Exists,
    /// The key is absent.
    DoesNotExist,
    /// The value is an integer greater than this one.
    GreaterThan,
    /// The value is an integer less than this one.
    LessThan,
}

/// One term of a label selector. Invariant: key and values have passed the server's validation
/// rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: CompactString,
    operator: Operator,
    /// Sorted, without duplicates; as many as the operator takes.
    values: SmallVec<[CompactString; 1]>,
}

/// An error of creating a requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum InvalidRequirement {
    #[error(
        "{0:?} is not a label key: expected an optional DNS prefix and `/`, then 1 to 63 letters, digits, `-`, `_` or `.`"
    )]
    Key(String),
    #[error(
        "{0:?} is not a label value: expected at most 63 letters, digits, `-`, `_` or `.`, with a letter or digit at both ends"
    )]
    Value(String),
    #[error("{0:?} is not an integer, which `>` and `<` compare with")]
    Number(String),
    #[error("{operator:?} of {key:?} does not take {count} values")]
    Count { key: String, operator: Operator, count: usize },
}

impl Requirement {
    pub(crate) fn new<V: Into<CompactString>>(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, InvalidRequirement> {
        if !names::is_qualified_name(key) {
            return Err(InvalidRequirement::Key(key.to_owned()));
        }
        let mut values: SmallVec<[CompactString; 1]> = values.into_iter().map(Into::into).collect();
        values.sort();
        values.dedup();
        let counts = match operator {
            Operator::In | Operator::NotIn => !values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => values.is_empty(),
            _ => values.len() == 1,
        };
        if !counts {
            return Err(InvalidRequirement::Count { key: key.to_owned(), operator, count: values.len() });
        }
        for value in &values {
            match operator {
                Operator::GreaterThan | Operator::LessThan if value.parse::<i64>().is_err() => {
                    return Err(InvalidRequirement::Number(value.to_string()));
                }
                _ if !names::is_label_value(value) => {
                    return Err(InvalidRequirement::Value(value.to_string()));
                }
                _ => {}
            }
        }
        Ok(Self { key: key.into(), operator, values })
    }

    /// Returns the key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values, sorted and without duplicates.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(CompactString::as_str)
    }

    /// Returns true if these labels satisfy the requirement.
    pub fn matches(&self, labels: Labels<'_>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Equals | Operator::In => value.is_some_and(|it| self.has(it)),
            Operator::NotEquals | Operator::NotIn => value.is_none_or(|it| !self.has(it)),
            Operator::GreaterThan => self.compare(value, |value, bound| value > bound),
            Operator::LessThan => self.compare(value, |value, bound| value < bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|it| it == value)
    }

    fn compare(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let value = value.and_then(|it| it.parse().ok());
        let bound = self.values.first().and_then(|it| it.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(value, bound))
    }
}

impl fmt::Display for Requirement {
    /// Writes the form that a server parses: `a=b`, `a in (b,c)`, `!a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let value = self.values.first().map_or("", CompactString::as_str);
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={value}"),
            Operator::NotEquals => write!(f, "{key}!={value}"),
            Operator::GreaterThan => write!(f, "{key}>{value}"),
            Operator::LessThan => write!(f, "{key}<{value}"),
            Operator::In => write!(f, "{key} in ({})", self.values.join(",")),
            Operator::NotIn => write!(f, "{key} notin ({})", self.values.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Meta;

    #[test]
    fn every_operator_is_evaluated_for_equal_different_and_absent_values() {
        let with = |value: &str| Meta::default().with_labels([("n", value)]);
        let (five, nine, none) = (with("5"), with("9"), Meta::default());
        for (operator, values, expected) in [
            (Operator::Equals, vec!["5"], [true, false, false]),
            (Operator::NotEquals, vec!["5"], [false, true, true]),
            (Operator::In, vec!["5", "6"], [true, false, false]),
            (Operator::NotIn, vec!["5", "6"], [false, true, true]),
            (Operator::Exists, vec![], [true, true, false]),
            (Operator::DoesNotExist, vec![], [false, false, true]),
            (Operator::GreaterThan, vec!["6"], [false, true, false]),
            (Operator::LessThan, vec!["6"], [true, false, false]),
        ] {
            let requirement = Requirement::new("n", operator, values).expect("valid");
            let answers = [&five, &nine, &none].map(|it| requirement.matches(it.labels()));
            assert_eq!(answers, expected, "{requirement}");
        }
    }

    #[test]
    fn operators_take_the_number_of_values_they_compare_with() {
        for (operator, count) in
            [(Operator::Equals, 0), (Operator::Equals, 2), (Operator::In, 0), (Operator::Exists, 1)]
        {
            let values = (0..count).map(|it| it.to_string());
            assert!(Requirement::new("k", operator, values).is_err(), "{operator:?} {count}");
        }
        assert!(Requirement::new("k", Operator::LessThan, ["x"]).is_err());
    }
}
