//! What an elector does next, as a function of what it remembers, what it sees and its own clock (rule LE-2).

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::record;

/// What an elector remembers of the lease. Times are those of its own clock, never the server's or another holder's.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Who the elector is.
    identity: String,
    /// Tells it from others of the same identity; empty where none is told apart.
    instance: String,
    /// How long a lease lasts that does not say so itself.
    default_duration: Duration,
    /// The newest version that was seen, and when it was first seen.
    seen: Option<(Lease, Duration)>,
}

/// What to do about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// There is none: make it.
    Create,
    /// It is ours: renew it.
    Renew,
    /// It is nobody's, or has not been renewed for as long as it lasts: take it.
    Take,
    /// It is ours, and a coordinator wants it to be another's: stop, and give it back.
    HandOver,
    /// It is another's, until this time of our own clock at the earliest.
    Wait {
        /// When to look again at the latest.
        until: Duration,
    },
}

/// What to do about the lease as the server shows it now; `None` is a lease that is not there.
///
/// A lease of another is waited for as long as it says itself, counted from when this version of it was first seen. A lease
/// that somebody deleted while it was another's is waited for too: its holder does not know yet. A lease of our identity that
/// names another [instance](Memory::instance) is another's.
pub fn decide(memory: &Memory, observed: Option<&Lease>, now: Duration) -> Step {
    let expiry = match observed {
        Some(lease) => match record::holder(lease) {
            None => return Step::Take,
            Some(_) if memory.is_ours(lease) => return Step::Renew,
            Some(_) => memory.expiry(lease, memory.first_seen(lease).unwrap_or(now)),
        },
        None => match &memory.seen {
            Some((lease, since)) if memory.is_anothers(lease) => memory.expiry(lease, *since),
            _ => return Step::Create,
        },
    };
    match (expiry > now, observed) {
        (true, _) => Step::Wait { until: expiry },
        (false, Some(_)) => Step::Take,
        (false, None) => Step::Create,
    }
}

/// What to do about a lease that a coordinator gives out (rule LE-5): it is renewed while it is ours, until another is to have it.
///
/// Nothing is made or taken here. One that has expired is the coordinator's to give out again, even if it still says that it is ours.
pub fn decide_coordinated(memory: &Memory, observed: Option<&Lease>, now: Duration) -> Step {
    let wait = Step::Wait { until: Duration::MAX };
    let Some(lease) = observed.filter(|it| record::holder(it) == Some(memory.identity())) else {
        return wait;
    };
    let since = memory.first_seen(lease).unwrap_or(now);
    match record::preferred(lease) {
        _ if memory.expiry(lease, since) <= now => wait,
        Some(_) => Step::HandOver,
        None => Step::Renew,
    }
}

impl Memory {
    /// Nothing has been seen yet. `default_duration` is how long leases last that do not say so themselves.
    pub fn new(identity: impl Into<String>, default_duration: Duration) -> Self {
        Self { identity: identity.into(), instance: String::new(), default_duration, seen: None }
    }

    /// Names the process, so that a lease which another process holds under the same identity is not taken for our own. A lease
    /// that names no instance, as client-go's do, is told by the identity alone. Without this, every lease is.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    /// Remembers what was seen at this time. A version that was seen before keeps the time when it was first seen; a lease that is
    /// not there leaves the memory as it is.
    #[must_use]
    pub fn after(mut self, observed: Option<&Lease>, now: Duration) -> Self {
        self.remember(observed, now);
        self
    }

