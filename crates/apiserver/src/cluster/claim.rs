//! What a service takes while it is being readied: given back unless it is stored, also when nobody waits any more.

use serde_json::Value;

use super::Cluster;
use crate::registry::Kind;

/// The addresses and ports that a write may take. Dropping it sets them back to what is stored.
#[derive(Debug)]
#[must_use = "dropping it gives back what was taken"]
pub(super) struct Claim<'a> {
    cluster: &'a Cluster,
    kind: &'a Kind,
    uid: String,
    stored: Option<&'a Value>,
    kept: bool,
}

impl<'a> Claim<'a> {
    /// What the object with this uid may take; `stored` is what is stored of it.
    pub(super) fn of(cluster: &'a Cluster, kind: &'a Kind, uid: &str, stored: Option<&'a Value>) -> Self {
        Self { cluster, kind, uid: uid.to_owned(), stored, kept: false }
    }

    /// This is stored now.
    pub(super) fn keep(mut self, stored: Option<&Value>) {
        self.kept = true;
        self.cluster.settle_addresses(self.kind, &self.uid, stored);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.cluster.settle_addresses(self.kind, &self.uid, self.stored);
        }
    }
}
