//! The recent past of an autoscaler: what its metrics have asked for, and how the number of
//! replicas has changed.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The longest time that can matter: `MaxStabilizationWindowSeconds` in k8s.io/kubernetes v1.36.4
/// pkg/apis/autoscaling/validation/validation.go. Policies have at most half of it.
pub(super) const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

/// The number of entries of a kind that are kept: four times as many as there are in the longest
/// window, so that only an autoscaler that is changed all the time loses some.
const KEPT: usize = 1000;

/// The recent past of an autoscaler.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The numbers of replicas that the metrics have asked for.
    proposals: Entries,
    /// The numbers of replicas that were added.
    added: Entries,
    /// The numbers of replicas that were removed.
    removed: Entries,
}

/// Numbers with their times, oldest first.
#[derive(Debug, Default)]
struct Entries(VecDeque<(Instant, i64)>);

impl History {
    /// Records the first number of replicas, so that a new autoscaler removes none at once.
    pub(super) fn begin(&mut self, replicas: i64, now: Instant) {
        if self.proposals.0.is_empty() {
            self.proposals.push(replicas, now);
        }
    }

    /// Records what the metrics ask for.
    pub(super) fn propose(&mut self, replicas: i64, now: Instant) {
        self.proposals.push(replicas, now);
    }

    /// Records a change of the number of replicas.
    pub(super) fn scale(&mut self, from: i64, to: i64, now: Instant) {
        let entries = if to > from { &mut self.added } else { &mut self.removed };
        entries.push(to.saturating_sub(from).saturating_abs(), now);
    }

    /// Returns what the metrics have asked for within a time.
    pub(super) fn proposals(&self, within: Duration, now: Instant) -> impl Iterator<Item = i64> {
        self.proposals.within(within, now)
    }

    /// Returns the number of replicas that there would be now without the changes within a time.
    pub(super) fn before(&self, current: i64, within: Duration, now: Instant) -> i64 {
        let sum = |entries: &Entries| entries.within(within, now).fold(0_i64, i64::saturating_add);
        current.saturating_sub(sum(&self.added)).saturating_add(sum(&self.removed))
    }
}

impl Entries {
    fn push(&mut self, value: i64, now: Instant) {
        let is_old = |it: &(Instant, i64)| now.saturating_duration_since(it.0) > LONGEST_WINDOW;
        while self.0.front().is_some_and(is_old) || self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back((now, value));
    }

    fn within(&self, time: Duration, now: Instant) -> impl Iterator<Item = i64> {
        let recent = move |it: &&(Instant, i64)| now.saturating_duration_since(it.0) < time;
        self.0.iter().filter(recent).map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_leave_when_they_are_old_or_too_many() {
        let (start, mut history) = (Instant::now(), History::default());
        for second in 0..2000 {
            history.propose(second, start);
        }
        assert_eq!(history.proposals(LONGEST_WINDOW, start).count(), KEPT);
        let later = start + 2 * LONGEST_WINDOW;
        history.propose(7, later);
        assert_eq!(history.proposals.0, [(later, 7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_subtracted_within_their_period() {
        let (start, second, mut history) = (Instant::now(), Duration::from_secs(1), History::default());
        history.scale(2, 6, start);
        history.scale(6, 5, start + 10 * second);
        let now = start + 15 * second;
        for (within, expected) in [(5, 5), (6, 6), (15, 6), (16, 2)] {
            assert_eq!(history.before(5, within * second, now), expected, "{within}");
        }
    }
}
