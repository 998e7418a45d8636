//! A follower's copy: names and versions, and the digest by which copies are compared.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Which objects there are, in which version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Copy(pub(super) BTreeMap<String, String>);

/// What a follower says at its end; see bench/README.md.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    pub(super) peer: String,
    pub(super) objects: usize,
    pub(super) digest: String,
    /// How many changes it was told of.
    pub(super) events: u64,
    /// How often it began anew.
    pub(super) lists: u64,
}

impl Copy {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The SHA-256 of a line `NAME VERSION` for each object, in the order of their names.
    pub(super) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (name, version) in &self.0 {
            digest.update(format!("{name} {version}\n"));
        }
        digest.finalize().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl FromIterator<(String, String)> for Copy {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(items: T) -> Self {
        Self(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_sorted_lines() {
        let copy: Copy =
            [("b", "2"), ("a", "10")].map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter().collect();
        // printf 'a 10\nb 2\n' | sha256sum
        assert_eq!(copy.digest(), "db9deb8dede047b3bda7ee262e71d9a6d269a69d415847f5ec64436548e93c1a");
    }
}
