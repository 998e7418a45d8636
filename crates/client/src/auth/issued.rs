//! A credential as its source issued it, and its lifetime.
//!
//! ```text
//! Fresh ──renew_from──► Aging ──expires──► Expired
//! ```

use std::fmt;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use crate::config::{Identity, Pem};

/// A credential as its source issued it.
pub(super) struct Issued {
    /// The `Authorization` header; `None` if the credential is a certificate.
    pub(super) header: Option<HeaderValue>,
    /// The client certificate, if there is one.
    pub(super) identity: Option<Identity>,
    /// The time the credential may be used.
    pub(super) lifetime: Lifetime,
}

/// The time a credential may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lifetime {
    /// Until the server rejects it.
    UntilRejected,
    /// Until a wall-clock time, and renewed a little earlier.
    Until { renew_from: Timestamp, expires: Timestamp },
    /// Without limit, but its source may have a newer one after this time.
    ReloadAfter { time: Instant },
}

/// The freshness of a credential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Freshness {
    /// Usable.
    Fresh,
    /// Usable while one caller renews it.
    Aging,
    /// Not usable.
    Expired,
}

impl Lifetime {
    /// Creates a lifetime until `expires`, with renewal 30 s before, or in the last quarter of a
    /// short lifetime.
    pub(super) fn until(expires: Timestamp, now: Timestamp) -> Self {
        let left = now.duration_until(expires).as_secs().max(0);
        let ahead = SignedDuration::from_secs((left / 4).min(30));
        Self::Until { renew_from: expires.checked_sub(ahead).unwrap_or(expires), expires }
    }

    /// Returns the seconds until it expires, by the wall clock; infinity if it does not.
    pub(super) fn ttl_seconds(&self) -> f64 {
        match self {
            Self::Until { expires, .. } => Timestamp::now().duration_until(*expires).as_secs_f64(),
            Self::UntilRejected | Self::ReloadAfter { .. } => f64::INFINITY,
        }
    }

    /// Returns the freshness at this wall-clock time and this instant of the monotonic clock.
    pub(super) fn freshness(&self, now: Timestamp, tick: Instant) -> Freshness {
        match self {
            Self::UntilRejected => Freshness::Fresh,
            Self::Until { expires, .. } if now >= *expires => Freshness::Expired,
            Self::Until { renew_from, .. } if now >= *renew_from => Freshness::Aging,
            Self::Until { .. } => Freshness::Fresh,
            Self::ReloadAfter { time } if tick >= *time => Freshness::Aging,
            Self::ReloadAfter { .. } => Freshness::Fresh,
        }
    }
}

impl Issued {
    /// Returns true if the credential does not need renewal yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.lifetime.freshness(Timestamp::now(), Instant::now()) == Freshness::Fresh
    }

    /// Returns true if both have the same header and certificate.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.header == other.header && same_identity(self.identity.as_ref(), other.identity.as_ref())
    }
}

/// Returns true if two certificates with keys have the same text.
pub(super) fn same_identity(one: Option<&Identity>, other: Option<&Identity>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            same_pem(&one.certificate, &other.certificate) && same_pem(&one.key, &other.key)
        }
        _ => false,
    }
}

fn same_pem(one: &Pem, other: &Pem) -> bool {
    match (one, other) {
        (Pem::Data(one), Pem::Data(other)) => one.expose_secret() == other.expose_secret(),
        (Pem::File(one), Pem::File(other)) => one == other,
        _ => false,
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("header", &self.header.as_ref().map(|_| "[REDACTED]"))
            .field("identity", &self.identity)
            .field("lifetime", &self.lifetime)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn au_3_a_credential_is_renewed_before_it_expires() {
        let tick = Instant::now();
        // One hour: the last 30 s. 40 s: the last quarter. Already expired: never fresh.
        let cases = [
            (3600, 0, Freshness::Fresh),
            (3600, 3569, Freshness::Fresh),
            (3600, 3570, Freshness::Aging),
            (3600, 3599, Freshness::Aging),
            (3600, 3600, Freshness::Expired),
            (40, 29, Freshness::Fresh),
            (40, 30, Freshness::Aging),
            (40, 40, Freshness::Expired),
            (1, 0, Freshness::Fresh),
            (-5, 0, Freshness::Expired),
        ];
        for (expires, now, expected) in cases {
            let lifetime = Lifetime::until(at(expires), at(0));
            assert_eq!(lifetime.freshness(at(now), tick), expected, "expires {expires}, now {now}");
        }
    }

    #[test]
    fn the_far_past_and_the_far_future_do_not_overflow() {
        for expires in [Timestamp::MIN, Timestamp::MAX] {
            for now in [Timestamp::MIN, Timestamp::MAX] {
                Lifetime::until(expires, now).freshness(now, Instant::now());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_credential_that_is_reread_ages_but_never_expires() {
        let second = std::time::Duration::from_secs(1);
        let lifetime = Lifetime::ReloadAfter { time: Instant::now() + second };
        assert_eq!(lifetime.freshness(Timestamp::MAX, Instant::now()), Freshness::Fresh);
        tokio::time::advance(second).await;
        assert_eq!(lifetime.freshness(Timestamp::MIN, Instant::now()), Freshness::Aging);
        assert_eq!(lifetime.ttl_seconds(), f64::INFINITY);
    }
}
