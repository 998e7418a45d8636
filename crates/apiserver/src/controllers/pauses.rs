//! Pauses: the time for which a controller leaves an object alone before it acts on it.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use tokio::time::Instant;

/// The start of the pause of each key. A key takes memory until [`Pauses::end`].
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    since: BTreeMap<ObjectKey, Instant>,
}

impl Pauses {
    /// Returns the rest of the pause of a key, which starts with the first call; `None` when it is
    /// over.
    pub(crate) fn left(&mut self, key: &ObjectKey, pause: Duration) -> Option<Duration> {
        let since = *self.since.entry(key.clone()).or_insert_with(Instant::now);
        Some(pause.saturating_sub(since.elapsed())).filter(|it| !it.is_zero())
    }

    /// Restarts the pause of a key.
    pub(crate) fn restart(&mut self, key: &ObjectKey) {
        self.since.insert(key.clone(), Instant::now());
    }

    /// Removes a key: its next pause starts with the next call of [`Self::left`].
    pub(crate) fn end(&mut self, key: &ObjectKey) {
        self.since.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_begins_with_the_first_call_and_can_be_restarted() {
        let (mut pauses, key) = (Pauses::default(), ObjectKey::cluster("a"));
        let second = Duration::from_secs(1);
        assert_eq!(pauses.left(&key, second), Some(second));
        tokio::time::advance(second / 4).await;
        assert_eq!(pauses.left(&key, second), Some(second * 3 / 4));
        tokio::time::advance(second).await;
        assert_eq!(pauses.left(&key, second), None);
        pauses.restart(&key);
        assert_eq!(pauses.left(&key, second), Some(second));
        tokio::time::advance(second).await;
        assert_eq!(pauses.left(&key, second), None);
        pauses.end(&key);
        assert_eq!(pauses.left(&key, second), Some(second));
    }
}
