//! A limit on the bytes of request bodies that are in memory at the same time.
//!
//! A limit on each body is not enough: an HTTP/2 connection may have 2,000 requests in flight, each
//! with a body of 3 MiB that arrives slowly. So every byte of a body is counted from its arrival
//! until the body is decoded, for its connection and for the whole server. A request that would
//! exceed a limit gets 429, which clients retry; waiting for room instead could deadlock, since
//! each request may hold a part that another one needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use dogwatch_core::Reason;

use crate::ApiError;

/// The bytes of request bodies that are in memory. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyMeter(Arc<AtomicUsize>);

/// The bytes of one body, counted in several meters until this is dropped.
#[derive(Debug, Default)]
pub(super) struct Reservation {
    bytes: usize,
    /// Each meter with its limit.
    meters: Vec<(BodyMeter, usize)>,
}

/// A body and its reservation, which is released when the last reference to the bytes is dropped.
struct Reserved {
    bytes: Bytes,
    _reservation: Reservation,
}

impl BodyMeter {
    /// Returns the number of bytes in memory.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds bytes unless that exceeds the limit.
    fn add(&self, bytes: usize, limit: usize) -> bool {
        let within = |used: usize| used.checked_add(bytes).filter(|it| *it <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Reservation {
    /// Counts bytes in these meters, each up to its limit.
    pub(super) fn new(meters: impl IntoIterator<Item = (BodyMeter, usize)>) -> Self {
        Self { bytes: 0, meters: meters.into_iter().collect() }
    }

    /// Counts more bytes.
    ///
    /// # Errors
    ///
    /// Returns 429 if that exceeds a limit; the additional bytes are then not counted.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        for at in 0..self.meters.len() {
            let (meter, limit) = &self.meters[at];
            if !meter.add(bytes, *limit) {
                self.meters[..at].iter().for_each(|(meter, _)| meter.remove(bytes));
                return Err(too_many());
            }
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Releases all counted bytes.
    pub(super) fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.meters.iter().for_each(|(meter, _)| meter.remove(bytes));
    }

    /// Ties the reservation to the bytes it was made for.
    pub(super) fn hold(self, bytes: Bytes) -> Bytes {
        if self.meters.is_empty() { bytes } else { Bytes::from_owner(Reserved { bytes, _reservation: self }) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn too_many() -> ApiError {
    let message = "too many request bodies are being received at the moment, please try again later";
    let mut refusal = ApiError::new(Reason::TooManyRequests, message);
    refusal.0.details.get_or_insert_default().retry_after_seconds = 1;
    refusal
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_count_until_the_last_reference_to_them_is_gone() {
        let meter = BodyMeter::default();
        let mut reservation = Reservation::new([(meter.clone(), 10)]);
        reservation.grow(5).expect("there is room");
        let bytes = reservation.hold(Bytes::from_static(b"hello"));
        let slice = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((meter.bytes(), &slice[..]), (5, &b"e"[..]));
        drop(slice);
        assert_eq!(meter.bytes(), 0);
    }

    #[test]
    fn a_body_beyond_a_limit_gets_429_with_retry_after() {
        let mut reservation = Reservation::new([(BodyMeter::default(), 10)]);
        let refusal = reservation.grow(11).expect_err("it is too much");
        assert_eq!(refusal.0.code, 429);
        assert_eq!(refusal.0.details.map(|it| it.retry_after_seconds), Some(1));
    }

    proptest! {
        /// For every order of reads and drops: no meter ever exceeds its limit, and all are empty
        /// at the end.
        #[test]
        fn meters_never_exceed_their_limits(steps in prop::collection::vec((0usize..4, 0usize..60), 0..100)) {
            let (all, connections) = (BodyMeter::default(), [BodyMeter::default(), BodyMeter::default()]);
            let of = |at: usize| Reservation::new([(all.clone(), 100), (connections[at % 2].clone(), 70)]);
            let mut open: Vec<Reservation> = (0..4).map(of).collect();
            for (at, bytes) in steps {
                if bytes < 5 {
                    open[at] = of(at);
                } else {
                    let before = all.bytes();
                    let grown = open[at].grow(bytes).is_ok();
                    prop_assert_eq!(all.bytes(), if grown { before + bytes } else { before });
                }
                prop_assert!(all.bytes() <= 100 && connections.iter().all(|it| it.bytes() <= 70));
                prop_assert_eq!(all.bytes(), connections.iter().map(BodyMeter::bytes).sum::<usize>());
            }
            drop(open);
            prop_assert_eq!(all.bytes(), 0);
        }
    }
}
