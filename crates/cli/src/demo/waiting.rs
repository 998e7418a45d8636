//! Waiting with a limit. A wait that takes too long is an error that says what it was for: a user
//! who changes the cluster meanwhile can prevent what an act waits for, and the story goes on
//! without it.

use std::time::Duration;

use anyhow::Context as _;

/// The limit of each wait: much longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
/// The interval at which a condition is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for a future.
///
/// # Errors
/// Returns an error that names `what`, a clause such as "a pod is ready", if the limit is reached.
pub(super) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> anyhow::Result<T> {
    let waited = tokio::time::timeout(LIMIT, wait).await;
    waited.ok().with_context(|| format!("within {} s it did not happen that {what}", LIMIT.as_secs()))
}

/// Waits until a condition holds, which is checked every few milliseconds.
///
/// # Errors
/// Returns an error that names `what` if the limit is reached.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) -> anyhow::Result<()> {
    until_some(what, || holds().then_some(())).await
}

/// Waits until there is a value, which is checked every few milliseconds.
///
/// # Errors
/// Returns an error that names `what` if the limit is reached.
pub(super) async fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    let found = async {
        loop {
            if let Some(found) = find() {
                return found;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    within(what, found).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_when_the_condition_holds_or_with_an_error_that_names_it() {
        let mut checks = 0;
        let third = until("the third check is made", || {
            checks += 1;
            checks == 3
        });
        third.await.expect("the condition holds");
        let never = until("a pod is ready", || false).await.expect_err("the condition never holds");
        assert_eq!(never.to_string(), "within 30 s it did not happen that a pod is ready");
    }
}
