//! What stands between the reflector and the store: deltas in order, a bounded number of them, taken in batches.
//!
//! It looks at no delta and knows no store: nothing is merged, dropped or reordered, so a list stays between its `Begin` and its
//! `End`. When it is full the reflector waits, stops reading, and TCP lets the server wait too.

use std::fmt;

use tokio::sync::mpsc;

use crate::delta::Delta;

/// Makes queues of deltas: see [`DeltaQueue::channel`].
#[derive(Clone, Copy, Debug)]
pub struct DeltaQueue;

/// The end that a reflector writes to. Dropping it closes the queue behind what is in it.
pub struct DeltaSender<T>(mpsc::Sender<Delta<T>>);

/// The end that feeds a store. Dropping it wakes whoever waits to send, and throws away what is in the queue.
pub struct DeltaReceiver<T>(mpsc::Receiver<Delta<T>>);

/// The receiver is gone: nobody will ever read what was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads the delta queue any more")]
pub struct QueueClosed;

impl DeltaQueue {
    /// How many deltas are enough to keep both sides busy: batches are up to this long, and so many objects more than the store
    /// holds are in memory at worst.
    pub const CAPACITY: usize = 1024;

    /// A queue that holds at most `capacity` deltas; 0 counts as 1.
    pub fn channel<T>(capacity: usize) -> (DeltaSender<T>, DeltaReceiver<T>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (DeltaSender(sender), DeltaReceiver(receiver))
    }
}

impl<T> DeltaSender<T> {
    /// Adds a delta behind all others; waits while the queue is full.
    ///
    /// # Errors
    /// When the receiver is gone, also while it waits.
    pub async fn send(&self, delta: Delta<T>) -> Result<(), QueueClosed> {
        self.0.send(delta).await.map_err(|_| QueueClosed)
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the receiver is gone.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// How many deltas wait to be taken.
    pub fn depth(&self) -> usize {
        self.0.max_capacity() - self.0.capacity()
    }

    /// How many deltas may wait.
    pub fn capacity(&self) -> usize {
        self.0.max_capacity()
    }
}

impl<T> DeltaReceiver<T> {
    /// Appends what waits to the batch, oldest first and at most `max`; waits until there is something.
    ///
    /// False when there is nothing, and nothing will come: the sender is gone. Dropping the future loses nothing. A `max` of 0
    /// counts as 1.
    pub async fn recv_batch(&mut self, batch: &mut Vec<Delta<T>>, max: usize) -> bool {
        self.0.recv_many(batch, max.max(1)).await > 0
    }

    /// How many deltas wait to be taken.
    pub fn depth(&self) -> usize {
        self.0.len()
    }

    /// How many deltas may wait.
    pub fn capacity(&self) -> usize {
        self.0.max_capacity()
    }
}

impl<T> fmt::Debug for DeltaSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaSender").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for DeltaReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaReceiver").field("depth", &self.depth()).finish_non_exhaustive()
    }
}
