//! The policies, and the pick itself: a few atomic reads, no lock, no allocation, and a cost that
//! does not depend on the number of endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderName;
use tokio::time::Instant;

use super::ring::{Ring, RingEndpoint, RingState};
use super::round_robin::RoundRobin;
use super::weighted::Stride;
use crate::load::Load;
use crate::random;

/// The minimum latency. With a smaller one, an endpoint that was not called for a while would win
/// regardless of its calls in flight.
const LEAST_LATENCY: f32 = 1_000.0;

/// The load balancing policy: selects the endpoint for each call.
///
/// ```
/// use dogwatch_grpc::{KubeChannel, Policy};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let builder = KubeChannel::to(["127.0.0.1:50051", "127.0.0.1:50052"])?;
/// let channel = builder.policy(Policy::PickFirst).build()?;
/// # drop(channel);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// Each endpoint in turn, starting at a random one.
    #[default]
    RoundRobin,
    /// One endpoint for all calls, and another one only when it fails. Only that endpoint is
    /// connected.
    PickFirst,
    /// The endpoint with the fewest calls in flight, of a few chosen at random.
    LeastRequest(LeastRequest),
    /// The endpoint with the lowest expected latency given its calls in flight, of two chosen at
    /// random.
    PeakEwma(PeakEwma),
    /// Shares in proportion to the weights of the endpoints. No weight counts for more than ten
    /// times the mean.
    ///
    /// Weights are those of [`Endpoint::weight`](crate::Endpoint::weight). A slice sets the weight
    /// of all of its endpoints with the annotation `dogwatch/weight`, a number above 0. The
    /// annotation is meant for slices that you write yourself, of a Service without a selector: the
    /// EndpointSlice controller decides which pods are in which of its own slices, and does not
    /// copy annotations.
    Weighted,
    /// The same endpoint for calls with the same key.
    RingHash(RingHash),
}

/// gRPC's least_request (A48).
///
/// ```
/// use dogwatch_grpc::{LeastRequest, Policy};
///
/// let policy = Policy::from(LeastRequest::of(3));
/// assert_ne!(policy, Policy::from(LeastRequest::default()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeastRequest {
    choices: usize,
}

impl Default for LeastRequest {
    fn default() -> Self {
        Self { choices: 2 }
    }
}

impl LeastRequest {
    /// Compares this number of endpoints for each call, from 2 to 10. Defaults to 2.
    pub fn of(choices: usize) -> Self {
        Self { choices: choices.clamp(2, 10) }
    }
}

impl From<LeastRequest> for Policy {
    fn from(it: LeastRequest) -> Self {
        Self::LeastRequest(it)
    }
}

/// Power of two choices by peak latency, as in Finagle and Linkerd.
///
/// The cost of an endpoint is its latency times the calls in flight plus one. A slow response
/// raises the latency at once; it decays with time.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_grpc::{PeakEwma, Policy};
///
/// let policy = Policy::from(PeakEwma { decay: Duration::from_secs(5) });
/// assert!(matches!(policy, Policy::PeakEwma(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakEwma {
    /// The time after which a slow response counts for about a third. Defaults to 10 s.
    pub decay: Duration,
}

impl Default for PeakEwma {
    fn default() -> Self {
        Self { decay: Duration::from_secs(10) }
    }
}

impl From<PeakEwma> for Policy {
    fn from(it: PeakEwma) -> Self {
        Self::PeakEwma(it)
    }
}

/// gRPC's ring_hash (A42): the value of a header selects the endpoint; a call without it goes to
/// any.
///
/// The points of the ring are computed from the addresses of endpoints as in grpc-go and Envoy, so
/// that their clients agree with this one. While the endpoint of a key is connecting, calls with
/// the key wait for it, for two seconds at most; once it has failed, they go to the next one on the
/// ring, and so does a call that it refuses.
///
/// ```
/// use dogwatch_grpc::{Policy, RingHash};
/// use http::HeaderName;
///
/// let header = HeaderName::from_static("x-cart");
/// let policy = Policy::from(RingHash::by_header(header).points(1024, 8192));
/// assert!(matches!(policy, Policy::RingHash(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingHash {
    pub(crate) header: HeaderName,
    smallest: usize,
    largest: usize,
}

impl RingHash {
    /// Hashes the value of this header, on a ring of 1,024 to 4,096 points.
    pub fn by_header(header: HeaderName) -> Self {
        Self { header, smallest: 1_024, largest: 4_096 }
    }

    /// Sets the number of points on the ring. More points share more evenly.
    #[must_use]
    pub fn points(mut self, smallest: usize, largest: usize) -> Self {
        self.largest = largest.max(1);
        self.smallest = smallest.clamp(1, self.largest);
        self
    }
}

