//! The source of time, uids and generated names: the machine, or a seed, so that a test sees the
//! same ones in each run.

use parking_lot::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

/// The characters of generated names, without vowels and look-alikes: `alphanums` in
/// k8s.io/apimachinery v0.36.4 pkg/util/rand/rand.go.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// The source of time, uids and generated names.
#[derive(Debug)]
pub struct Source {
    random: Mutex<StdRng>,
    /// The randomness of requests, none of which is stored. The number of requests depends on the
    /// clock, because clients send some periodically, and must not change what objects get.
    requests: Mutex<StdRng>,
    /// The time at an instant; `None` for the clock of the machine.
    clock: Option<(Timestamp, Instant)>,
}

impl Source {
    /// Returns a source that uses the clock and the randomness of the machine.
    pub fn real() -> Self {
        Self {
            random: Mutex::new(StdRng::from_os_rng()),
            requests: Mutex::new(StdRng::from_os_rng()),
            clock: None,
        }
    }

    /// Returns a source with the same uids and names for the same seed, and a clock that begins at
    /// `start` and follows tokio's: it stands still while that is paused. Must be called inside a
    /// runtime.
    pub fn seeded(seed: u64, start: Timestamp) -> Self {
        Self::with_seed(seed, Some((start, Instant::now())))
    }

    fn with_seed(seed: u64, clock: Option<(Timestamp, Instant)>) -> Self {
        // Not the same seed: clients can read audit ids, and the other randomness makes keys.
        let requests = Mutex::new(StdRng::seed_from_u64(!seed));
        Self { random: Mutex::new(StdRng::seed_from_u64(seed)), requests, clock }
    }

    /// Returns true if time, uids and names come from a seed, so that runs are reproducible.
    pub fn is_seeded(&self) -> bool {
        self.clock.is_some()
    }

    /// Returns a source for a fork of the cluster: the same clock, and randomness that is seeded
    /// from this one.
    #[must_use]
    pub fn fork(&self) -> Self {
        let seed = self.random().random();
        Self::with_seed(seed, self.clock)
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match self.clock {
            None => Timestamp::now(),
            Some((start, since)) => {
                let elapsed = Duration::as_secs_f64(&since.elapsed());
                start.checked_add(jiff::SignedDuration::from_secs_f64(elapsed)).unwrap_or(start)
            }
        }
    }

    /// Returns the revision at which a store begins. All versions of objects are greater.
    ///
    /// Clients keep the last version that they have seen across a restart of the server, and resume
    /// from it. With the clock of the machine this is the number of microseconds since 1970, which
    /// is greater than every version of an earlier run, unless that run wrote a million times per
    /// second or the clock was set back. It fits etcd's signed 64 bits for 292,000 years and the
    /// integers of JSON in a browser until 2255. With a seed it is 1, so that runs can be compared.
    pub fn first_revision(&self) -> u64 {
        match self.clock {
            None => u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(1).max(1),
            Some(_) => 1,
        }
    }

    /// Returns the current time as objects hold it, in whole seconds.
    pub fn stamp(&self) -> String {
        let now = self.now();
        Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// Returns a new uid, of version 4.
    pub fn uid(&self) -> String {
        uid(self.random().random())
    }

    /// Returns an identifier for a request, a review or a token, in the form of a uid.
    pub fn request_id(&self) -> String {
        uid(self.requests.lock().random())
    }

    /// Returns a random number in `0.0..1.0`, to spread the ends of requests.
    pub fn spread(&self) -> f64 {
        self.requests.lock().random()
    }

    /// Returns the five random characters at the end of a generated name.
    pub fn suffix(&self) -> String {
        let mut random = self.random();
        (0..5).map(|_| char::from(SUFFIX[random.random_range(0..SUFFIX.len())])).collect()
    }

    /// Returns a random number below `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.random().random_range(0..bound)
    }

    fn random(&self) -> parking_lot::MutexGuard<'_, StdRng> {
        self.random.lock()
    }
}

/// Returns a uid of version 4 with these random bytes.
fn uid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uid = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            uid.push('-');
        }
        uid.extend([byte >> 4, byte & 0x0f].map(|it| char::from(HEX[usize::from(it)])));
    }
    uid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_seed_gives_the_same_names_in_each_run_and_a_clock_that_can_be_paused() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let (one, two) = (Source::seeded(7, start), Source::seeded(7, start));
        assert_eq!((one.uid(), one.suffix()), (two.uid(), two.suffix()));
        assert_ne!(one.uid(), one.uid());
        assert_eq!(one.stamp(), "2026-01-02T03:04:05Z");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(one.stamp(), "2026-01-02T03:05:05Z");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_requests_does_not_change_what_objects_get() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let (busy, quiet) = (Source::seeded(7, start), Source::seeded(7, start));
        let ids = [busy.request_id(), busy.request_id()];
        assert_ne!(ids[0], ids[1]);
        busy.spread();
        assert_eq!((busy.uid(), busy.suffix()), (quiet.uid(), quiet.suffix()));
    }

    #[tokio::test(start_paused = true)]
    async fn revisions_begin_above_those_of_an_earlier_run_unless_they_are_seeded() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        assert_eq!(Source::seeded(7, start).first_revision(), 1);
        let (first, mut second) = (Source::real().first_revision(), 0);
        while second <= first {
            second = Source::real().first_revision();
        }
        assert!(second < 1 << 53, "{first} {second}");
    }

    #[test]
    fn uids_are_of_version_4_and_suffixes_of_the_alphabet() {
        let source = Source::real();
        for _ in 0..100 {
            let uid = source.uid();
            assert!(uid.len() == 36 && &uid[14..15] == "4" && "89ab".contains(&uid[19..20]), "{uid}");
            assert!(source.suffix().bytes().all(|it| SUFFIX.contains(&it)));
        }
    }
}
