//! The content of a Lease, and the Leases that an elector writes: pure functions over values.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube_core::ObjectMeta;

/// The annotation of a Lease that names the holding process, since several may have the same
/// identity.
const INSTANCE: &str = "leaderelection.dogwatch.dev/instance";

/// The fields that an elector writes into every Lease it holds.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) identity: &'e str,
    /// Distinguishes this process from others with the same identity; empty if they need not be
    /// distinguished.
    pub(crate) instance: &'e str,
    pub(crate) lease_seconds: i32,
    /// Merged into the existing labels.
    pub(crate) labels: &'e BTreeMap<String, String>,
    /// The time of day.
    pub(crate) now: Timestamp,
}

/// Returns the holder; `None` if there is none.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|it| !it.is_empty())
}

/// Returns the process that holds the lease, if it is named. client-go does not write it, and
/// leaves the name that an earlier holder wrote.
pub(crate) fn instance(lease: &Lease) -> Option<&str> {
    lease.metadata.annotations.as_ref()?.get(INSTANCE).map(String::as_str)
}

/// Returns the next holder, if a coordinator names one.
pub(crate) fn preferred(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.preferred_holder.as_deref().filter(|it| !it.is_empty())
}

/// Returns the time that the lease lasts after each renewal, if it specifies one.
pub(crate) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().filter(|it| *it > 0).map(Duration::from_secs)
}

/// Returns the number of times that the lease has changed hands.
pub(crate) fn transitions(lease: &Lease) -> i32 {
    lease.spec.as_ref().and_then(|it| it.lease_transitions).unwrap_or_default()
}

/// Returns the resource version; equal versions mean equal objects.
pub(crate) fn version(lease: &Lease) -> Option<&str> {
    lease.metadata.resource_version.as_deref()
}

/// Returns a lease that is held for the first time, or again after it was deleted.
pub(crate) fn created(name: &str, entry: &Entry<'_>, transitions: i32) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let spec = LeaseSpec { lease_transitions: Some(transitions), ..LeaseSpec::default() };
    let mut lease = Lease { metadata, spec: Some(spec) };
    fill(&mut lease, entry);
    lease.spec.get_or_insert_default().acquire_time = Some(MicroTime(micros(entry.now)));
    lease
}

/// Returns the lease with a new holder.
pub(crate) fn taken(mut lease: Lease, entry: &Entry<'_>) -> Lease {
    let transitions = transitions(&lease).saturating_add(1);
    fill(&mut lease, entry);
    let spec = lease.spec.get_or_insert_default();
    spec.acquire_time = Some(MicroTime(micros(entry.now)));
    spec.lease_transitions = Some(transitions);
    lease
}

/// Returns the lease with the same holder and a new renewal time.
pub(crate) fn renewed(mut lease: Lease, entry: &Entry<'_>) -> Lease {
    fill(&mut lease, entry);
    lease
}

/// Returns the lease without a holder (rule LE-4). One second is the shortest valid duration of a
/// Lease.
pub(crate) fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let now = MicroTime(micros(now));
    lease.metadata.annotations.iter_mut().for_each(|it| drop(it.remove(INSTANCE)));
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.acquire_time = Some(now.clone());
    spec.renew_time = Some(now);
    lease
}

fn fill(lease: &mut Lease, entry: &Entry<'_>) {
    if !entry.labels.is_empty() {
        let labels = lease.metadata.labels.get_or_insert_default();
        labels.extend(entry.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    if !entry.instance.is_empty() {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(INSTANCE.to_owned(), entry.instance.to_owned());
    }
    let spec = lease.spec.get_or_insert_default();
    let before = spec.renew_time.take().map(|it| it.0);
    spec.holder_identity = Some(entry.identity.to_owned());
    spec.lease_duration_seconds = Some(entry.lease_seconds);
    spec.renew_time = Some(MicroTime(differing(micros(entry.now), before)));
}

/// Returns a time that differs from the last one. A write that changes nothing creates no new
/// version, and other candidates would not see the renewal. So if the clock stands still, or jumps
/// back to the very same time, a microsecond is added.
fn differing(now: Timestamp, before: Option<Timestamp>) -> Timestamp {
    if before != Some(now) {
        return now;
    }
    now.checked_add(jiff::SignedDuration::from_micros(1)).unwrap_or(now)
}

/// Truncates to microseconds, the precision of a Lease.
fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn entry<'e>(labels: &'e BTreeMap<String, String>, second: i64) -> Entry<'e> {
        Entry { identity: "me", instance: "1", lease_seconds: 15, labels, now: at(second) }
    }

    #[test]
    fn le_2_taking_counts_a_transition_and_renewing_keeps_the_time_it_was_acquired() {
        let none = BTreeMap::new();
        let first = created("lock", &entry(&none, 10), 0);
        assert_eq!((holder(&first), transitions(&first)), (Some("me"), 0));
        let renewal = renewed(first.clone(), &entry(&none, 12)).spec.expect("a spec");
        assert_eq!(
            (renewal.acquire_time, renewal.renew_time),
            (Some(MicroTime(at(10))), Some(MicroTime(at(12))))
        );
        assert_eq!(renewal.lease_transitions, Some(0));
        let take = taken(first, &Entry { identity: "other", ..entry(&none, 40) });
        assert_eq!((holder(&take), transitions(&take)), (Some("other"), 1));
        assert_eq!(take.spec.and_then(|it| it.acquire_time), Some(MicroTime(at(40))));
    }

    #[test]
    fn a_clock_that_stands_still_still_renews() {
        let none = BTreeMap::new();
        let first = created("lock", &entry(&none, 10), 0);
        let second = renewed(first.clone(), &entry(&none, 10));
        let third = renewed(second.clone(), &entry(&none, 10));
        assert!(first.spec != second.spec && second.spec != third.spec);
    }

    #[test]
    fn le_5_labels_are_merged_into_the_existing_ones() {
        let labels = BTreeMap::from([("app".to_owned(), "mine".to_owned())]);
        let mut lease = Lease::default();
        lease.metadata.labels = Some(BTreeMap::from(
            [("app", "old"), ("kept", "yes")].map(|(k, v)| (k.to_owned(), v.to_owned())),
        ));
        let lease = taken(lease, &entry(&labels, 10));
        let expected =
            BTreeMap::from([("app", "mine"), ("kept", "yes")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(lease.metadata.labels, Some(expected));
        assert_eq!(taken(Lease::default(), &entry(&BTreeMap::new(), 1)).metadata.labels, None);
    }

    #[test]
    fn le_4_a_released_lease_has_no_holder_and_lasts_a_second() {
        let none = BTreeMap::new();
        let lease = released(taken(created("lock", &entry(&none, 10), 0), &entry(&none, 11)), at(20));
        assert_eq!((holder(&lease), transitions(&lease)), (None, 1));
        assert_eq!(duration(&lease), Some(Duration::from_secs(1)));
        assert_eq!(instance(&lease), None);
    }
}
