//! Retries of calls that a server failed: by code, a few times, and only while most calls succeed.
//!
//! The rules are those of gRPC's A6. A call that no server has processed is sent to another
//! endpoint without a policy, see `exchange.rs`.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::status::Code;

/// Retries calls that failed with certain codes. Only for methods that may be executed twice.
///
/// Calls that share a policy share its budget.
///
/// ```
/// use dogwatch_grpc::{Code, KubeChannel, Retry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let codes = vec![Code::Unavailable, Code::ResourceExhausted];
/// let retry = Retry { attempts: 4, codes, ..Retry::default() };
/// let channel = KubeChannel::to(["127.0.0.1:50051"])?.retry_for("shop.Cart/Get", retry).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The maximum number of attempts including the first, from 2 to 5. Defaults to 3.
    pub attempts: u32,
    /// The longest delay before the first retry; the actual one is a random fraction of it.
    /// Defaults to 50 ms.
    pub initial_backoff: Duration,
    /// The longest delay before any retry. Defaults to 1 s.
    pub longest_backoff: Duration,
    /// The factor by which the longest delay grows with each retry. Defaults to 2.
    pub factor: f64,
    /// The codes that are retried. Defaults to `UNAVAILABLE`.
    pub codes: Vec<Code>,
    /// The number of consecutive failures that use up half of the budget; below half, nothing is
    /// retried. Defaults to 100.
    pub budget: u32,
    /// The fraction of a failure that one success makes up for. Defaults to 0.1.
    pub refill: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 3,
            initial_backoff: Duration::from_millis(50),
            longest_backoff: Duration::from_secs(1),
            factor: 2.0,
            codes: vec![Code::Unavailable],
            budget: 100,
            refill: 0.1,
        }
    }
}

impl Retry {
    /// Returns the delay before the retry with this number, from 1; `random` is a random number
    /// from 0 to 1.
    pub(crate) fn wait(&self, retry: u32, random: f64) -> Duration {
        let exponent = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.initial_backoff.as_secs_f64() * self.factor.powi(exponent);
        let wait = longest.min(self.longest_backoff.as_secs_f64()) * random;
        // An invalid duration, as with a negative factor, becomes the longest one.
        Duration::try_from_secs_f64(wait).unwrap_or(self.longest_backoff)
    }
}

/// The tokens of all calls that share a policy: a failure takes one, a success adds a fraction of
/// one.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    /// In thousandths.
    tokens: AtomicI32,
    full: i32,
    refill: i32,
    /// The codes that count as failures: others are errors of the request, not of the servers.
    codes: Vec<Code>,
}

impl RetryBudget {
    pub(crate) fn new(retry: &Retry) -> Self {
        let full = i32::try_from(retry.budget.clamp(1, 1_000_000) * 2_000).unwrap_or(i32::MAX);
        let refill = (retry.refill.clamp(0.0, 1_000.0) * 1_000.0) as i32;
        Self { tokens: AtomicI32::new(full), full, refill, codes: retry.codes.clone() }
    }

    /// Records the status of a call that cannot be retried any more. Codes that say nothing about
    /// the servers change nothing.
    pub(crate) fn ended(&self, code: Code) {
        if code == Code::Ok {
            self.succeeded();
        } else if self.codes.contains(&code) {
            self.failed();
        }
    }

    /// Records a failure, and returns true if a retry is allowed.
    pub(crate) fn failed(&self) -> bool {
        self.change(-1_000) > self.full / 2
    }

    fn succeeded(&self) {
        if self.tokens.load(Ordering::Relaxed) < self.full {
            self.change(self.refill);
        }
    }

    fn change(&self, by: i32) -> i32 {
        let next = |it: i32| it.saturating_add(by).clamp(0, self.full);
        let before = self.tokens.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(next(it)));
        before.map_or(0, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_are_capped() {
        let retry = Retry::default();
        let milliseconds = |number, random| retry.wait(number, random).as_millis();
        assert_eq!((milliseconds(1, 1.0), milliseconds(2, 1.0), milliseconds(3, 0.5)), (50, 100, 100));
        assert_eq!((milliseconds(50, 1.0), milliseconds(1, 0.0)), (1_000, 0));
    }

    #[test]
    fn if_too_much_fails_nothing_is_retried_until_enough_succeeds() {
        let budget = RetryBudget::new(&Retry { budget: 5, refill: 0.5, ..Retry::default() });
        let allowed: Vec<_> = (0..7).map(|_| budget.failed()).collect();
        assert_eq!(allowed, [true, true, true, true, false, false, false]);
        for _ in 0..100 {
            budget.failed();
        }
        for _ in 0..11 {
            budget.succeeded();
        }
        assert!(!budget.failed(), "at half of the budget there should be no retry");
        for _ in 0..100 {
            budget.succeeded();
        }
        assert!(budget.failed(), "the budget should be capped");
    }

    #[test]
    fn only_successes_refill_the_budget_and_only_server_failures_drain_it() {
        let budget = RetryBudget::new(&Retry { budget: 1, refill: 1.0, ..Retry::default() });
        budget.ended(Code::Unavailable);
        for _ in 0..10 {
            budget.ended(Code::InvalidArgument);
        }
        assert!(!budget.failed(), "two failures should use up a budget of two");
        budget.ended(Code::Ok);
        budget.ended(Code::Ok);
        for _ in 0..10 {
            budget.ended(Code::NotFound);
        }
        assert!(!budget.failed() && budget.tokens.load(Ordering::Relaxed) == 1_000);
    }
}
