//! Pauses: objects that a controller leaves alone for a moment before it acts on them.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::ObjectKey;
use tokio::time::Instant;

/// Since when a controller knows of what it is about to act on. A key costs memory until [`Pauses::end`].
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    since: BTreeMap<ObjectKey, Instant>,
}

impl Pauses {
    /// What is left of the pause of a key, which begins when this is first asked; `None` when it is over.
    pub(crate) fn left(&mut self, key: &ObjectKey, pause: Duration) -> Option<Duration> {
        let since = *self.since.entry(key.clone()).or_insert_with(Instant::now);
        Some(pause.saturating_sub(since.elapsed())).filter(|it| !it.is_zero())
    }

    /// Begins the pause of a key anew.
    pub(crate) fn restart(&mut self, key: &ObjectKey) {
        self.since.insert(key.clone(), Instant::now());
    }

    /// Forgets a key: the next time it is asked for, its pause begins.
    pub(crate) fn end(&mut self, key: &ObjectKey) {
        self.since.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_begins_when_it_is_first_asked_for_and_again_when_told_to() {
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
