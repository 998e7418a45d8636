//! What happens to one watch: when it may deliver, when it ends, and in which pieces it writes.

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
use crate::bell::Listener;
use crate::time;

/// The lab's view of one watch. Its owner asks it before each delivery and tells it what was delivered:
///
/// ```text
/// loop: something to tell, or disturbed ─► gate ─► up to room events ─► frames ─► write ─► told
/// ```
#[derive(Debug)]
pub struct WatchLab {
    shared: Arc<Shared>,
    bell: Listener,
    call: OwnedCall,
    /// The newest rule that was asked about this watch.
    asked: u64,
    /// The newest order that was seen.
    seen: u64,
    /// The rules that fired for this watch, with the randomness of each.
    joined: Vec<(u64, StdRng)>,
    weather: Weather,
    /// How many events were delivered.
    told: u64,
    /// When the delivery that waits may go on.
    due: Option<Instant>,
    /// A bookmark was ordered and not yet sent.
    bookmark: bool,
    ended: Option<End>,
}

/// What the rules that are joined come to now.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    paused: bool,
    lags: bool,
    coalesced: bool,
    split: Option<usize>,
    drop: Option<DropAfter>,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Clean,
    Cut,
}

/// What a watch shall do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disturbance {
    /// End: see [`WatchLab::cuts`] for how.
    Drop,
    /// Send a bookmark, if bookmarks are allowed.
    Bookmark,
}

impl WatchLab {
    pub(super) fn new(shared: Arc<Shared>, call: OwnedCall) -> Self {
        // Before anything is read, so that no change falls between.
        let bell = shared.bell.listen();
        let seen = shared.board().ordered;
        let mut new = Self {
            shared,
            bell,
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

    /// Waits until something may be delivered: while delivery is paused, and as long as it is delayed. `false` when the
    /// watch is to end instead; [`Self::cuts`] says how. Dropping the future loses nothing, not even the time that passed.
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

    /// Whether [`Self::gate`] would say yes without waiting. Cheaper, and the usual case.
    pub fn is_open(&mut self) -> bool {
        self.hear();
        !self.weather.paused && !self.weather.lags && self.due.is_none() && !self.is_over()
    }

    /// Waits until the watch shall end or send a bookmark; for ever if neither comes. A bookmark is reported once. Dropping
    /// the future loses nothing.
    pub async fn disturbed(&mut self) -> Disturbance {
        std::future::poll_fn(|context| self.poll_disturbed(context)).await
    }

    /// As [`Self::disturbed`].
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
            ready!(self.bell.poll_rung(context));
            self.read();
        }
    }

    /// Whether the end of the watch is a cut of its connection, and not one as if its time were over.
    pub fn cuts(&self) -> bool {
        self.ended == Some(End::Cut)
    }

    /// How many events the next delivery may hold at most. At least 1 after [`Self::gate`] said yes.
    pub fn room(&self) -> usize {
        let left = self.weather.drop.map(|it| it.after.saturating_sub(self.told));
        left.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX))
    }

    /// Tells how many events were delivered. Bookmarks and errors are none.
    pub fn told(&mut self, events: usize) {
        self.told = self.told.saturating_add(events as u64);
    }

    /// Whether [`Self::frames`] would group anything otherwise than it is.
    pub fn reshapes(&self) -> bool {
        self.weather.split.is_some() || self.weather.coalesced
    }

    /// How the pieces of one delivery are grouped into writes, in order and complete: one group without a rule, one piece in
    /// one group where rules coalesce, groups of so many bytes where they split.
    pub fn frames(&self, frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
        match (self.weather.split, self.weather.coalesced) {
            (Some(size), _) => split(frames, size),
            (None, true) => vec![vec![Bytes::from(frames.concat())]],
            (None, false) => vec![frames],
        }
    }

    /// Learns what has changed, if anything has.
    fn hear(&mut self) {
        if self.bell.has_rung() {
            self.read();
        }
    }

    async fn next_change(&mut self) {
        self.bell.rung().await;
        self.read();
    }

    /// Asks the rules that are new, follows the orders that are new, and looks what the joined rules come to.
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

    /// The lags of all rules together.
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

/// The same bytes in groups of `size`; the last may be smaller.
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
