//! Retries when an object changed between reading and writing it (rule RT-1).

use std::time::Duration;

use dogwatch_core::{ExponentialDelay, saturating_scale};

use crate::error::Error;

/// The number and the delays of retries after a conflict.
///
/// ```
/// use dogwatch_client::api::ConflictRetries;
///
/// let mut retries = ConflictRetries::BRIEF;
/// retries.attempts = 10;
/// assert_eq!(retries.wait.as_millis(), 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConflictRetries {
    /// The total number of attempts.
    pub attempts: u32,
    /// The wait before the second attempt.
    pub wait: Duration,
    /// The factor by which each further wait grows.
    pub factor: f64,
}

impl ConflictRetries {
    /// For writers that change an object now and then: 5 attempts, 10 ms apart. client-go's
    /// `DefaultRetry`.
    pub const BRIEF: Self = Self { attempts: 5, wait: Duration::from_millis(10), factor: 1.0 };
    /// For a writer that changes the object often: 4 attempts, 10 ms, 50 ms, 250 ms apart.
    /// client-go's `DefaultBackoff`.
    pub const PATIENT: Self = Self { attempts: 4, wait: Duration::from_millis(10), factor: 5.0 };
}

/// Runs `write` until it returns anything but a conflict, or the attempts are used up.
///
/// `write` must read the object anew each time; writing the same stale object again can only
/// conflict again. The future is `Send` if those of `write` are.
///
/// ```
/// # use dogwatch_client::api::{ConflictRetries, retry_on_conflict};
/// # use dogwatch_client::{Api, Error};
/// # use dogwatch_core::WriteParams;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn example(api: Api<ConfigMap>) {
/// tokio::spawn(async move {
///     let write = || async {
///         let mut map = api.get("settings").await?;
///         map.data.get_or_insert_default().insert("colour".to_owned(), "red".to_owned());
///         api.replace("settings", &WriteParams::default(), &map).await
///     };
///     retry_on_conflict(ConflictRetries::BRIEF, write).await
/// });
/// # }
/// ```
///
/// # Errors
/// Returns the last conflict if the attempts are used up, and any other error at once.
pub async fn retry_on_conflict<T, F: Future<Output = Result<T, Error>>>(
    retries: ConflictRetries,
    mut write: impl FnMut() -> F,
) -> Result<T, Error> {
    let delay = ExponentialDelay { first: retries.wait, factor: retries.factor, longest: Duration::MAX };
    for failures in 1..retries.attempts {
        match write().await {
            Err(error) if error.is_conflict() => {
                // Up to 10 % longer, so that two synchronised writers drift apart.
                tokio::time::sleep(saturating_scale(delay.after(failures), 1.0 + jitter() * 0.1)).await;
            }
            result => return result,
        }
    }
    write().await
}

/// Returns a number in [0, 1) that differs between calls; jitter needs no better randomness.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0u8) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use dogwatch_core::{Reason, Status};
    use tokio::time::Instant;

    use super::*;

    async fn run(reason: Reason, until: u32) -> (u32, Result<(), Error>, Duration) {
        let start = Instant::now();
        let mut calls = 0;
        let result = retry_on_conflict(ConflictRetries::PATIENT, || {
            calls += 1;
            let again = calls < until;
            let reason = reason.clone();
            async move { if again { Err(Status::failure(reason, "no").into()) } else { Ok(()) } }
        })
        .await;
        (calls, result, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn rt_1_a_conflict_is_retried_with_growing_waits() {
        let (calls, result, elapsed) = run(Reason::Conflict, 4).await;
        assert!(result.is_ok() && calls == 4);
        assert!((Duration::from_millis(310)..=Duration::from_millis(345)).contains(&elapsed), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn rt_1_the_last_conflict_is_returned_when_attempts_are_used_up() {
        let (calls, result, _) = run(Reason::Conflict, 100).await;
        assert!(result.expect_err("always in conflict").is_conflict());
        assert_eq!(calls, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn rt_1_any_other_error_is_returned_at_once() {
        let (calls, result, _) = run(Reason::NotFound, 100).await;
        assert!(result.expect_err("not found").is_not_found());
        assert_eq!(calls, 1);
    }
}
