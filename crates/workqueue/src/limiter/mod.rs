//! How long a key waits before it is tried again: one trait, and the limiters that client-go has.
//!
//! A queue asks its limiter in [`crate::WorkQueue::add_rate_limited`] and tells it in [`crate::WorkQueue::forget`]. Limiters know
//! nothing about queues; they may be shared between several (`Arc<L>` is a limiter too).

mod exponential;
mod fast_slow;
mod bucket;
mod combined;
mod presets;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

pub use self::bucket::TokenBucket;
pub use self::combined::{MaxOf, WithMaxWait};
pub use self::exponential::ExponentialPerItem;
pub use self::fast_slow::FastSlow;
pub use self::presets::{client_go_limiter, default_controller_limiter, item_based_limiter};

/// Decides how long a key waits before it is tried again.
///
/// It is called from many tasks at once and must not block. Calls about one key come in any order; whoever calls
/// `when` for a key calls `forget` when the key no longer fails, and until then the limiter may remember it.
pub trait RateLimiter<K>: Send + Sync {
    /// The key failed once more: how long is it to wait? This counts as a try.
    fn when(&self, key: &K) -> Duration;

    /// The key no longer fails, or nobody will try it again. It is as if it had never failed.
    fn forget(&self, key: &K);

    /// How often the key has failed since it was last forgotten.
    fn requeues(&self, key: &K) -> u32;
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Arc<L> {
    fn when(&self, key: &K) -> Duration {
        (**self).when(key)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        (**self).requeues(key)
    }
}

impl<K, L: RateLimiter<K> + ?Sized> RateLimiter<K> for Box<L> {
    fn when(&self, key: &K) -> Duration {
        (**self).when(key)
    }

    fn forget(&self, key: &K) {
        (**self).forget(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        (**self).requeues(key)
    }
}

impl<K> fmt::Debug for dyn RateLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dyn RateLimiter")
    }
}

/// The count of a key, which is cloned only where it has none yet.
fn count_of<'a, K: Eq + Hash + Clone>(counts: &'a mut HashMap<K, u32>, key: &K) -> &'a mut u32 {
    if !counts.contains_key(key) {
        counts.insert(key.clone(), 0);
    }
    counts.get_mut(key).expect("it is there or was just put there")
}
