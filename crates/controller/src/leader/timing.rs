//! The three durations of an election, and what must hold between them (rule LE-1).

use std::time::Duration;

/// By how much client-go may stretch the wait between two attempts. Here waits are only ever shortened, and the factor is left in
/// the rule for the renew deadline, so that settings are valid here if and only if they are valid there.
const JITTER_FACTOR: f64 = 1.2;

/// How long a lease lasts and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElectionTiming {
    /// How long others wait after the last renewal they saw before they take the lease: 15 s unless set. A Lease has whole
    /// seconds, so it is rounded up to them.
    pub lease_duration: Duration,
    /// How long a leader goes on without a successful renewal: 10 s unless set.
    pub renew_deadline: Duration,
    /// How far apart attempts are, to get the lease and to renew it: 2 s unless set.
    pub retry_period: Duration,
}

/// Why an election cannot be held with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidElection {
    /// A leader would still work when others may take its lease.
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
    /// A duration is zero, or longer than a Lease can say.
    #[error("the {what} must be longer than zero and at most 2147483647 seconds")]
    OutOfRange {
        /// Which one.
        what: &'static str,
    },
    /// Nobody could tell who leads.
    #[error("the identity is empty")]
    NoIdentity,
    /// The lease has no name.
    #[error("the name of the lease is empty")]
    NoName,
}

impl ElectionTiming {
    /// Checks what client-go checks.
    ///
    /// # Errors
    /// The first rule that is broken.
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

    /// How long one request may take (rule LE-5).
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// The lease duration in whole seconds, rounded up: rounding down, as client-go does, would let others in early.
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
    fn a_lease_says_no_less_than_its_holder_counts_on() {
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
