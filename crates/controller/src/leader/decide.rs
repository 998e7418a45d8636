//! The decision of an elector, as a pure function of its memory, the observed lease and its own
//! clock (rule LE-2).

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::record;

/// The memory of an elector about the lease. Times are those of its own clock, never the server's
/// or another holder's.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::leader::{Memory, ElectionStep, decide};
/// use k8s_openapi::api::coordination::v1::Lease;
///
/// let mut lease = Lease::default();
/// lease.metadata.resource_version = Some("7".to_owned());
/// lease.spec.get_or_insert_default().holder_identity = Some("other".to_owned());
/// let (start, late) = (Duration::ZERO, Duration::from_secs(16));
/// let memory = Memory::new("me", Duration::from_secs(15)).after(Some(&lease), start);
/// assert!(matches!(decide(&memory, Some(&lease), start), ElectionStep::Wait { .. }));
/// assert_eq!(decide(&memory, Some(&lease), late), ElectionStep::Take); // it was not renewed
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    /// The identity of the elector.
    identity: String,
    /// Distinguishes this elector from others with the same identity; empty if none are
    /// distinguished.
    instance: String,
    /// The duration of a lease that does not specify one.
    default_duration: Duration,
    /// The newest observed version, and the time when it was first observed.
    seen: Option<(Lease, Duration)>,
}

/// The next step of an elector.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::leader::{Memory, ElectionStep, decide};
///
/// let memory = Memory::new("me", Duration::from_secs(15));
/// assert_eq!(decide(&memory, None, Duration::ZERO), ElectionStep::Create);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElectionStep {
    /// There is no lease: create it.
    Create,
    /// We hold the lease: renew it.
    Renew,
    /// The lease has no holder, or has expired: take it.
    Take,
    /// We hold the lease, and a coordinator prefers another holder: stop, and release it.
    HandOver,
    /// Another candidate holds the lease, until this time of our own clock at the earliest.
    Wait {
        /// The latest time for the next read.
        until: Duration,
    },
}

/// Returns the next step for the lease as the server shows it now; `None` means that it does not
/// exist.
///
/// A lease of another holder is respected for the duration that it specifies, counted from when
/// this version of it was first observed. So is a lease that was deleted while another candidate
/// held it: its holder does not know yet. A lease with our identity that names another
/// [instance](Memory::instance) belongs to another holder.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_controller::leader::{Memory, ElectionStep, decide};
/// use k8s_openapi::api::coordination::v1::Lease;
///
/// let memory = Memory::new("me", Duration::from_secs(15));
/// assert_eq!(decide(&memory, None, Duration::ZERO), ElectionStep::Create);
/// assert_eq!(decide(&memory, Some(&Lease::default()), Duration::ZERO), ElectionStep::Take); // no holder
/// ```
pub fn decide(memory: &Memory, observed: Option<&Lease>, now: Duration) -> ElectionStep {
    let expiry = match observed {
        Some(lease) => match record::holder(lease) {
            None => return ElectionStep::Take,
            Some(_) if memory.is_ours(lease) => return ElectionStep::Renew,
            Some(_) => memory.expiry(lease, memory.first_seen(lease).unwrap_or(now)),
        },
        None => match &memory.seen {
            Some((lease, since)) if memory.is_anothers(lease) => memory.expiry(lease, *since),
            _ => return ElectionStep::Create,
        },
    };
    match (expiry > now, observed) {
        (true, _) => ElectionStep::Wait { until: expiry },
        (false, Some(_)) => ElectionStep::Take,
        (false, None) => ElectionStep::Create,
    }
}

/// Returns the next step for a lease that a coordinator assigns (rule LE-5): it is renewed while we
/// hold it, until another holder is preferred.
///
/// It never creates or takes a lease. An expired one is assigned again by the coordinator, even if
/// it still names us as its holder.
pub fn decide_coordinated(memory: &Memory, observed: Option<&Lease>, now: Duration) -> ElectionStep {
    let wait = ElectionStep::Wait { until: Duration::MAX };
    let Some(lease) = observed.filter(|it| record::holder(it) == Some(memory.identity())) else {
        return wait;
    };
    let since = memory.first_seen(lease).unwrap_or(now);
    match record::preferred(lease) {
        _ if memory.expiry(lease, since) <= now => wait,
        Some(_) => ElectionStep::HandOver,
        None => ElectionStep::Renew,
    }
}

impl Memory {
    /// Creates an empty memory. `default_duration` applies to leases that do not specify a
    /// duration.
    pub fn new(identity: impl Into<String>, default_duration: Duration) -> Self {
        Self { identity: identity.into(), instance: String::new(), default_duration, seen: None }
    }

