//! The next value of an object, in either encoding.

use serde::de::Unexpected;

/// A string of an object: borrowed from the body, or composed in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text<'de, 's> {
    Borrowed(&'de str),
    Composed(&'s str),
}

/// A number in the widest type that holds it exactly, or a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Unsigned(u64),
    /// Always below zero.
    Signed(i64),
    Float(f64),
}

/// The next value: a scalar, which is consumed, or the start of a map or a sequence, which is not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'de, 's> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text<'de, 's>),
    Map,
    Seq,
}

impl Text<'_, '_> {
    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Composed(text) => text,
        }
    }
}

impl Token<'_, '_> {
    /// Returns the value for an error message.
    pub(crate) fn unexpected(&self) -> Unexpected<'_> {
        match self {
            Self::Null => Unexpected::Unit,
            Self::Bool(value) => Unexpected::Bool(*value),
            Self::Number(Number::Unsigned(number)) => Unexpected::Unsigned(*number),
            Self::Number(Number::Signed(number)) => Unexpected::Signed(*number),
            Self::Number(Number::Float(number)) => Unexpected::Float(*number),
            Self::Text(text) => Unexpected::Str(text.as_str()),
            Self::Map => Unexpected::Map,
            Self::Seq => Unexpected::Seq,
        }
    }
}
