//! The series of repeated events: which events are new, which repeat, and when a series is over
//! (rule EV-2). A plain structure; the caller passes the time. The durations are those of
//! `k8s.io/client-go v0.36.4 tools/events/event_broadcaster.go`.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::new_event::EventKey;

/// The idle time after which a series is over.
pub(super) const FINISH_AFTER: Duration = Duration::from_secs(6 * 60);
/// The interval at which the count of an ongoing series is written.
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);
/// The maximum number of events in memory; the least recently seen one is evicted for a new one. As
/// `maxLruCacheEntries` in `k8s.io/client-go v0.36.4 tools/record/events_cache.go`.
const MAX_ENTRIES: usize = 4096;

/// A write to the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// A new event.
    Create(Event),
    /// The updated series of an event, which the server may have deleted meanwhile.
    Series(Event),
}

/// The events that may repeat.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    events: HashMap<EventKey, Entry>,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    /// The time of the last occurrence, and of the last write to the server.
    seen: Duration,
    written: Duration,
    /// Set when the server does not know the latest occurrences.
    unwritten: bool,
}

impl SeriesCache {
    /// Returns true if a further occurrence would only be counted.
    pub(super) fn is_counted(&self, key: &EventKey) -> bool {
        self.events.get(key).is_some_and(|it| it.event.series.is_some())
    }

    /// Records an occurrence. `make` returns the event to create; it is called only for a new one.
    /// The first result is the write for this occurrence, or `None` if it is only counted in a
    /// known series; the second is the pending write of an event that is evicted for it.
    pub(super) fn observe(
        &mut self,
        key: EventKey,
        now: Duration,
        wall: Timestamp,
        make: impl FnOnce() -> Event,
    ) -> (Option<Write>, Option<Write>) {
        let Some(entry) = self.events.get_mut(&key) else {
            let forgotten = self.make_room();
            let event = make();
            let written = Write::Create(event.clone());
            self.events.insert(key, Entry { event, seen: now, written: now, unwritten: false });
            return (Some(written), forgotten);
        };
        entry.seen = now;
        let last_observed_time = MicroTime(wall);
        match &mut entry.event.series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last_observed_time = last_observed_time;
                entry.unwritten = true;
                (None, None)
            }
            none => {
                *none = Some(EventSeries { count: 2, last_observed_time });
                entry.written = now;
                (Some(Write::Series(entry.event.clone())), None)
            }
        }
    }

    /// Returns the writes that are due by now: the counts of series that are over, which are
    /// forgotten, and of ongoing ones.
    pub(super) fn tick(&mut self, now: Duration) -> Vec<Write> {
        let mut writes = Vec::new();
        self.events.retain(|_, entry| {
            let over = now.saturating_sub(entry.seen) >= FINISH_AFTER;
            let due = now.saturating_sub(entry.written) >= REFRESH_EVERY;
            if (over || due) && entry.unwritten {
                writes.push(Write::Series(entry.event.clone()));
                entry.written = now;
                entry.unwritten = false;
            }
            !over
        });
        writes
    }

    /// Returns the writes that are still pending at shutdown.
    pub(super) fn finish(&mut self) -> Vec<Write> {
        let unwritten = self.events.drain().filter(|(_, entry)| entry.unwritten);
        unwritten.map(|(_, entry)| Write::Series(entry.event)).collect()
    }

    fn make_room(&mut self) -> Option<Write> {
        if self.events.len() < MAX_ENTRIES {
            return None;
        }
        let oldest = self.events.iter().min_by_key(|(_, entry)| entry.seen).map(|(key, _)| key.clone())?;
        self.events.remove(&oldest).filter(|it| it.unwritten).map(|it| Write::Series(it.event))
    }
}

