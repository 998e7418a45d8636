//! The faults of one watch: when it may deliver, when it ends, and the grouping of its writes.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep_until};

use super::delay::Delay;
use super::rule::DropAfter;
use super::scope::OwnedCall;
use super::shared::SharedState;
use super::state::{FaultState, OrderKind};
use crate::change_notifier::ChangeListener;
use crate::time;

/// The fault state of one watch. The watch consults it before each delivery, and reports each
/// delivery to it:
///
/// ```text
/// loop: an event, or disturbed ─► gate ─► up to room events ─► frames ─► write ─► report
/// ```
#[derive(Debug)]
pub(crate) struct WatchFaults {
    shared: Arc<SharedState>,
    changes: ChangeListener,
    call: OwnedCall,
    /// The newest rule that was evaluated for this watch.
    evaluated: u64,
    /// The newest order that was followed.
    seen: u64,
    /// The rules that fired for this watch, each with its random generator.
    fired: Vec<(u64, StdRng)>,
    effects: Effects,
    /// The number of delivered events.
    delivered: u64,
    /// The time until which the next delivery is delayed.
    due: Option<Instant>,
    /// Set while an ordered bookmark is not yet sent.
    bookmark: bool,
    ended: Option<End>,
}

/// The combined effect of the rules in `fired`.
#[derive(Clone, Copy, Debug, Default)]
struct Effects {
    paused: bool,
    lags: bool,
    coalesced: bool,
    split: Option<usize>,
    drop: Option<DropAfter>,
}

/// The way in which a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Clean,
    Cut,
}

/// An instruction that a watch follows immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Disturbance {
    /// End the watch: [`WatchFaults::cuts`] says how.
    Drop,
    /// Send a bookmark, if bookmarks are allowed.
    Bookmark,
}

impl WatchFaults {
    pub(super) fn new(shared: Arc<SharedState>, call: OwnedCall) -> Self {
        // Subscribe before reading, so that no change is missed in between.
        let changes = shared.changes.subscribe();
        let seen = shared.state().ordered;
        let mut new = Self {
            shared,
            changes,
            call,
            evaluated: 0,
            seen,
            fired: Vec::new(),
            effects: Effects::default(),
            delivered: 0,
            due: None,
            bookmark: false,
            ended: None,
        };
        new.refresh();
        new
    }

    /// Waits until something may be delivered: while delivery is paused, and as long as it is
    /// delayed. Returns false if the watch is to end instead; [`Self::cuts`] says how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: a delay in progress is not started again.
    pub(crate) async fn gate(&mut self) -> bool {
        loop {
            self.refresh_if_changed();
            if self.is_over() {
                return false;
            }
            if self.effects.paused {
                self.next_change().await;
                continue;
            }
            let now = Instant::now();
            if self.due.is_none() && self.effects.lags {
                self.due = Some(time::after(now, self.draw_lag()));
            }
            match self.due {
                Some(due) if due > now => tokio::select! {
                    biased;
                    () = sleep_until(due) => {}
                    () = self.next_change() => {}
                },
                _ => {
                    self.due = None;
                    return true;
                }
            }
        }
    }

    /// Returns true if [`Self::gate`] would return true without waiting. This is cheaper, and the
    /// usual case.
    pub(crate) fn is_open(&mut self) -> bool {
        self.refresh_if_changed();
        !self.effects.paused && !self.effects.lags && self.due.is_none() && !self.is_over()
    }

    /// Waits until the watch is to end or to send a bookmark; never returns if neither happens. A
    /// bookmark is reported once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    #[cfg(test)]
    pub(crate) async fn disturbed(&mut self) -> Disturbance {
        std::future::poll_fn(|context| self.poll_disturbed(context)).await
    }

    /// Polls until the watch is to end or to send a bookmark, which is reported once.
    pub(crate) fn poll_disturbed(&mut self, context: &Context<'_>) -> Poll<Disturbance> {
        loop {
            self.refresh_if_changed();
            if self.is_over() {
                return Poll::Ready(Disturbance::Drop);
            }
            if std::mem::take(&mut self.bookmark) {
                self.shared.state().tally.bookmarks += 1;
                return Poll::Ready(Disturbance::Bookmark);
            }
            ready!(self.changes.poll_changed(context));
            self.refresh();
        }
    }

    /// Returns true if the watch ends by cutting its connection, and false if it ends as if it had
    /// timed out.
    pub(crate) fn cuts(&self) -> bool {
        self.ended == Some(End::Cut)
    }

