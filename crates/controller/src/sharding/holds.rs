//! The keys that are being worked on: a key is handed over only after the work on it has ended.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use tokio::sync::Notify;

/// The held keys, with the number of holds of each. A hold ends when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Holds {
    keys: Mutex<BTreeMap<String, usize>>,
    ended: Notify,
}

/// A hold on one key, which lasts as long as the work on it.
#[derive(Debug)]
pub(super) struct Hold<'h> {
    holds: &'h Holds,
    key: &'h str,
}

impl Holds {
    pub(super) fn begin<'h>(&'h self, key: &'h str) -> Hold<'h> {
        *self.keys.lock().entry(key.to_owned()).or_default() += 1;
        Hold { holds: self, key }
    }

    /// Returns true if a key is held that satisfies the predicate.
    pub(super) fn any(&self, should_not: impl Fn(&str) -> bool) -> bool {
        self.keys.lock().keys().any(|it| should_not(it))
    }

    /// Waits until a hold ends.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut keys = self.holds.keys.lock();
        if let Some(count) = keys.get_mut(self.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(self.key);
            }
        }
        drop(keys);
        self.holds.ended.notify_one();
    }
}
