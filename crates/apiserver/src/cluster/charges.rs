//! Quota charges whose object is not stored yet.
//!
//! The quota controller must not recount a namespace while such a charge exists: it would not find
//! the object and would revert the charge.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// The number of writes between charge and commit, by namespace.
#[derive(Debug, Default)]
pub(super) struct Charges(Mutex<BTreeMap<String, usize>>);

/// A write between its charge and its commit. Dropped when the object is stored, or will not be.
#[derive(Debug)]
#[must_use = "dropping it ends the charge"]
pub(super) struct Charge<'a> {
    charges: &'a Charges,
    namespace: String,
}

impl Charges {
    /// Starts a charge. Must be called before the quotas are read.
    pub(super) fn begin(&self, namespace: &str) -> Charge<'_> {
        *self.pending().entry(namespace.to_owned()).or_default() += 1;
        Charge { charges: self, namespace: namespace.to_owned() }
    }

    /// Returns true if any write of a namespace is between its charge and its commit.
    pub(super) fn is_pending(&self, namespace: &str) -> bool {
        self.pending().contains_key(namespace)
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock()
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        let mut pending = self.charges.pending();
        if let Some(count) = pending.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                pending.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_pending_charge_until_the_last_one_is_dropped() {
        let charges = Charges::default();
        let (first, second) = (charges.begin("a"), charges.begin("a"));
        drop(first);
        assert!(charges.is_pending("a") && !charges.is_pending("b"));
        drop(second);
        assert!(!charges.is_pending("a"));
    }
}
