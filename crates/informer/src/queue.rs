//! The queue between a reflector and a store: a bounded number of deltas in order, taken in
//! batches.
//!
//! It does not look at deltas: nothing is merged, dropped or reordered, so a list stays between its
//! `Begin` and its `End`. When the queue is full, the reflector waits and stops reading, and TCP
//! flow control makes the server wait too.

use std::fmt;

use tokio::sync::mpsc;

use crate::delta::Delta;

/// A constructor for queues of deltas: see [`DeltaQueue::channel`].
///
/// ```
/// use dogwatch_core::ResourceVersion;
/// use dogwatch_informer::{Delta, DeltaQueue};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, mut receiver) = DeltaQueue::channel::<ConfigMap>(DeltaQueue::CAPACITY);
/// sender.send(Delta::Bookmark(ResourceVersion::new("7"))).await?;
/// drop(sender);
///
/// let mut batch = Vec::new();
/// while receiver.recv_batch(&mut batch, 100).await {}
/// assert_eq!(batch, [Delta::Bookmark(ResourceVersion::new("7"))]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeltaQueue;

/// The sending half, for a reflector. Dropping it closes the queue after the deltas in it.
///
/// ```
/// use dogwatch_informer::{Delta, DeltaQueue};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, receiver) = DeltaQueue::channel::<ConfigMap>(2);
/// sender.send(Delta::Resync).await?;
/// assert_eq!((sender.depth(), sender.capacity()), (1, 2));
/// drop(receiver);
/// assert!(sender.is_closed());
/// # Ok(())
/// # }
/// ```
pub struct DeltaSender<T>(mpsc::Sender<Delta<T>>);

/// The receiving half, for a store. Dropping it wakes a waiting sender and discards the deltas in
/// the queue.
///
/// ```
/// use dogwatch_informer::{Delta, DeltaQueue};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, mut receiver) = DeltaQueue::channel::<ConfigMap>(2);
/// sender.send(Delta::Begin).await?;
/// sender.send(Delta::Abort).await?;
/// let mut batch = Vec::new();
/// assert!(receiver.recv_batch(&mut batch, 100).await);
/// assert_eq!(batch, [Delta::Begin, Delta::Abort]);
/// # Ok(())
/// # }
/// ```
pub struct DeltaReceiver<T>(mpsc::Receiver<Delta<T>>);

/// Reads the length of a queue, without keeping it open.
pub(crate) struct QueueGauge<T>(mpsc::WeakSender<Delta<T>>);

/// The error of sending to a queue whose receiver was dropped.
///
/// ```
/// use dogwatch_informer::{Delta, DeltaQueue, QueueClosed};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, receiver) = DeltaQueue::channel::<ConfigMap>(2);
/// drop(receiver);
/// assert_eq!(sender.send(Delta::Resync).await, Err(QueueClosed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of the delta queue was dropped")]
pub struct QueueClosed;

impl DeltaQueue {
    /// The default capacity, which keeps both sides busy: batches have up to this many deltas, and
    /// at most this many objects are in memory in addition to the store's.
    pub const CAPACITY: usize = 1024;

    /// Creates a queue that holds at most `capacity` deltas; 0 counts as 1.
    pub fn channel<T>(capacity: usize) -> (DeltaSender<T>, DeltaReceiver<T>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (DeltaSender(sender), DeltaReceiver(receiver))
    }
}

impl<T> DeltaSender<T> {
    /// Appends a delta; waits while the queue is full.
    ///
    /// # Errors
    /// Returns an error if the receiver is dropped, also while waiting.
    pub async fn send(&self, delta: Delta<T>) -> Result<(), QueueClosed> {
        self.0.send(delta).await.map_err(|_| QueueClosed)
    }

    /// Returns true if the receiver was dropped.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the receiver is dropped.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Returns the number of deltas in the queue.
    pub fn depth(&self) -> usize {
        self.0.max_capacity() - self.0.capacity()
    }

    /// Returns the maximal number of deltas in the queue.
    pub fn capacity(&self) -> usize {
        self.0.max_capacity()
    }

    /// Returns a reader of the length of the queue.
    pub(crate) fn gauge(&self) -> QueueGauge<T> {
        QueueGauge(self.0.downgrade())
    }
}

impl<T> QueueGauge<T> {
    /// Returns the number of deltas in the queue; zero once the reflector has ended.
    pub(crate) fn depth(&self) -> usize {
        self.0.upgrade().map_or(0, |it| DeltaSender(it).depth())
    }
}

impl<T> DeltaReceiver<T> {
    /// Appends waiting deltas to the batch, oldest first and at most `max`; waits until there is
    /// one. A `max` of 0 counts as 1.
    ///
    /// Returns false if the queue is empty and the sender was dropped.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn recv_batch(&mut self, batch: &mut Vec<Delta<T>>, max: usize) -> bool {
        self.0.recv_many(batch, max.max(1)).await > 0
    }

    /// Returns the number of deltas in the queue.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// Returns the maximal number of deltas in the queue.
    pub fn capacity(&self) -> usize {
        self.0.max_capacity()
    }
}

impl<T> fmt::Debug for DeltaSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaSender").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

impl<T> Clone for QueueGauge<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for QueueGauge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueGauge").field("depth", &self.depth()).finish()
    }
}

impl<T> fmt::Debug for DeltaReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaReceiver").field("depth", &self.depth()).finish_non_exhaustive()
    }
}
