//! The faults of one watch: when it may deliver, when it ends, and the grouping of its writes.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep_until};

use super::board::{Board, What};
use super::delay::Delay;
use super::rule::DropAfter;
use super::scope::OwnedCall;
use super::shared::Shared;
use crate::bell::ChangeListener;
use crate::time;

/// The fault state of one watch. The watch consults it before each delivery, and reports each
/// delivery to it:
///
/// ```text
/// loop: an event, or disturbed ─► gate ─► up to room events ─► frames ─► write ─► report
/// ```
#[derive(Debug)]
pub struct WatchLab {
    shared: Arc<Shared>,
    changes: ChangeListener,
    call: OwnedCall,
    /// The newest rule that was evaluated for this watch.
    asked: u64,
    /// The newest order that was followed.
    seen: u64,
    /// The rules that fired for this watch, each with its random generator.
    joined: Vec<(u64, StdRng)>,
    weather: Weather,
    /// The number of delivered events.
    told: u64,
    /// The time until which the next delivery is delayed.
    due: Option<Instant>,
    /// Set while an ordered bookmark is not yet sent.
    bookmark: bool,
    ended: Option<End>,
}

/// The combined effect of the rules in `joined`.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
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
pub enum Disturbance {
    /// End the watch: [`WatchLab::cuts`] says how.
    Drop,
    /// Send a bookmark, if bookmarks are allowed.
    Bookmark,
}

impl WatchLab {
    pub(super) fn new(shared: Arc<Shared>, call: OwnedCall) -> Self {
        // Subscribe before reading, so that no change is missed in between.
        let changes = shared.changes.subscribe();
        let seen = shared.board().ordered;
        let mut new = Self {
            shared,
            changes,
            call,
            asked: 0,
            seen,
            joined: Vec::new(),
            weather: Weather::default(),
            told: 0,
            due: None,
            bookmark: false,
            ended: None,
        };
        new.read();
        new
    }

    /// Waits until something may be delivered: while delivery is paused, and as long as it is
    /// delayed. Returns false if the watch is to end instead; [`Self::cuts`] says how.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: a delay in progress is not started again.
    pub async fn gate(&mut self) -> bool {
        loop {
            self.hear();
            if self.is_over() {
                return false;
            }
            if self.weather.paused {
                self.next_change().await;
                continue;
            }
            let now = Instant::now();
            if self.due.is_none() && self.weather.lags {
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
    pub fn is_open(&mut self) -> bool {
        self.hear();
        !self.weather.paused && !self.weather.lags && self.due.is_none() && !self.is_over()
    }

    /// Waits until the watch is to end or to send a bookmark; never returns if neither happens. A
    /// bookmark is reported once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn disturbed(&mut self) -> Disturbance {
        std::future::poll_fn(|context| self.poll_disturbed(context)).await
    }

    /// Polls as [`Self::disturbed`] does.
    pub fn poll_disturbed(&mut self, context: &Context<'_>) -> Poll<Disturbance> {
        loop {
            self.hear();
            if self.is_over() {
                return Poll::Ready(Disturbance::Drop);
            }
            if std::mem::take(&mut self.bookmark) {
                self.shared.board().tally.bookmarks += 1;
                return Poll::Ready(Disturbance::Bookmark);
            }
            ready!(self.changes.poll_changed(context));
            self.read();
        }
    }

    /// Returns true if the watch ends by cutting its connection, and false if it ends as if it had
    /// timed out.
    pub fn cuts(&self) -> bool {
        self.ended == Some(End::Cut)
    }

    /// Returns the maximum number of events in the next delivery. At least 1 after [`Self::gate`]
    /// returned true.
    pub fn room(&self) -> usize {
        let left = self.weather.drop.map(|it| it.after.saturating_sub(self.told));
        left.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// Records the number of delivered events. Bookmarks and errors do not count.
    pub fn told(&mut self, events: usize) {
        self.told = self.told.saturating_add(events as u64);
    }

    /// Returns true if [`Self::frames`] would change the grouping.
    pub fn reshapes(&self) -> bool {
        self.weather.split.is_some() || self.weather.coalesced
    }

    /// Groups the pieces of one delivery into writes, in order and complete: one group without a
    /// rule, one piece in one group if a rule coalesces, groups of a fixed size if a rule splits.
    pub fn frames(&self, frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        match (self.weather.split, self.weather.coalesced) {
            (Some(size), _) => split(frames, size),
            (None, true) => vec![vec![Bytes::from(frames.concat())]],
            (None, false) => vec![frames],
        }
    }

    /// Reads the rules again if they have changed.
    fn hear(&mut self) {
        if self.changes.has_changed() {
            self.read();
        }
    }

    async fn next_change(&mut self) {
        self.changes.changed().await;
        self.read();
    }

    /// Evaluates new rules, follows new orders, and combines the effects of the rules that fired.
    fn read(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut board = shared.board();
        self.join(&mut board);
        let was_over = self.ended.is_some();
        for order in board.orders.iter().filter(|it| it.number > self.seen) {
            if order.scope.holds(&self.call.as_call()) {
                match order.what {
                    What::Bookmark => self.bookmark = true,
                    What::Drop { cut } => self.ended = Some(if cut { End::Cut } else { End::Clean }),
                }
            }
        }
        board.tally.dropped += u64::from(self.ended.is_some() && !was_over);
        self.seen = board.ordered;
        self.joined.retain(|(id, _)| board.rules.iter().any(|it| it.id == *id));
        let mut weather = Weather { paused: board.paused, ..Weather::default() };
        for placed in board.rules.iter().filter(|it| self.joined.iter().any(|(id, _)| *id == it.id)) {
            let rule = &placed.rule;
            weather.paused |= rule.pause;
            weather.lags |= rule.lag.is_some() || rule.coalesce.is_some();
            weather.coalesced |= rule.coalesce.is_some();
            weather.split = weather.split.into_iter().chain(rule.split).min();
            let sooner = |it: &DropAfter| (it.after, !it.cut);
            weather.drop = weather.drop.into_iter().chain(rule.drop).min_by_key(sooner);
        }
        self.weather = weather;
    }

    fn join(&mut self, board: &mut Board) {
        for placed in board.rules.iter_mut().filter(|it| it.id > self.asked) {
            let covers =
                placed.rule.delivery_effect().is_some() && placed.rule.on.holds(&self.call.as_call());
            if covers && placed.fires() {
                self.joined.push((placed.id, placed.randomness()));
            }
        }
        self.asked = board.newest;
    }

    fn is_over(&mut self) -> bool {
        let reached = self.weather.drop.filter(|it| it.after <= self.told);
        if let (None, Some(drop)) = (self.ended, reached) {
            self.ended = Some(if drop.cut { End::Cut } else { End::Clean });
            self.shared.board().tally.dropped += 1;
        }
        self.ended.is_some()
    }

    /// Draws the sum of the lags of all rules.
    fn draw_lag(&mut self) -> Duration {
        let board = self.shared.board();
        let mut lag = Duration::ZERO;
        for (id, random) in &mut self.joined {
            let rule = board.rules.iter().find(|it| it.id == *id).map(|it| &it.rule);
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
