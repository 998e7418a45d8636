//! The preset limiters of client-go
//! (`k8s.io/client-go v0.36.4 util/workqueue/default_rate_limiters.go`) and controller-runtime
//! (rule RL-1).

use std::hash::Hash;
use std::time::Duration;

use super::{ExponentialPerItem, MaxOf, TokenBucket};

/// The longest wait in both client-go and controller-runtime: 16 minutes and 40 seconds.
const LONGEST: Duration = Duration::from_secs(1000);

/// Returns controller-runtime's default limiter, which is also the default of a queue: 5 ms,
/// doubling to 1000 s, for each key.
pub fn default_controller_limiter<K>() -> ExponentialPerItem<K> {
    ExponentialPerItem::new(Duration::from_millis(5), LONGEST)
}

/// Returns client-go's default controller limiter: the above, and ten retries per second for all
/// keys together, with a burst of a hundred.
///
/// ```
/// use dogwatch_workqueue::WorkQueue;
/// use dogwatch_workqueue::limiter::client_go_limiter;
///
/// let queue = WorkQueue::<String>::builder().limiter(client_go_limiter()).build();
/// assert!(queue.is_empty());
/// ```
pub fn client_go_limiter<K: Eq + Hash + Clone + Send + 'static>() -> MaxOf<K> {
    MaxOf::new(default_controller_limiter()).and(TokenBucket::new(10.0, 100))
}

/// Returns client-go's item-based limiter: 1 ms, doubling to 1000 s, for each key.
pub fn item_based_limiter<K>() -> ExponentialPerItem<K> {
    ExponentialPerItem::new(Duration::from_millis(1), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::super::RateLimiter;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rl_1_the_presets_have_the_upstream_values() {
        let ours = default_controller_limiter();
        assert_eq!(ours.when(&1).as_millis(), 5);
        let waits: Vec<_> = (0..30).map(|_| ours.when(&1)).collect();
        assert_eq!(waits.last(), Some(&LONGEST));
        assert!((0..1000).all(|key| ours.when(&(key + 10)).as_millis() == 5), "no limit over all keys");

        assert_eq!(item_based_limiter().when(&1).as_millis(), 1);

        let theirs = client_go_limiter();
        assert!((0..100).all(|key| theirs.when(&key).as_millis() == 5));
        assert_eq!(theirs.when(&100).as_millis(), 100);
        assert_eq!(theirs.when(&101).as_millis(), 200);
    }
}
