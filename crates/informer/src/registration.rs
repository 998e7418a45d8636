//! One handler of an informer, from both ends: the task that calls it, or the stream that is read, and the handle its owner keeps.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dogwatch_core::Object;
use futures_core::Stream;
use tokio::time::Instant;

use crate::backlog::Hand;
use crate::change::Change;
use crate::handler::EventHandler;
use crate::mailbox::{Lag, Mailbox, Overflow, Progress, Subscription};
use crate::slow::{is_behind, is_slow_handler};

/// Of how many objects a handler's task takes the changes at once. What it took is not merged any more, and other tasks wait for
/// as many calls.
const AT_ONCE: usize = 64;

/// The shortest period of a resync (rule IN-9).
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// How a handler is to be served.
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(crate) name: Option<String>,
    pub(crate) overflow: Overflow,
    pub(crate) resync_every: Option<Duration>,
    pub(crate) again_after_relist: bool,
}

impl HandlerOptions {
    /// Names the handler in metrics and logs. Defaults to the smallest number that no other handler of the informer has.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What happens while the handler is slower than the changes. [`Overflow::Coalesce`] unless called.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Delivers every object again this often, as an update in which nothing changed; at most once a second. One is left out while
    /// the one before still waits for the handler. Defaults to the informer's period.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = Some(period.max(SHORTEST_RESYNC));
        self
    }

    /// Tells the handler of every object again after each new list, as an update in which nothing changed. Off unless called: an
    /// object that a new list shows in the version that is known is told to nobody.
    #[must_use]
    pub fn again_after_relist(mut self) -> Self {
        self.again_after_relist = true;
        self
    }
}

/// A handler's place in an informer.
///
/// The handler stays until it is removed or the informer ends; dropping this changes nothing.
#[derive(Clone)]
pub struct Registration {
    mailbox: Arc<dyn Subscription>,
}

/// A handler ended before it was told of everything of the first list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handler {handler} ended before it was synced")]
pub struct HandlerEnded {
    handler: String,
}

impl Registration {
    pub(crate) fn new(mailbox: Arc<dyn Subscription>) -> Self {
        Self { mailbox }
    }

    /// The handler's name, in metrics and logs.
    pub fn name(&self) -> &str {
        self.mailbox.name()
    }

    /// Whether the first list is in the store and the handler has been told of all of it (rule IN-7). A call that panicked counts
    /// as made.
    pub fn is_synced(&self) -> bool {
        self.mailbox.progress().borrow().synced
    }

    /// Waits until the handler is synced.
    ///
    /// # Errors
    /// When it was removed, or the informer ended, before that.
    pub async fn synced(&self) -> Result<(), HandlerEnded> {
        match self.reached(|it| it.synced || it.ended).await {
            Progress { synced: true, .. } => Ok(()),
            _ => Err(HandlerEnded { handler: self.name().to_owned() }),
        }
    }

    /// How far behind the handler is.
    pub fn lag(&self) -> Lag {
        self.mailbox.lag()
    }

    /// Removes the handler and drops what it has not been told of. It does not wait: a call that is under way goes on to its end,
    /// and none begins after it. To remove what is removed does nothing (rule IN-8).
    pub fn remove(&self) {
        self.mailbox.remove();
    }

    /// Removes the handler and waits until a call that is under way is done. Never call it from inside the handler: it would
    /// wait for itself.
    pub async fn shut_down(&self) {
        self.remove();
        self.reached(|it| it.ended).await;
    }

    async fn reached(&self, enough: impl FnMut(&Progress) -> bool) -> Progress {
        let mut progress = self.mailbox.progress();
        let reached = progress.wait_for(enough).await.map(|it| *it);
        reached.unwrap_or_else(|_| *progress.borrow())
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Registration");
        debug.field("name", &self.name()).field("synced", &self.is_synced()).finish_non_exhaustive()
    }
}

/// Tells a handler of what is in its mailbox, until there will be no more. One task runs this per handler.
pub(crate) async fn serve<T: Object>(mut handler: impl EventHandler<T>, reader: Reader<T>) {
    let mailbox = &reader.0;
    let mut hand = Hand::default();
    while poll_fn(|cx| mailbox.poll_take(AT_ONCE, &mut hand, cx)).await {
        let began = is_behind(hand.waiting).then(Instant::now);
        for change in hand.changes() {
            if mailbox.is_removed() {
                break;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler.on_change(change))) {
                mailbox.panicked();
                report(mailbox.name(), change, &*panic);
            }
        }
        if let Some(took) = began.map(|it| it.elapsed()).filter(|it| is_slow_handler(*it)) {
            let (handler, waiting, calls) = (mailbox.name(), hand.waiting, hand.changes().len());
            tracing::info!(handler, waiting, calls, ?took, "a slow handler is behind the changes");
        }
        tokio::task::yield_now().await;
    }
}

fn report<T: Object>(handler: &str, change: &Change<T>, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let key = change.object().key().map(String::from).unwrap_or_default();
    tracing::error!(handler, key, panic = text, "a handler panicked; it goes on with the next change");
}

/// The reading end of a mailbox. Dropping it says that the handler will not be called any more.
#[derive(Debug)]
pub(crate) struct Reader<T: Object>(Arc<Mailbox<T>>);

impl<T: Object> Reader<T> {
    pub(crate) fn new(mailbox: Arc<Mailbox<T>>) -> Self {
        Self(mailbox)
    }
}

impl<T: Object> Drop for Reader<T> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The changes of a collection, one after another, as a handler would be told of them.
///
/// It ends when the informer does, after what was left to deliver. Dropping it removes it from the informer. While it is not read, changes
/// wait by the [`Overflow`] policy it was made with.
pub struct Changes<T: Object> {
    reader: Reader<T>,
    hand: Hand<T>,
    /// How many of those in hand were given out.
    given: usize,
}

impl<T: Object> Changes<T> {
    pub(crate) fn new(reader: Reader<T>) -> Self {
        Self { reader, hand: Hand::default(), given: 0 }
    }

    /// Its place in the informer: whether it is synced, how far behind it is, and removing it.
    pub fn registration(&self) -> Registration {
        Registration::new(Arc::clone(&self.reader.0) as Arc<dyn Subscription>)
    }
}

impl<T: Object> Stream for Changes<T> {
    type Item = Change<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change<T>>> {
        let this = self.get_mut();
        let mailbox = &this.reader.0;
        loop {
            match this.hand.changes().get(this.given) {
                Some(change) if !mailbox.is_removed() => {
                    this.given += 1;
                    return Poll::Ready(Some(change.clone()));
                }
                _ => this.given = 0,
            }
            // One object at a time, so that what is not read yet can still be merged.
            match mailbox.poll_take(1, &mut this.hand, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    this.hand = Hand::default();
                    mailbox.ended();
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl<T: Object> Unpin for Changes<T> {}

impl<T: Object> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("lag", &self.reader.0.lag()).finish_non_exhaustive()
    }
}
