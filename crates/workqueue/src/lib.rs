//! A work queue for controllers: keys with outstanding work, without duplicates, in a fair order,
//! at the right time.
//!
//! It implements client-go's work queue with controller-runtime's priorities, as one structure
//! behind one lock. It does not know Kubernetes: keys are any type that can be compared, hashed and
//! cloned.
//!
//! ```
//! use dogwatch_workqueue::WorkQueue;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue = WorkQueue::new();
//! queue.add("default/web");
//! queue.add("default/web"); // already waiting
//!
//! let worker = tokio::spawn({
//!     let queue = queue.clone();
//!     async move {
//!         while let Some(item) = queue.take().await {
//!             match reconcile(item.key()).await {
//!                 Ok(()) => queue.forget(&item),
//!                 Err(_) => queue.add_rate_limited(*item),
//!             }
//!         } // the item is dropped: the work on this key is done
//!     }
//! });
//!
//! queue.shut_down_with_drain().await;
//! worker.await.unwrap();
//! # }
//! # async fn reconcile(key: &str) -> Result<(), ()> { assert_eq!(key, "default/web"); Ok(()) }
//! ```
//!
//! # Layout
//!
//! From the bottom up: [`limiter`] decides how long a key waits; `entries`, `ready`, `delays` and
//! `note_slots` hold the keys, their order, their deadlines and their [notes](Note); `state` is the
//! state machine built on them, without a clock, a lock or a task; `waiters` are the tasks that
//! wait; `shared_queue` puts a lock around both; [`Item`], [`Take`] and [`WorkQueue`] are the
//! public API. [`parallelize_until`] is independent of the queue.
//!
//! # If you come from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `Get`, `Done` | [`WorkQueue::take`] returns an [`Item`]; dropping it is `Done` |
//! | `Add`, `AddAfter`, `AddRateLimited`, `Forget`, `NumRequeues` | [`WorkQueue::add`] and its variants |
//! | `AddWithOpts` (controller-runtime) | [`WorkQueue::add_with`] |
//! | `ShutDown`, `ShutDownWithDrain` | the same; the drain also waits for keys that have not been taken yet |
//! | `DefaultTypedControllerRateLimiter` | [`limiter::client_go_limiter`]; the default is [`limiter::default_controller_limiter`] |
//! | metrics provider | [`WorkQueueBuilder::name`], through the `metrics` facade |

pub mod limiter;
mod note;
mod snapshot;
mod entries;
mod ready;
mod delays;
mod note_slots;
mod state;
mod waiters;
mod lock;
mod clock;
mod metrics;
mod shared_queue;
mod item;
mod take;
mod builder;
mod queue;
mod parallel;

pub use self::builder::WorkQueueBuilder;
pub use self::item::Item;
pub use self::limiter::RateLimiter;
pub use self::metrics::DURATION_BUCKETS;
pub use self::note::Note;
pub use self::parallel::parallelize_until;
pub use self::queue::{AddOptions, WeakWorkQueue, WorkQueue};
pub use self::snapshot::{KeySnapshot, KeyStage, QueueSnapshot};
pub use self::take::Take;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
