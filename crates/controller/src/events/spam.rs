//! The spam filter: limits the events of one source about one object (rule EV-1). A token bucket
//! for each, on tokio's clock.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use super::new_event::{EventKey, EventType, Reporter, Subject};

/// The burst size, and the refill interval of one token: `defaultSpamBurst` and `defaultSpamQPS` in
/// `k8s.io/client-go v0.36.4 tools/record/events_cache.go`.
const BURST: NonZeroU32 = NonZeroU32::new(25).expect("25 is not zero");
const REFILL: Duration = Duration::from_secs(300);

/// The reporter, the object, and the type of the event.
type Source = (Reporter, Subject, EventType);

/// The token buckets. Buckets that are full again are removed by [`SpamFilter::tidy`].
#[derive(Debug)]
pub(super) struct SpamFilter {
    buckets: RateLimiter<Source, HashMapStateStore<Source>, Elapsed, NoOpMiddleware<Duration>>,
}

/// A clock that starts with the filter.
#[derive(Clone, Debug)]
struct Elapsed(Instant);

impl Clock for Elapsed {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

impl SpamFilter {
    pub(super) fn new() -> Self {
        let quota = Quota::with_period(REFILL).expect("a period that is not zero").allow_burst(BURST);
        Self { buckets: RateLimiter::hashmap_with_clock(quota, Elapsed(Instant::now())) }
    }

    /// Takes a token. Returns true if one more event may be written.
    pub(super) fn admits(&self, key: &EventKey) -> bool {
        let source = (key.reporter.clone(), key.regarding.clone(), key.kind);
        self.buckets.check_key(&source).is_ok()
    }

    pub(super) fn tidy(&self) {
        self.buckets.retain_recent();
        self.buckets.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube_core::Resource;

    use super::super::new_event::NewEvent;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ev_1_a_source_may_write_25_events_about_an_object_at_once_and_one_more_every_five_minutes() {
        let filter = SpamFilter::new();
        let reporter = Reporter::new("tests", "one").expect("a name");
        let mut pod = Pod::default().object_ref(&());
        let key = |note: NewEvent, pod: &_| note.key(&reporter, pod);
        let admitted = |pod: &_, count: u32| {
            (0..count).filter(|it| filter.admits(&key(NewEvent::normal(format!("r{it}"), "a"), pod))).count()
        };
        assert_eq!(admitted(&pod, 100), 25);
        assert!(
            filter.admits(&key(NewEvent::warning("r", "a"), &pod)),
            "warnings have a bucket of their own"
        );
        tokio::time::advance(REFILL).await;
        assert_eq!(admitted(&pod, 100), 1);
        pod.name = Some("another".to_owned());
        assert_eq!(admitted(&pod, 100), 25, "each object has a bucket of its own");
        tokio::time::advance(REFILL * 26).await;
        filter.tidy();
        assert!(filter.buckets.is_empty());
    }
}
