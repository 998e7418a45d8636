//! Resource versions. Only this file interprets them.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// The version that the server gave to an object or a list.
///
/// Treat it as opaque: store it, send it back, compare it for equality. An order is defined only
/// between versions of the same resource type, and only if both are well-formed; see
/// [`ResourceVersion::compare`] (rule ST-6, guaranteed since Kubernetes 1.35).
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceVersion(CompactString);

impl ResourceVersion {
    /// No version. In a read it requests the newest state.
    pub const UNSET: Self = Self(CompactString::const_new(""));
    /// In a read it accepts any version, including one from the server's cache.
    pub const ANY: Self = Self(CompactString::const_new("0"));

    /// Wraps a version from the server.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the version as the server wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if there is no version.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if this names one point in history: neither unset nor [`Self::ANY`].
    pub fn is_exact(&self) -> bool {
        !self.is_unset() && *self != Self::ANY
    }

    /// Compares two versions of the same resource type. Returns `None` if they cannot be ordered.
    ///
    /// Both must be decimal numbers without a leading zero, of any length.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        let comparable = is_decimal(&self.0) && is_decimal(&other.0);
        comparable.then(|| self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0)))
    }

    /// Returns true if both can be compared and this one is older.
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