    pub(super) fn remember(&mut self, observed: Option<&Lease>, now: Duration) {
        if let Some(lease) = observed {
            let since = self.first_seen(lease).unwrap_or(now);
            self.seen = Some((lease.clone(), since));
        }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// What a lease that is made anew counts: it goes on where the one that was seen last ended.
    pub(super) fn next_transitions(&self) -> i32 {
        match &self.seen {
            None => 0,
            Some((lease, _)) if self.is_anothers(lease) => record::transitions(lease).saturating_add(1),
            Some((lease, _)) => record::transitions(lease),
        }
    }

    pub(super) fn instance_name(&self) -> &str {
        &self.instance
    }

    /// Whether we hold a lease.
    pub(super) fn is_ours(&self, lease: &Lease) -> bool {
        let is_other_instance =
            || !self.instance.is_empty() && record::instance(lease).is_some_and(|it| it != self.instance);
        record::holder(lease) == Some(&self.identity) && !is_other_instance()
    }

    fn is_anothers(&self, lease: &Lease) -> bool {
        record::holder(lease).is_some() && !self.is_ours(lease)
    }

    fn first_seen(&self, lease: &Lease) -> Option<Duration> {
        let (seen, since) = self.seen.as_ref()?;
        (record::version(seen).is_some() && record::version(seen) == record::version(lease)).then_some(*since)
    }

    fn expiry(&self, lease: &Lease, since: Duration) -> Duration {
        since.saturating_add(record::duration(lease).unwrap_or(self.default_duration))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(version: &str, spec: Value) -> Lease {
        serde_json::from_value(
            json!({ "metadata": { "name": "lock", "resourceVersion": version }, "spec": spec }),
        )
        .expect("a lease")
    }

    fn held(version: &str, by: &str) -> Lease {
        lease(version, json!({ "holderIdentity": by, "leaseDurationSeconds": 10, "leaseTransitions": 3 }))
    }

    fn fresh() -> Memory {
        Memory::new("me", s(15))
    }

    /// The upstream table TryAcquireOrRenew, and what upstream gets wrong.
    #[test]
    fn le_2_try_acquire_or_renew() {
        let others = held("7", "other");
        let stale = lease(
            "7",
            json!({ "holderIdentity": "other", "leaseDurationSeconds": 10, "renewTime": "1999-01-01T00:00:00.000000Z" }),
        );
        let unsaid = lease("7", json!({ "holderIdentity": "other" }));
        let saw = |lease: &Lease, at| fresh().after(Some(lease), at);
        let table: [(&str, Memory, Option<&Lease>, Duration, Step); 14] = [
            ("no object", fresh(), None, s(0), Step::Create),
            ("an object without a record", fresh(), Some(&lease("7", Value::Null)), s(0), Step::Take),
            ("unled", fresh(), Some(&lease("7", json!({ "leaseTransitions": 3 }))), s(0), Step::Take),
            ("an empty holder", fresh(), Some(&held("7", "")), s(0), Step::Take),
            (
                "an empty holder that was seen as another's",
                saw(&others, s(0)),
                Some(&held("8", "")),
                s(1),
                Step::Take,
            ),
            ("our own", fresh(), Some(&held("7", "me")), s(99), Step::Renew),
            ("another's, first seen now", fresh(), Some(&others), s(5), Step::Wait { until: s(15) }),
            ("another's, seen before", saw(&others, s(5)), Some(&others), s(14), Step::Wait { until: s(15) }),
            ("another's, its own duration over", saw(&others, s(5)), Some(&others), s(15), Step::Take),
            (
                "renewed since",
                saw(&others, s(5)),
                Some(&held("8", "other")),
                s(15),
                Step::Wait { until: s(25) },
            ),
            ("renewed long ago by its own clock", fresh(), Some(&stale), s(5), Step::Wait { until: s(15) }),
            (
                "another's without a duration",
                saw(&unsaid, s(5)),
                Some(&unsaid),
                s(19),
                Step::Wait { until: s(20) },
            ),
            ("deleted while another's", saw(&others, s(5)), None, s(14), Step::Wait { until: s(15) }),
            ("deleted long after", saw(&others, s(5)), None, s(15), Step::Create),
        ];
        for (case, memory, observed, now, step) in table {
            assert_eq!(decide(&memory, observed, now), step, "{case}");
        }
    }

    /// The upstream table TryCoordinatedRenew, and the rest of the rule.
    #[test]
    fn le_5_try_coordinated_renew() {
        let ours = held("7", "me");
        let marked = |version: &str, holder: &str, next: &str| {
            lease(
                version,
                json!({ "holderIdentity": holder, "leaseDurationSeconds": 10, "preferredHolder": next }),
            )
        };
        let wait = Step::Wait { until: Duration::MAX };
        let saw = |lease: &Lease, at| fresh().after(Some(lease), at);
        let table: [(&str, Memory, Option<&Lease>, Duration, Step); 8] = [
            ("not there", fresh(), None, s(0), wait),
            ("nobody's", fresh(), Some(&held("7", "")), s(0), wait),
            ("another's", fresh(), Some(&held("7", "other")), s(0), wait),
            ("another's, expired", saw(&held("7", "other"), s(0)), Some(&held("7", "other")), s(99), wait),
            ("ours", saw(&ours, s(0)), Some(&ours), s(9), Step::Renew),
            ("ours, expired", saw(&ours, s(0)), Some(&ours), s(10), wait),
            ("ours, at the end of its term", fresh(), Some(&marked("8", "me", "next")), s(0), Step::HandOver),
            ("another's, at the end of its term", fresh(), Some(&marked("8", "other", "me")), s(0), wait),
        ];
        for (case, memory, observed, now, step) in table {
            assert_eq!(decide_coordinated(&memory, observed, now), step, "{case}");
        }
    }

    #[test]
    fn a_lease_that_is_made_anew_goes_on_counting() {
        assert_eq!(fresh().next_transitions(), 0);
        assert_eq!(fresh().after(Some(&held("7", "other")), s(0)).next_transitions(), 4);
        assert_eq!(fresh().after(Some(&held("7", "me")), s(0)).next_transitions(), 3);
    }
}