impl Write {
    pub(super) fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Series(event) => event,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ObjectReference, Pod};
    use kube_core::Resource;

    use super::super::new_event::{NewEvent, Reporter};
    use super::*;

    const fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    fn key(reason: &str) -> EventKey {
        let reporter = Reporter::new("tests", "one").expect("a name");
        NewEvent::normal(reason, "Testing").key(&reporter, &Pod::default().object_ref(&()))
    }

    fn observe(series_cache: &mut SeriesCache, reason: &str, at: Duration) -> Option<Write> {
        let make = || {
            let reporter = Reporter::new("tests", "one").expect("a name");
            NewEvent::normal(reason, "Testing").event(
                &reporter,
                ObjectReference::default(),
                Timestamp::UNIX_EPOCH,
            )
        };
        series_cache.observe(key(reason), at, Timestamp::UNIX_EPOCH + at, make).0
    }

    fn count(write: &Write) -> Option<i32> {
        write.event().series.as_ref().map(|it| it.count)
    }

    #[test]
    fn ev_2_the_second_occurrence_becomes_a_series_and_later_ones_are_counted() {
        let mut series_cache = SeriesCache::default();
        assert!(matches!(observe(&mut series_cache, "a", minutes(0)), Some(Write::Create(_))));
        let Some(series) = observe(&mut series_cache, "a", minutes(1)) else { panic!("no series began") };
        assert!(matches!(series, Write::Series(_)) && count(&series) == Some(2));
        for _ in 0..10 {
            assert_eq!(observe(&mut series_cache, "a", minutes(2)), None);
        }
        assert!(matches!(observe(&mut series_cache, "b", minutes(2)), Some(Write::Create(_))));
    }

    #[test]
    fn ev_2_a_series_is_finished_after_six_idle_minutes_and_then_begins_anew() {
        let mut series_cache = SeriesCache::default();
        for at in [0, 1, 2] {
            observe(&mut series_cache, "a", minutes(at));
        }
        assert_eq!(series_cache.tick(minutes(8) - Duration::from_secs(1)), []);
        let written = series_cache.tick(minutes(8));
        assert_eq!(written.iter().map(count).collect::<Vec<_>>(), [Some(3)]);
        assert!(matches!(observe(&mut series_cache, "a", minutes(9)), Some(Write::Create(_))));
    }

    #[test]
    fn ev_2_an_event_that_happened_once_is_forgotten_without_a_write() {
        let mut series_cache = SeriesCache::default();
        observe(&mut series_cache, "a", minutes(0));
        assert_eq!(series_cache.tick(minutes(6)), []);
        assert!(matches!(observe(&mut series_cache, "a", minutes(7)), Some(Write::Create(_))));
    }

    #[test]
    fn ev_2_a_series_that_goes_on_is_refreshed_every_half_hour() {
        let mut series_cache = SeriesCache::default();
        let mut written = Vec::new();
        for minute in 0..=61 {
            observe(&mut series_cache, "a", minutes(minute));
            written.extend(series_cache.tick(minutes(minute)).iter().map(count));
        }
        assert_eq!(written, [Some(32), Some(62)]);
    }

    #[test]
    fn finish_writes_the_counts_that_are_pending() {
        let mut series_cache = SeriesCache::default();
        for reason in ["a", "a", "a", "b", "b", "c"] {
            observe(&mut series_cache, reason, minutes(0));
        }
        let written = series_cache.finish();
        assert_eq!(written.iter().map(count).collect::<Vec<_>>(), [Some(3)]);
    }

    #[test]
    fn memory_is_bounded_and_eviction_writes_pending_counts() {
        let mut series_cache = SeriesCache::default();
        for _ in 0..3 {
            observe(&mut series_cache, "first", minutes(0));
        }
        for number in 1..MAX_ENTRIES {
            observe(&mut series_cache, &format!("reason-{number}"), minutes(1));
        }
        let make = || Event::default();
        let (_, forgotten) = series_cache.observe(key("last"), minutes(2), Timestamp::UNIX_EPOCH, make);
        assert_eq!(forgotten.as_ref().and_then(count), Some(3));
        assert_eq!(series_cache.events.len(), MAX_ENTRIES);
    }
}