impl From<RingHash> for Policy {
    fn from(it: RingHash) -> Self {
        Self::RingHash(it)
    }
}

/// The state of a channel that outlives its groups.
#[derive(Debug)]
pub(crate) struct PolicyState {
    /// The round-robin counters of the near and the far endpoints: a call may pick from both, and
    /// with a shared counter it would skip every other far endpoint.
    pub(crate) turns: [AtomicU64; 2],
    began: Instant,
}

impl PolicyState {
    /// Starts the counters at a random value, so that many clients do not all start with the same
    /// endpoint.
    pub(crate) fn new() -> Self {
        let turns = [(); 2].map(|()| AtomicU64::new(random::bits() >> 33));
        Self { turns, began: Instant::now() }
    }

    /// Returns the milliseconds since the channel was created.
    pub(crate) fn now(&self) -> u32 {
        self.began.elapsed().as_millis() as u32
    }
}

/// The properties of an endpoint, besides its load, that a policy needs.
#[derive(Debug, Clone)]
pub(crate) struct PolicyEndpoint<'a> {
    pub(crate) key: &'a str,
    pub(crate) weight: u32,
    /// The index among the ready endpoints, if it is ready.
    pub(crate) ready: Option<usize>,
    /// True if the endpoint is not ready, but is connecting and has not failed.
    pub(crate) connecting: bool,
}

impl PolicyEndpoint<'_> {
    fn state(&self) -> RingState {
        match (self.ready, self.connecting) {
            (Some(index), _) => RingState::Ready(index),
            (None, true) => RingState::Connecting,
            (None, false) => RingState::Failed,
        }
    }
}

/// A policy prepared for one set of endpoints.
#[derive(Debug)]
pub(crate) enum Picker {
    RoundRobin(RoundRobin),
    First,
    LeastRequest { choices: usize },
    PeakEwma { decay: Duration },
    Weighted(Stride),
    Ring(Ring),
}

impl Picker {
    /// Creates a picker. `all` are the usable endpoints, ready or not, ordered by id.
    pub(crate) fn new<'a>(policy: &Policy, all: &[PolicyEndpoint<'a>]) -> Self {
        match policy {
            Policy::RoundRobin => {
                Self::RoundRobin(RoundRobin::among(all.iter().filter(|it| it.ready.is_some()).count()))
            }
            Policy::PickFirst => Self::First,
            Policy::LeastRequest(it) => Self::LeastRequest { choices: it.choices },
            Policy::PeakEwma(it) => Self::PeakEwma { decay: it.decay },
            Policy::Weighted => {
                Self::Weighted(Stride::new(all.iter().filter(|it| it.ready.is_some()).map(|it| it.weight)))
            }
            Policy::RingHash(it) => {
                let endpoint = |it: &PolicyEndpoint<'a>| RingEndpoint {
                    key: it.key,
                    weight: it.weight,
                    state: it.state(),
                };
                let endpoints: Vec<_> = all.iter().map(endpoint).collect();
                Self::Ring(Ring::new(&endpoints, it.smallest, it.largest))
            }
        }
    }

    /// Returns the index of the endpoint for a call; `loads` are the ready endpoints, at least one.
    /// `side` selects the counter. Only a ring evaluates `key`, and only a ring returns `None`:
    /// while the owner of the key is connecting.
    pub(crate) fn pick(
        &self,
        loads: &[Arc<Load>],
        state: &PolicyState,
        side: usize,
        key: impl FnOnce() -> Option<u64>,
    ) -> Option<usize> {
        Some(match self {
            Self::RoundRobin(turns) => turns.index(state.turns[side].fetch_add(1, Ordering::Relaxed)),
            Self::First => 0,
            Self::LeastRequest { choices: 2 } => {
                let (one, other) = two(loads.len());
                if loads[other].in_flight() < loads[one].in_flight() { other } else { one }
            }
            Self::LeastRequest { choices } => {
                let chosen = (0..*choices).map(|_| random::below(loads.len()));
                chosen.min_by_key(|it| loads[*it].in_flight()).unwrap_or(0)
            }
            Self::PeakEwma { decay } => {
                let (one, other) = two(loads.len());
                let now = state.now();
                let cost = |it: &Load| {
                    it.latency().decayed(now, *decay).max(LEAST_LATENCY) * (it.in_flight() + 1) as f32
                };
                if cost(&loads[other]) < cost(&loads[one]) { other } else { one }
            }
            Self::Weighted(stride) => stride.pick(&state.turns[side]),
            Self::Ring(ring) if ring.is_empty() => 0,
            Self::Ring(ring) => return ring.pick(key(), random::bits),
        })
    }

    /// Returns the ready endpoints in the order in which a call with this key tries them; only a
    /// ring has one.
    pub(crate) fn order(&self, key: Option<u64>) -> Option<impl Iterator<Item = usize>> {
        match self {
            Self::Ring(ring) => key.map(|it| ring.from(it)),
            _ => None,
        }
    }
}

