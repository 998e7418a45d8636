//! The other members, as seen through their Leases and our own clock.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::view::View;

/// The annotation of a member's Lease that declares the view it acts on.
pub(super) const VIEW: &str = "sharding.dogwatch.dev/view";

/// A member, as listed by its Lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    /// Empty if the member has left.
    pub(super) identity: String,
    /// The resource version of its Lease.
    pub(super) version: String,
    pub(super) duration: Duration,
    /// The view it acts on; empty if it declares none.
    pub(super) view: String,
    /// The name of its Lease.
    pub(super) lease: String,
}

/// The Leases seen, and the time when each version was first seen. A version that stays for longer
/// than its duration belongs to a member that is gone.
#[derive(Debug, Default)]
pub(super) struct Members {
    seen: BTreeMap<String, (Listed, Duration)>,
}

impl Listed {
    pub(super) fn of(lease: &Lease, default_duration: Duration) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0);
        let annotations = lease.metadata.annotations.as_ref();
        Self {
            identity: spec.holder_identity.unwrap_or_default(),
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            duration: seconds.map_or(default_duration, Duration::from_secs),
            view: annotations.and_then(|it| it.get(VIEW)).cloned().unwrap_or_default(),
            lease: lease.metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl Members {
    /// Returns the live members. A deleted Lease belongs to a member that does not know it yet, and
    /// counts until it would have expired; a member that leaves clears the holder of its Lease.
    pub(super) fn live(&mut self, listed: &[Listed], now: Duration) -> Vec<Listed> {
        for it in listed {
            let known = self.seen.get(&it.lease).is_some_and(|(seen, _)| seen.version == it.version);
            if !known {
                self.seen.insert(it.lease.clone(), (it.clone(), now));
            }
        }
        let lasts = |(it, since): &(Listed, Duration)| now < since.saturating_add(it.duration);
        self.seen.retain(|lease, seen| lasts(seen) || listed.iter().any(|it| it.lease == *lease));
        let live = self.seen.values().filter(|seen| !seen.0.identity.is_empty() && lasts(seen));
        live.map(|(it, _)| it.clone()).collect()
    }

    /// Returns the Leases that have not changed for this many durations.
    pub(super) fn long_gone(&self, durations: u32, now: Duration) -> Vec<Listed> {
        let gone = |(it, since): &&(Listed, Duration)| {
            now >= since.saturating_add(it.duration.saturating_mul(durations))
        };
        self.seen.values().filter(gone).map(|(it, _)| it.clone()).collect()
    }
}

/// Returns the view of these members and ourselves.
pub(super) fn view(live: &[Listed], me: &str) -> View {
    View::of(live.iter().map(|it| it.identity.clone()).chain([me.to_owned()]))
}

/// Returns true if all members of a view, including ourselves, act on it, according to the list.
pub(super) fn all_act_on(view: &View, live: &[Listed]) -> bool {
    view.members().all(|member| live.iter().any(|it| it.identity == member && it.view == view.id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn listed(identity: &str, version: &str, view: &str) -> Listed {
        let text = |it: &str| it.to_owned();
        Listed {
            identity: text(identity),
            version: text(version),
            duration: s(10),
            view: text(view),
            lease: format!("lease-{identity}"),
        }
    }

    #[test]
    fn a_member_is_live_for_its_duration_after_each_new_version() {
        let mut members = Members::default();
        let first = [listed("a", "1", "")];
        assert_eq!(members.live(&first, s(0)).len(), 1);
        assert_eq!(members.live(&first, s(9)).len(), 1);
        assert_eq!(members.live(&first, s(10)).len(), 0);
        assert_eq!(members.live(&[listed("a", "2", "")], s(11)).len(), 1);
        assert!(members.long_gone(10, s(110)).is_empty());
        assert_eq!(members.long_gone(10, s(111)).len(), 1);
    }

    #[test]
    fn all_members_must_act_on_the_view_and_none_may_be_missing() {
        let both = View::of(["a".to_owned(), "b".to_owned()]);
        let (a, b) = (listed("a", "1", both.id()), listed("b", "1", both.id()));
        assert!(all_act_on(&both, &[a.clone(), b]));
        assert!(!all_act_on(&both, std::slice::from_ref(&a)));
        assert!(!all_act_on(&both, &[a, listed("b", "2", "another")]));
    }

    #[test]
    fn a_deleted_lease_counts_until_it_would_have_expired_and_a_released_one_does_not() {
        let mut members = Members::default();
        assert_eq!(members.live(&[listed("a", "1", ""), listed("b", "1", "")], s(0)).len(), 2);
        let left = Listed { identity: String::new(), version: "2".to_owned(), ..listed("b", "1", "") };
        let live = members.live(&[left], s(9));
        assert_eq!(live.iter().map(|it| it.identity.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(members.live(&[], s(10)), []);
    }
}
