//! The rules that are placed and the orders that were given. Plain state: no lock, no clock, no waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::rule::{Reset, Rule};
use super::scope::{Call, Scope};
use crate::refusal::Refusal;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Nothing.
    Proceed,
    /// It is refused, and not carried out.
    Refuse {
        /// The answer.
        refusal: Refusal,
        /// The seconds of the header `Retry-After`, if there is one.
        retry_after: Option<u32>,
    },
    /// The connection is cut without an answer, and the request is not carried out.
    ResetBefore,
    /// The request is carried out, and then the connection is cut without an answer.
    ResetAfter,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Requests that had to wait.
    pub delayed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests whose connection was cut.
    pub reset: u64,
    /// Watches that were ended.
    pub dropped: u64,
    /// Bookmarks that were forced.
    pub bookmarks: u64,
}

/// All rules and orders of a lab.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// In the order in which they were placed.
    pub(super) rules: Vec<Placed>,
    /// The id of the newest rule; the first is 1.
    pub(super) newest: u64,
    /// All watches wait.
    pub(super) paused: bool,
    /// The newest order of each kind and scope: who began before an older one began before this one too.
    pub(super) orders: Vec<Order>,
    /// The number of the newest order.
    pub(super) ordered: u64,
    /// What happened so far.
    pub(super) tally: Tally,
}

/// A rule and what became of it.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) id: u64,
    pub(super) rule: Rule,
    pub(super) counts: Arc<Counts>,
    random: StdRng,
}

/// How often a rule was asked, and how often it fired. Outlives the rule.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) matched: AtomicU64,
    pub(super) fired: AtomicU64,
}

/// Something that all watches that are there now shall do once.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) scope: Scope,
    pub(super) what: What,
}

/// What watches shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Drop { cut: bool },
    Bookmark,
}

impl Board {
    /// Places a rule.
    pub(super) fn place(&mut self, rule: Rule) -> (u64, Arc<Counts>) {
        self.newest += 1;
        let counts = Arc::new(Counts::default());
        let random = StdRng::seed_from_u64(rule.seed);
        self.rules.push(Placed { id: self.newest, rule, counts: Arc::clone(&counts), random });
        (self.newest, counts)
    }

    /// Gives an order.
    pub(super) fn order(&mut self, scope: Scope, what: What) {
        self.ordered += 1;
        self.orders.retain(|it| it.scope != scope || it.what != what);
        self.orders.push(Order { number: self.ordered, scope, what });
    }

    /// How many rules act on requests.
    pub(super) fn request_rules(&self) -> usize {
        self.rules.iter().filter(|it| it.rule.delivery_effect().is_none()).count()
    }

    /// What happens to a request. Rules are asked in the order in which they were placed, until one of them decides; the
    /// delays of those that fired add up.
    pub(super) fn decide(&mut self, call: &Call<'_>) -> (Option<Duration>, Act) {
        let mut delay = None;
        for placed in &mut self.rules {
            let on_requests = placed.rule.delivery_effect().is_none();
            if !on_requests || !placed.rule.on.holds(call) || !placed.fires() {
                continue;
            }
            if let Some(by) = placed.rule.delay {
                let sum = delay.unwrap_or(Duration::ZERO).saturating_add(by.draw(&mut placed.random));
                delay = Some(sum);
                self.tally.delayed += 1;
            }
            if let Some(refuse) = &placed.rule.refuse {
                self.tally.refused += 1;
                let (refusal, retry_after) = (refuse.refusal(), refuse.pause());
                return (delay, Act::Refuse { refusal, retry_after });
            }
            if let Some(reset) = placed.rule.reset {
                self.tally.reset += 1;
                let act = match reset {
                    Reset::Before => Act::ResetBefore,
                    Reset::After => Act::ResetAfter,
                };
                return (delay, act);
            }
        }
        (delay, Act::Proceed)
    }
}

impl Placed {
    /// Asks the rule about one more request or watch that it covers.
    pub(super) fn fires(&mut self) -> bool {
        let matched = self.counts.matched.fetch_add(1, Ordering::Relaxed) + 1;
        let fired = self.counts.fired.load(Ordering::Relaxed);
        let spent = self.rule.times.is_some_and(|times| fired >= times);
        if matched <= self.rule.after || spent {
            return false;
        }
        if self.rule.probability.is_some_and(|it| self.random.random::<f64>() >= it) {
            return false;
        }
        self.counts.fired.store(fired + 1, Ordering::Relaxed);
        true
    }

    /// Randomness for one watch, that follows from the seed and from how many were there before.
    pub(super) fn randomness(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.random.random())
    }
}
