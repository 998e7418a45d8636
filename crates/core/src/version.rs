//! Resource versions: opaque to everyone but this file.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The version the server gave to an object or a list.
///
/// Treat it as a name: keep it, hand it back, compare it for equality. Order is defined only between
/// versions of one resource type, and only where both are well-formed; [`ResourceVersion::compare`] is the one place
/// that knows how (rule ST-6, Kubernetes 1.35 and later promise it).
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(CompactString);

impl ResourceVersion {
    /// No version: "the newest there is" when reading.
    pub const UNSET: Self = Self(CompactString::const_new(""));
    /// "Any version, the cache's will do" when reading.
    pub const ANY: Self = Self(CompactString::const_new("0"));

    /// Wraps what the server said.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The version as the server wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True when there is no version at all.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// True when this names one point in history: neither unset nor [`Self::ANY`].
    pub fn is_exact(&self) -> bool {
        !self.is_unset() && *self != Self::ANY
    }

    /// Which of two versions of one resource type is older, or `None` where that cannot be told.
    ///
    /// Both must be decimal numbers without a leading zero, of any length.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let comparable = is_decimal(&self.0) && is_decimal(&other.0);
        comparable.then(|| self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    /// True when both can be compared and this one is older.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }
}

fn is_decimal(text: &str) -> bool {
    !text.starts_with('0') && !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit())
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn st_6_versions_compare_as_decimals_of_any_length() {
        use Ordering::{Equal, Greater, Less};
        for (left, right, expected) in [
            ("1", "1", Some(Equal)),
            ("9", "10", Some(Less)),
            ("100", "99", Some(Greater)),
            ("99999999999999999999999999", "100000000000000000000000000", Some(Less)),
            ("0", "1", None),
            ("", "1", None),
            ("01", "1", None),
            ("1", "a", None),
            ("-1", "1", None),
            ("1 ", "1", None),
        ] {
            assert_eq!(ResourceVersion::new(left).compare(&right.into()), expected, "{left:?} {right:?}");
        }
    }

    proptest! {
        #[test]
        fn st_6_agrees_with_numbers(left in 1u128.., right in 1u128..) {
            let ordering = ResourceVersion::from(left.to_string()).compare(&right.to_string().into());
            prop_assert_eq!(ordering, Some(left.cmp(&right)));
        }
    }
}
