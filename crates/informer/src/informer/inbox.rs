//! The way of new handlers from an informer's handles to its task.
//!
//! A channel of tokio would not do. If its receiver is dropped in the middle of a send, the message
//! stays in the channel until the last sender is dropped; the owner of such a handler, who usually
//! holds a sender, would wait for its end for ever. Here a handler is either accepted and seen by
//! the task, or rejected.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::subscription::NewSubscription;

/// The sending end, which all handles share.
pub(super) struct SubscriptionSender<T>(Arc<Mutex<Inbox<T>>>);

/// The receiving end, which the task owns. Dropping it drops the waiting handlers.
pub(super) struct SubscriptionReceiver<T>(Arc<Mutex<Inbox<T>>>);

struct Inbox<T> {
    waiting: VecDeque<NewSubscription<T>>,
    closed: bool,
    receiver: Option<Waker>,
}

/// Creates both ends.
pub(super) fn subscription_channel<T>() -> (SubscriptionSender<T>, SubscriptionReceiver<T>) {
    let inbox = Arc::new(Mutex::new(Inbox { waiting: VecDeque::new(), closed: false, receiver: None }));
    (SubscriptionSender(Arc::clone(&inbox)), SubscriptionReceiver(inbox))
}

impl<T> SubscriptionSender<T> {
    /// Passes a handler to the task. Returns it if the task takes no more.
    pub(super) fn send(&self, subscription: NewSubscription<T>) -> Result<(), NewSubscription<T>> {
        let mut inbox = self.0.lock();
        if inbox.closed {
            return Err(subscription);
        }
        inbox.waiting.push_back(subscription);
        let receiver = inbox.receiver.take();
        drop(inbox);
        if let Some(receiver) = receiver {
            receiver.wake();
        }
        Ok(())
    }
}

impl<T> SubscriptionReceiver<T> {
    /// Takes the next handler.
    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<NewSubscription<T>> {
        let mut inbox = self.0.lock();
        match inbox.waiting.pop_front() {
            Some(subscription) => Poll::Ready(subscription),
            None => {
                inbox.receiver = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Rejects further handlers, and returns the waiting ones.
    pub(super) fn close(&mut self) -> VecDeque<NewSubscription<T>> {
        let mut inbox = self.0.lock();
        inbox.closed = true;
        std::mem::take(&mut inbox.waiting)
    }
}

impl<T> Drop for SubscriptionReceiver<T> {
    fn drop(&mut self) {
        // Outside of the lock: dropping a handler runs code of its owner.
        drop(self.close());
    }
}
