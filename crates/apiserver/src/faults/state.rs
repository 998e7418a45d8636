//! The active rules and the orders to watches. Plain state: no lock, no clock, no waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use super::rule::{Reset, Rule};
use super::scope::{Call, Scope};
use crate::ApiError;

/// The fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Act {
    /// None: the request is served.
    Proceed,
    /// The request is rejected and not carried out.
    Refuse {
        /// The error in the response.
        refusal: ApiError,
        /// The value of the header `Retry-After` in seconds, if there is one.
        retry_after: Option<u32>,
    },
    /// The connection is cut without a response, and the request is not carried out.
    ResetBefore,
    /// The request is carried out, and then the connection is cut without a response.
    ResetAfter,
}

/// The number of injected faults of each type.
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Rule};
///
/// let faults = FaultInjector::default();
/// faults.rule(Rule::on_everything().times(1).reset_after());
/// assert_eq!(faults.tally().reset, 0); // no request yet
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "camelCase")]
pub struct FaultCounts {
    /// The delayed requests.
    pub delayed: u64,
    /// The rejected requests.
    pub refused: u64,
    /// The requests whose connection was cut.
    pub reset: u64,
    /// The watches that were ended.
    pub dropped: u64,
    /// The forced bookmarks.
    pub bookmarks: u64,
}

/// All rules and orders of a fault injector.
#[derive(Debug, Default)]
pub(super) struct FaultState {
    /// In the order in which they were added.
    pub(super) rules: Vec<ActiveRule>,
    /// The id of the newest rule; the first is 1.
    pub(super) newest: u64,
    /// True while all watches are paused.
    pub(super) paused: bool,
    /// The newest order of each kind and scope. Older ones need not be kept: a watch that started
    /// before an older one also started before this one.
    pub(super) orders: Vec<Order>,
    /// The number of the newest order.
    pub(super) ordered: u64,
    /// The faults injected so far.
    pub(super) tally: FaultCounts,
}

/// A rule with its state.
#[derive(Debug)]
pub(super) struct ActiveRule {
    pub(super) id: u64,
    pub(super) rule: Rule,
    pub(super) counts: Arc<Counts>,
    random: StdRng,
}

/// The counters of a rule. They outlive the rule.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) matched: AtomicU64,
    pub(super) fired: AtomicU64,
}

/// An instruction that every open watch in a scope follows once.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) scope: Scope,
    pub(super) kind: OrderKind,
}

/// An instruction to watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderKind {
    Drop { cut: bool },
    Bookmark,
}

impl FaultState {
    /// Adds a rule.
    pub(super) fn place(&mut self, rule: Rule) -> (u64, Arc<Counts>) {
        self.newest += 1;
        let counts = Arc::new(Counts::default());
        let random = StdRng::seed_from_u64(rule.seed);
        self.rules.push(ActiveRule { id: self.newest, rule, counts: Arc::clone(&counts), random });
        (self.newest, counts)
    }

    /// Gives an order to the open watches.
    pub(super) fn order(&mut self, scope: Scope, kind: OrderKind) {
        self.ordered += 1;
        self.orders.retain(|it| it.scope != scope || it.kind != kind);
        self.orders.push(Order { number: self.ordered, scope, kind });
    }

    /// Returns the number of rules that act on requests.
    pub(super) fn request_rules(&self) -> usize {
        self.rules.iter().filter(|it| it.rule.delivery_effect().is_none()).count()
    }

    /// Returns the delay and the fault of a request. Rules are evaluated in the order in which they
    /// were added, until one of them decides; the delays of those that fired add up.
    pub(super) fn decide(&mut self, call: &Call<'_>) -> (Option<Duration>, Act) {
        let mut delay = None;
        for active in &mut self.rules {
            let on_requests = active.rule.delivery_effect().is_none();
            if !on_requests || !active.rule.on.holds(call) || !active.fires() {
                continue;
            }
            if let Some(by) = active.rule.delay {
                let sum = delay.unwrap_or(Duration::ZERO).saturating_add(by.draw(&mut active.random));
                delay = Some(sum);
                self.tally.delayed += 1;
            }
            if let Some(refuse) = &active.rule.refuse {
                self.tally.refused += 1;
                let (refusal, retry_after) = (refuse.refusal(), refuse.pause());
                return (delay, Act::Refuse { refusal, retry_after });
            }
            if let Some(reset) = active.rule.reset {
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

impl ActiveRule {
    /// Counts one more matching request or watch, and returns true if the rule fires for it.
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

    /// Returns a random generator for one watch, which depends on the seed and on the number of
    /// draws before.
    pub(super) fn randomness(&mut self) -> StdRng {
        StdRng::seed_from_u64(self.random.random())
    }
}
