//! The path of a value in an object, as messages show it: `spec.list[0].field`.
//!
//! A walk over an object passes it down. It is only formatted for messages: the paths of all values
//! of an object can be longer than the object by orders of magnitude, if a long key contains many
//! values.

use std::fmt;

use super::go_format::quoted;

/// The path of a value, linked to that of the value around it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValuePath<'a> {
    /// The path of the value where the walk begins.
    Root(&'a str),
    /// A field: `path.key`, or `key` if the path is empty.
    Field(&'a ValuePath<'a>, &'a str),
    /// An entry of a map: `path[key]`.
    Key(&'a ValuePath<'a>, &'a str),
    /// An entry of a map in messages that show it like a field: `path.key`.
    Entry(&'a ValuePath<'a>, &'a str),
    /// An item of a list: `path[0]`.
    Item(&'a ValuePath<'a>, usize),
}

impl ValuePath<'_> {
    /// Returns the path as it is formatted with quotes.
    pub(crate) fn quoted(&self) -> impl fmt::Display {
        fmt::from_fn(|f| f.write_str(&quoted(&self.to_string())))
    }

    /// Returns true if the path has no text.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Root(path) => path.is_empty(),
            Self::Field(above, key) => key.is_empty() && above.is_empty(),
            Self::Key(..) | Self::Entry(..) | Self::Item(..) => false,
        }
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(path) => f.write_str(path),
            Self::Field(above, key) if above.is_empty() => f.write_str(key),
            Self::Field(above, key) | Self::Entry(above, key) => write!(f, "{above}.{key}"),
            Self::Key(above, key) => write!(f, "{above}[{key}]"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_formatted_with_dots_and_brackets() {
        let root = ValuePath::Root("");
        let spec = ValuePath::Field(&root, "spec");
        let list = ValuePath::Key(&spec, "list");
        assert_eq!(ValuePath::Field(&ValuePath::Item(&list, 3), "a").to_string(), "spec[list][3].a");
        assert_eq!(ValuePath::Entry(&root, "a").to_string(), ".a");
        assert_eq!(ValuePath::Field(&ValuePath::Root("status"), "a").to_string(), "status.a");
        assert!(root.is_empty() && !spec.is_empty());
    }
}
