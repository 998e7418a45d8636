//! The policy for a handler that is slower than the changes, and the measure of how far it is
//! behind.

use std::time::Duration;

/// The policy for the changes that a handler has not processed yet.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HandlerOptions, Overflow, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// // An audit log receives every state; the informer waits for it if it falls far behind.
/// let options = HandlerOptions::default().name("audit").overflow(Overflow::Block(10_000));
/// let changes = maps.changes_with(options)?;
/// assert_eq!(changes.registration().name(), "audit");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// Consecutive updates of one object become one update from the oldest state to the newest.
    /// Nothing else is merged: a slow handler still receives every addition and every deletion, in
    /// order, so it reads a shorter history that could have happened.
    ///
    /// Only intermediate states of consecutive updates are dropped. The state in which an object
    /// was added, the one that the handler knew before an update, and the last one before a
    /// deletion are all delivered, with their owners and labels. A handler that must see the
    /// intermediate states too, because it derives keys from them (an owner that had a child only
    /// for a moment), uses [`Grow`](Self::Grow) and returns quickly, for example by adding keys to
    /// a deduplicating queue.
    ///
    /// At most three changes wait for each object that existed since the handler last read, plus a
    /// few thousand. The backlog is merged when a second batch of changes arrives before the
    /// handler took the first; a handler that takes each batch before the next one arrives receives
    /// every change. Objects come in the order in which each first had a change.
    #[default]
    Coalesce,
    /// Every change is kept until the handler receives it, in the server's order. Memory is not
    /// bounded.
    Grow,
    /// Every change is delivered, and the informer waits while more than this many changes are
    /// pending: its store then does not change, and no other handler receives changes beyond the
    /// store's state. Batches are put in whole, so the number may be exceeded by one batch.
    Block(usize),
}

/// A handler's backlog.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let handler = maps.on_add(|_| {})?;
/// maps.start();
/// handler.synced().await?;
/// let lag = handler.lag();
/// println!("{} changes wait, the oldest for {:?}", lag.pending, lag.oldest);
/// assert_eq!(lag.panics, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The number of changes that the handler has not processed yet, including those it has taken.
    /// Some of them may still be merged.
    pub pending: usize,
    /// The age of the oldest pending change.
    pub oldest: Option<Duration>,
    /// The number of handler calls that have panicked.
    pub panics: u64,
}