/// Chooses two different members at random, if there are two, from one random number.
fn two(count: usize) -> (usize, usize) {
    let bits = random::bits();
    let one = random::scale(bits, count);
    if count < 2 {
        return (one, one);
    }
    let other = random::scale(bits << 32, count - 1);
    (one, if other >= one { other + 1 } else { other })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(count: usize) -> Vec<Arc<Load>> {
        (0..count).map(|_| Arc::new(Load::new(Duration::from_millis(1), 0))).collect()
    }

    fn picker(policy: impl Into<Policy>, count: usize) -> Picker {
        let keys: Vec<_> = (0..count).map(|it| format!("pod-{it}")).collect();
        let traits = |index: usize| PolicyEndpoint {
            key: &keys[index],
            weight: index as u32 + 1,
            ready: Some(index),
            connecting: false,
        };
        Picker::new(&policy.into(), &(0..count).map(traits).collect::<Vec<_>>())
    }

    fn shares(picker: &Picker, loads: &[Arc<Load>], picks: usize) -> Vec<usize> {
        let state = PolicyState::new();
        let mut shares = vec![0; loads.len()];
        for _ in 0..picks {
            shares[picker.pick(loads, &state, 0, || Some(random::bits())).unwrap()] += 1;
        }
        shares
    }

    #[test]
    fn round_robin_is_exactly_fair() {
        for count in [1, 2, 7, 100] {
            let shares = shares(&picker(Policy::RoundRobin, count), &loads(count), count * 10);
            assert_eq!(shares, vec![10; count]);
        }
    }

    #[test]
    fn the_two_compared_endpoints_differ_and_every_endpoint_is_compared() {
        let mut seen = [[0; 4]; 4];
        for _ in 0..12_000 {
            let (one, other) = two(4);
            seen[one][other] += 1;
        }
        for (one, row) in seen.iter().enumerate() {
            for (other, count) in row.iter().enumerate() {
                assert!(if one == other { *count == 0 } else { (700..1_300).contains(count) }, "{seen:?}");
            }
        }
        assert_eq!(two(1), (0, 0));
    }

    #[test]
    fn least_request_avoids_a_busy_endpoint() {
        for choices in [2, 3, 10] {
            let loads = loads(5);
            let _busy: Vec<_> = (0..10).map(|_| loads[3].begin()).collect();
            let shares = shares(&picker(LeastRequest::of(choices), 5), &loads, 5_000);
            // It gets a call only when it is compared with itself alone.
            assert!(shares[3] <= 5 + 5_000 / 5usize.pow(choices as u32 - 1) && shares[0] > 800, "{shares:?}");
        }
        assert_eq!((LeastRequest::of(0).choices, LeastRequest::of(99).choices), (2, 10));
    }

    #[test]
    fn peak_ewma_avoids_slow_and_busy_endpoints() {
        let loads = loads(3);
        loads[0].observe(Duration::from_millis(50), 0, Duration::from_secs(10));
        let slow = shares(&picker(PeakEwma::default(), 3), &loads, 3_000);
        assert_eq!(slow[0], 0);
        let _busy: Vec<_> = (0..100).map(|_| [loads[1].begin(), loads[2].begin()]).collect();
        let busy = shares(&picker(PeakEwma::default(), 3), &loads, 3_000);
        assert!(
            busy[0] > 1_500,
            "100 calls in flight elsewhere should cost more than 50 times the latency: {busy:?}"
        );
    }

    #[test]
    fn weighted_follows_the_weights() {
        let shares = shares(&picker(Policy::Weighted, 4), &loads(4), 10_000);
        for (index, share) in shares.iter().enumerate() {
            let fair = 1_000 * (index + 1);
            assert!(share.abs_diff(fair) < 50, "{shares:?}");
        }
    }

    #[test]
    fn ring_hash_maps_a_key_to_one_endpoint() {
        let (picker, loads, state) =
            (picker(RingHash::by_header(HeaderName::from_static("key")), 5), loads(5), PolicyState::new());
        let first = picker.pick(&loads, &state, 0, || Some(42));
        assert!((0..100).all(|_| picker.pick(&loads, &state, 0, || Some(42)) == first));
        assert!(shares(&picker, &loads, 5_000).iter().all(|it| *it > 100));
    }
}
