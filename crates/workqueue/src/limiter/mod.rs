//! Rate limiters, which decide how long a key waits before a retry: one trait, and client-go's
//! limiters.
//!
//! A queue calls its limiter in [`crate::WorkQueue::add_rate_limited`] and
//! [`crate::WorkQueue::forget`]. Limiters know nothing about queues; several queues may share one
//! (`Arc<L>` is a limiter too).

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

/// Decides how long a key waits before a retry.
///
/// It is called from many tasks concurrently and must not block. Calls about one key come in any
/// order; a caller of `when` for a key calls `forget` when the key no longer fails, and until then
/// the limiter may keep state for it.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_workqueue::{RateLimiter, WorkQueue};
///
/// /// Waits the same time before every retry.
/// struct Constant(Duration);
///
/// impl<K> RateLimiter<K> for Constant {
///     fn when(&self, _key: &K) -> Duration {
///         self.0
///     }
///     fn forget(&self, _key: &K) {}
///     fn requeues(&self, _key: &K) -> u32 {
///         0
///     }
/// }
/// let queue = WorkQueue::<&str>::builder().limiter(Constant(Duration::from_secs(3))).build();
/// # queue.add_rate_limited("web");
/// # assert_eq!(queue.delayed(), 1);
/// ```
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key, and returns the time to wait before the next attempt.
    fn when(&self, key: &K) -> Duration;

    /// Resets the key, which no longer fails or will not be retried.
    fn forget(&self, key: &K);

    /// Returns the number of failures of the key since it was last forgotten.
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

/// Returns the counter of a key; the key is cloned only if it has none yet.
fn count_of<'a, K: Eq + Hash + Clone>(counts: &'a mut HashMap<K, u32>, key: &K) -> &'a mut u32 {
    if !counts.contains_key(key) {
        counts.insert(key.clone(), 0);
    }
    counts.get_mut(key).expect("the key exists or was just inserted")
}
