//! The three durations of an election, and the rules between them (rule LE-1).

use std::time::Duration;

/// The factor by which client-go may stretch the wait between two attempts (`JitterFactor` in
/// `k8s.io/client-go v0.36.4 tools/leaderelection/leaderelection.go`). Waits are only ever
/// shortened here; the factor stays in the check of the renew deadline, so that settings are valid
/// here if and only if they are valid in client-go.
const JITTER_FACTOR: f64 = 1.2;

/// The durations of a lease and of its renewal.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::leader::ElectionTiming;
///
/// let mut timing = ElectionTiming::default();
/// assert_eq!(timing.validate(), Ok(()));
/// timing.renew_deadline = Duration::from_secs(20); // longer than the lease
/// assert!(timing.validate().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionTiming {
    /// The time that other candidates wait after the last observed renewal before they take the
    /// lease. A Lease stores whole seconds, so it is rounded up. Defaults to 15 s.
    pub lease_duration: Duration,
    /// The time that a leader continues without a successful renewal. Defaults to 10 s.
    pub renew_deadline: Duration,
    /// The time between attempts, both to acquire and to renew the lease. Defaults to 2 s.
    pub retry_period: Duration,
}

/// An error for invalid settings of an election.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::leader::{InvalidElection, LeaderElector};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let builder = LeaderElector::builder(client, "my-controller");
/// let error = builder.lease_duration(Duration::from_secs(5)).build().expect_err("too short");
/// let InvalidElection::LeaseTooShort { lease, renew } = error else { panic!("{error}") };
/// assert!(lease < renew);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// A leader would still work when other candidates may take its lease.
    #[error("the lease duration {lease:?} must be longer than the renew deadline {renew:?}")]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// A leader would give up before its second attempt.
    #[error(
        "the renew deadline {renew:?} must be longer than {JITTER_FACTOR} times the retry period {retry:?}"
    )]
    DeadlineTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// A duration is zero, or longer than a Lease can store.
    #[error("the {what} must be longer than zero and at most 2147483647 seconds")]
    OutOfRange {
        /// The name of the duration.
        what: &'static str,
    },
    /// The identity is empty: the holder could not be identified.
    #[error("the identity is empty")]
    NoIdentity,
    /// The lease has no name.
    #[error("the name of the lease is empty")]
    NoName,
}

impl ElectionTiming {
    /// Applies the same checks as client-go.
    ///
    /// # Errors
    /// Returns the first rule that is violated.
    pub fn validate(&self) -> Result<(), InvalidElection> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        let all = [(lease, "lease duration"), (renew, "renew deadline"), (retry, "retry period")];
        for (duration, what) in all {
            if duration.is_zero() || duration.as_secs() >= i32::MAX as u64 {
                return Err(InvalidElection::OutOfRange { what });
            }
        }
        if lease <= renew {
            return Err(InvalidElection::LeaseTooShort { lease, renew });
        }
        if renew <= retry.mul_f64(JITTER_FACTOR) {
            return Err(InvalidElection::DeadlineTooShort { renew, retry });
        }
        Ok(())
    }

    /// Returns the timeout of one request (rule LE-5).
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Returns the lease duration in whole seconds, rounded up: rounding down, as client-go does,
    /// would let other candidates in early.
    pub(crate) fn lease_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(whole).unwrap_or(i32::MAX)
    }
}

impl Default for ElectionTiming {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(lease: u64, renew: u64, retry: u64) -> ElectionTiming {
        let [lease_duration, renew_deadline, retry_period] = [lease, renew, retry].map(Duration::from_millis);
        ElectionTiming { lease_duration, renew_deadline, retry_period }
    }

    #[test]
    fn le_1_config_validation() {
        for (timing, refused) in [
            (ElectionTiming::default(), None),
            (timing(15_000, 10_000, 2_000), None),
            (
                timing(10_000, 10_000, 2_000),
                Some("the lease duration 10s must be longer than the renew deadline 10s"),
            ),
            (
                timing(15_000, 2_400, 2_000),
                Some("the renew deadline 2.4s must be longer than 1.2 times the retry period 2s"),
            ),
            (timing(15_000, 2_401, 2_000), None),
            (
                timing(0, 0, 0),
                Some("the lease duration must be longer than zero and at most 2147483647 seconds"),
            ),
            (
                timing(2, 1, 0),
                Some("the retry period must be longer than zero and at most 2147483647 seconds"),
            ),
            (
                timing(2, 0, 1),
                Some("the renew deadline must be longer than zero and at most 2147483647 seconds"),
            ),
        ] {
            let answer = timing.validate().err().map(|it| it.to_string());
            assert_eq!(answer.as_deref(), refused, "{timing:?}");
        }
    }

    #[test]
    fn the_lease_duration_is_rounded_up_to_seconds() {
        for (millis, seconds) in [(1, 1), (1_000, 1), (1_001, 2), (15_000, 15)] {
            assert_eq!(timing(millis, 1, 1).lease_seconds(), seconds, "{millis} ms");
        }
    }

    #[test]
    fn le_5_a_request_has_half_the_deadline_and_at_least_a_second() {
        assert_eq!(timing(15_000, 10_000, 2_000).request_timeout(), Duration::from_secs(5));
        assert_eq!(timing(1_500, 1_000, 200).request_timeout(), Duration::from_secs(1));
    }
}
