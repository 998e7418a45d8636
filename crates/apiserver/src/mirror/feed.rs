//! The state of the writer of a mirror: what it has fed, and the age of the changes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::Encoded;

/// The number of points in time that are remembered for the maximum age: changes are dropped late
/// by at most the age divided by it.
const MARKS: u32 = 16;

/// The time for which a changed object is kept open: longer than a watch takes that reads.
const OPEN_TIME: Duration = Duration::from_secs(10);

/// The maximum length of the objects that are kept open, in their stored encoding. With a second
/// encoding they take up to three times as much.
const OPEN_BYTES: usize = 4 << 20;

/// The state of the writer of a mirror.
#[derive(Debug)]
pub(super) struct Feed {
    /// False before the first list, and after a reset.
    pub(super) is_listed: bool,
    /// The size of the objects.
    pub(super) bytes: usize,
    /// The length of the objects in their stored encoding, without compression.
    pub(super) length: usize,
    /// The versions of the mirror at points in time, oldest first.
    marks: VecDeque<(Instant, u64)>,
    age: Duration,
    /// The objects that are kept open, each from a point in time.
    open: VecDeque<(Instant, Arc<Encoded>)>,
    /// The sum of the lengths of the open objects.
    open_bytes: usize,
}

impl Feed {
    /// Creates the state before the first list; changes are kept for this time.
    pub(super) fn new(age: Duration) -> Self {
        let (marks, open) = (VecDeque::new(), VecDeque::new());
        Self { is_listed: false, bytes: 0, length: 0, marks, age, open, open_bytes: 0 }
    }

    /// Keeps a compressed object open for a while: watches are about to send it.
    pub(super) fn open(&mut self, object: &Arc<Encoded>, now: Instant) {
        if object.is_compressed() && !object.is_closed() {
            self.open_bytes = self.open_bytes.saturating_add(object.length());
            self.open.push_back((now, Arc::clone(object)));
        }
    }

    /// Closes the objects whose time is over, and the oldest beyond the limit.
    pub(super) fn close_old(&mut self, now: Instant) {
        while let Some((since, object)) = self.open.front()
            && (now.saturating_duration_since(*since) >= OPEN_TIME || self.open_bytes > OPEN_BYTES)
        {
            object.close();
            self.open_bytes = self.open_bytes.saturating_sub(object.length());
            self.open.pop_front();
        }
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.age);
    }

    /// Records that the mirror has reached a version. Returns the version up to which changes are
    /// too old now, if there may be any.
    pub(super) fn reach(&mut self, version: u64, now: Instant) -> Option<u64> {
        let step = self.age.checked_div(MARKS).unwrap_or_default();
        let is_due = |(last, _): &(Instant, u64)| now.saturating_duration_since(*last) >= step;
        if self.marks.back().is_none_or(is_due) {
            self.marks.push_back((now, version));
        }
        let mut old = None;
        // A change at the version of a mark happened before it.
        while let Some((time, version)) = self.marks.front()
            && now.saturating_duration_since(*time) >= self.age
        {
            old = Some(*version);
            self.marks.pop_front();
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    #[tokio::test(start_paused = true)]
    async fn changes_are_too_old_after_their_age_and_marks_are_few() {
        let mut feed = Feed::new(Duration::from_secs(160));
        let start = Instant::now();
        let mut old = Vec::new();
        for second in 0..400 {
            old.extend(feed.reach(second, time::after(start, Duration::from_secs(second))));
            assert!(feed.marks.len() <= MARKS as usize + 1, "{} marks", feed.marks.len());
        }
        assert_eq!(old.first().copied(), Some(0));
        assert!(old.is_sorted() && old.last().is_some_and(|it| (220..240).contains(it)), "{old:?}");
    }
}
