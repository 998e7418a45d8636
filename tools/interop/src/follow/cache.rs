//! A follower's cache: names and versions, and the digest by which caches are compared.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The versions of all objects, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cache(pub(super) BTreeMap<String, String>);

/// The final report of a follower; see bench/README.md.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    pub(super) peer: String,
    pub(super) objects: usize,
    pub(super) digest: String,
    /// The number of changes it received.
    pub(super) events: u64,
    /// The number of lists it made.
    pub(super) lists: u64,
}

impl Cache {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the SHA-256 of one line `NAME VERSION` per object, ordered by name.
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

impl FromIterator<(String, String)> for Cache {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(items: T) -> Self {
        Self(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_the_sorted_lines() {
        let cache: Cache =
            [("b", "2"), ("a", "10")].map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter().collect();
        // printf 'a 10\nb 2\n' | sha256sum
        assert_eq!(cache.digest(), "db9deb8dede047b3bda7ee262e71d9a6d269a69d415847f5ec64436548e93c1a");
    }
}