    /// Names the process, so that a lease that another process holds under the same identity does
    /// not count as our own. A lease without an instance, such as client-go's, is recognised by the
    /// identity alone. Without an instance of our own, every lease is.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = instance.into();
        self
    }

    /// Records an observation at this time. A version that was observed before keeps its first
    /// time; a missing lease leaves the memory unchanged.
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

    /// Returns the transition count for a recreated lease: it continues from the last observed one.
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

    /// Returns true if we hold the lease.
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

    /// The upstream table TryAcquireOrRenew, and the cases that upstream gets wrong.
    #[test]
    fn le_2_try_acquire_or_renew() {
        let others = held("7", "other");
        let stale = lease(
            "7",
            json!({ "holderIdentity": "other", "leaseDurationSeconds": 10, "renewTime": "1999-01-01T00:00:00.000000Z" }),
        );
        let unsaid = lease("7", json!({ "holderIdentity": "other" }));
        let saw = |lease: &Lease, at| fresh().after(Some(lease), at);
        let table: [(&str, Memory, Option<&Lease>, Duration, ElectionStep); 14] = [
            ("no object", fresh(), None, s(0), ElectionStep::Create),
            ("an object without a record", fresh(), Some(&lease("7", Value::Null)), s(0), ElectionStep::Take),
            ("unled", fresh(), Some(&lease("7", json!({ "leaseTransitions": 3 }))), s(0), ElectionStep::Take),
            ("an empty holder", fresh(), Some(&held("7", "")), s(0), ElectionStep::Take),
            (
                "an empty holder that was seen as another's",
                saw(&others, s(0)),
                Some(&held("8", "")),
                s(1),
                ElectionStep::Take,
            ),
            ("our own", fresh(), Some(&held("7", "me")), s(99), ElectionStep::Renew),
            ("another's, first seen now", fresh(), Some(&others), s(5), ElectionStep::Wait { until: s(15) }),
            (
                "another's, seen before",
                saw(&others, s(5)),
                Some(&others),
                s(14),
                ElectionStep::Wait { until: s(15) },
            ),
            (
                "another's, its own duration over",
                saw(&others, s(5)),
                Some(&others),
                s(15),
                ElectionStep::Take,
            ),
            (
                "renewed since",
                saw(&others, s(5)),
                Some(&held("8", "other")),
                s(15),
                ElectionStep::Wait { until: s(25) },
            ),
            (
                "renewed long ago by its own clock",
                fresh(),
                Some(&stale),
                s(5),
                ElectionStep::Wait { until: s(15) },
            ),
            (
                "another's without a duration",
                saw(&unsaid, s(5)),
                Some(&unsaid),
                s(19),
                ElectionStep::Wait { until: s(20) },
            ),
            ("deleted while another's", saw(&others, s(5)), None, s(14), ElectionStep::Wait { until: s(15) }),
            ("deleted long after", saw(&others, s(5)), None, s(15), ElectionStep::Create),
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
        let wait = ElectionStep::Wait { until: Duration::MAX };
        let saw = |lease: &Lease, at| fresh().after(Some(lease), at);
        let table: [(&str, Memory, Option<&Lease>, Duration, ElectionStep); 8] = [
            ("not there", fresh(), None, s(0), wait),
            ("no holder", fresh(), Some(&held("7", "")), s(0), wait),
            ("another's", fresh(), Some(&held("7", "other")), s(0), wait),
            ("another's, expired", saw(&held("7", "other"), s(0)), Some(&held("7", "other")), s(99), wait),
            ("ours", saw(&ours, s(0)), Some(&ours), s(9), ElectionStep::Renew),
            ("ours, expired", saw(&ours, s(0)), Some(&ours), s(10), wait),
            (
                "ours, at the end of its term",
                fresh(),
                Some(&marked("8", "me", "next")),
                s(0),
                ElectionStep::HandOver,
            ),
            ("another's, at the end of its term", fresh(), Some(&marked("8", "other", "me")), s(0), wait),
        ];
        for (case, memory, observed, now, step) in table {
            assert_eq!(decide_coordinated(&memory, observed, now), step, "{case}");
        }
    }

    #[test]
    fn a_recreated_lease_continues_the_transition_count() {
        assert_eq!(fresh().next_transitions(), 0);
        assert_eq!(fresh().after(Some(&held("7", "other")), s(0)).next_transitions(), 4);
        assert_eq!(fresh().after(Some(&held("7", "me")), s(0)).next_transitions(), 3);
    }
}
