//! Rounds of a question: callers that ask while it is being asked share the next round, so that
//! each gets an answer that was asked for after it came.

use parking_lot::Mutex;

/// The rounds of one question.
#[derive(Debug)]
pub(crate) struct Rounds<V> {
    /// Held by the caller that asks.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<RoundState<V>>,
}

#[derive(Debug)]
struct RoundState<V> {
    /// The number of rounds that have begun.
    begun: u64,
    /// The answer of the last round that ended, and its number.
    last: Option<(u64, V)>,
}

impl<V> Default for Rounds<V> {
    fn default() -> Self {
        let state = Mutex::new(RoundState { begun: 0, last: None });
        Self { turn: tokio::sync::Mutex::default(), state }
    }
}

impl<V: Clone> Rounds<V> {
    /// Returns the answer of a round that began after this call.
    ///
    /// # Cancel safety
    /// If the caller that asks is dropped, the next one asks.
    pub(crate) async fn ask<F: Future<Output = V>>(&self, ask: impl FnOnce() -> F) -> V {
        let needed = self.state.lock().begun + 1;
        let _turn = self.turn.lock().await;
        let number = {
            let mut state = self.state.lock();
            if let Some((number, answer)) = &state.last
                && *number >= needed
            {
                return answer.clone();
            }
            state.begun += 1;
            state.begun
        };
        let answer = ask().await;
        self.state.lock().last = Some((number, answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_share_a_round_that_began_after_they_came() {
        let (rounds, asked) = (Rounds::default(), AtomicU64::new(0));
        let ask = || {
            rounds.ask(|| async {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                number
            })
        };
        let late = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            join_all((0..20).map(|_| ask())).await
        };
        let (first, late) = tokio::join!(ask(), late);
        assert_eq!(first, 0);
        assert_eq!(late, vec![1; 20], "the first round had begun when they came");
        assert_eq!(ask().await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_is_dropped_leaves_the_question_to_the_next() {
        let rounds = Rounds::default();
        let never = rounds.ask(std::future::pending);
        assert!(tokio::time::timeout(Duration::from_secs(1), never).await.is_err());
        assert_eq!(rounds.ask(|| std::future::ready(7)).await, 7);
    }
}