    /// Returns the maximum number of events in the next delivery. At least 1 after [`Self::gate`]
    /// returned true.
    pub(crate) fn room(&self) -> usize {
        let left = self.effects.drop.map(|it| it.after.saturating_sub(self.delivered));
        left.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// Records the number of delivered events. Bookmarks and errors do not count.
    pub(crate) fn delivered(&mut self, events: usize) {
        self.delivered = self.delivered.saturating_add(events as u64);
    }

    /// Returns true if [`Self::frames`] would change the grouping.
    pub(crate) fn reshapes(&self) -> bool {
        self.effects.split.is_some() || self.effects.coalesced
    }

    /// Groups the pieces of one delivery into writes, in order and complete: one group without a
    /// rule, one piece in one group if a rule coalesces, groups of a fixed size if a rule splits.
    pub(crate) fn frames(&self, frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        match (self.effects.split, self.effects.coalesced) {
            (Some(size), _) => split(frames, size),
            (None, true) => vec![vec![Bytes::from(frames.concat())]],
            (None, false) => vec![frames],
        }
    }

    /// Reads the rules again if they have changed.
    fn refresh_if_changed(&mut self) {
        if self.changes.has_changed() {
            self.refresh();
        }
    }

    async fn next_change(&mut self) {
        self.changes.changed().await;
        self.refresh();
    }

    /// Evaluates new rules, follows new orders, and combines the effects of the rules that fired.
    fn refresh(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        self.evaluate_new(&mut state);
        let was_over = self.ended.is_some();
        for order in state.orders.iter().filter(|it| it.number > self.seen) {
            if order.scope.holds(&self.call.as_call()) {
                match order.kind {
                    OrderKind::Bookmark => self.bookmark = true,
                    OrderKind::Drop { cut } => self.ended = Some(if cut { End::Cut } else { End::Clean }),
                }
            }
        }
        state.tally.dropped += u64::from(self.ended.is_some() && !was_over);
        self.seen = state.ordered;
        self.fired.retain(|(id, _)| state.rules.iter().any(|it| it.id == *id));
        let mut effects = Effects { paused: state.paused, ..Effects::default() };
        for active in state.rules.iter().filter(|it| self.fired.iter().any(|(id, _)| *id == it.id)) {
            let rule = &active.rule;
            effects.paused |= rule.pause;
            effects.lags |= rule.lag.is_some() || rule.coalesce.is_some();
            effects.coalesced |= rule.coalesce.is_some();
            effects.split = effects.split.into_iter().chain(rule.split).min();
            let sooner = |it: &DropAfter| (it.after, !it.cut);
            effects.drop = effects.drop.into_iter().chain(rule.drop).min_by_key(sooner);
        }
        self.effects = effects;
    }

    fn evaluate_new(&mut self, state: &mut FaultState) {
        for active in state.rules.iter_mut().filter(|it| it.id > self.evaluated) {
            let covers =
                active.rule.delivery_effect().is_some() && active.rule.on.holds(&self.call.as_call());
            if covers && active.fires() {
                self.fired.push((active.id, active.randomness()));
            }
        }
        self.evaluated = state.newest;
    }

    fn is_over(&mut self) -> bool {
        let reached = self.effects.drop.filter(|it| it.after <= self.delivered);
        if let (None, Some(drop)) = (self.ended, reached) {
            self.ended = Some(if drop.cut { End::Cut } else { End::Clean });
            self.shared.state().tally.dropped += 1;
        }
        self.ended.is_some()
    }

    /// Draws the sum of the lags of all rules.
    fn draw_lag(&mut self) -> Duration {
        let state = self.shared.state();
        let mut lag = Duration::ZERO;
        for (id, random) in &mut self.fired {
            let rule = state.rules.iter().find(|it| it.id == *id).map(|it| &it.rule);
            let delays = rule.into_iter().flat_map(|it| [it.lag, it.coalesce]).flatten();
            lag = delays.fold(lag, |sum, it: Delay| sum.saturating_add(it.draw(random)));
        }
        lag
    }
}

/// Regroups the bytes into groups of `size`; the last may be smaller.
fn split(frames: Vec<Bytes>, size: usize) -> Vec<Vec<Bytes>> {
    let mut groups = Vec::new();
    let (mut group, mut room) = (Vec::new(), size);
    for mut frame in frames {
        while !frame.is_empty() {
            let piece = frame.split_to(room.min(frame.len()));
            room -= piece.len();
            group.push(piece);
            if room == 0 {
                groups.push(std::mem::take(&mut group));
                room = size;
            }
        }
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}
