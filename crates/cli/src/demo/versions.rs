//! Resource versions as the story prints them.

/// The numbers by which the story names resource versions.
///
/// A server on a port that the user chose begins with a large version, so that clients of an
/// earlier server at the same address know none of its versions. Numbers of 16 digits are hard to
/// compare at a glance, so the story counts from the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Versions {
    /// The version before the first one of the story; 0 if versions are printed as they are.
    before: u64,
}

impl Versions {
    /// Returns the numbers of versions after this one.
    pub(super) fn after(before: u64) -> Self {
        Self { before }
    }

    /// Returns the number of a version.
    pub(super) fn shown(self, version: &str) -> String {
        let number = version.parse::<u64>().ok().and_then(|it| it.checked_sub(self.before));
        number.map_or_else(|| version.to_owned(), |it| it.to_string())
    }

    /// Returns the number of a version.
    pub(super) fn number(self, version: u64) -> u64 {
        version.checked_sub(self.before).unwrap_or(version)
    }

    /// Returns a sentence about the numbers, if they are not the versions themselves.
    pub(super) fn note(self) -> Option<String> {
        let Self { before } = self;
        let first = before.saturating_add(1);
        (before > 0)
            .then(|| format!("Versions are counted from the start: 1 is the resourceVersion {first}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_versions_are_counted_from_the_first_one() {
        let versions = Versions::after(1_795_084_507_892_136);
        assert_eq!(versions.shown("1795084507892240"), "104");
        assert_eq!((versions.number(1_795_084_507_892_141), versions.number(7)), (5, 7));
        assert_eq!((versions.shown("7"), versions.shown("")), ("7".to_owned(), String::new()));
        assert!(versions.note().is_some_and(|it| it.contains(" 1795084507892137.")));
    }

    #[test]
    fn small_versions_are_printed_as_they_are() {
        let versions = Versions::default();
        assert_eq!((versions.shown("104"), versions.number(5), versions.note()), ("104".to_owned(), 5, None));
    }
}
