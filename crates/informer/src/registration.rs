//! One handler of an informer: the task that calls it, or the stream that is read, and the
//! registration that its owner keeps.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dogwatch_core::Object;
use futures_core::Stream;
use tokio::time::Instant;

use crate::backlog::TakenChanges;
use crate::change::Change;
use crate::handler::EventHandler;
use crate::mailbox::{Mailbox, Progress, Subscription};
use crate::overflow::{Lag, Overflow};
use crate::slow::{is_behind, is_slow_handler};

/// The number of objects whose changes a handler's task takes at once. Changes that were taken are
/// not merged any more, and other tasks of the thread wait for as many calls.
const AT_ONCE: usize = 64;

/// The shortest interval of a resync (rule IN-9).
const SHORTEST_RESYNC: Duration = Duration::from_secs(1);

/// Returns the interval of resyncs for a period that a caller chose; `None` if there are none.
pub(crate) fn resync_period(period: Duration) -> Option<Duration> {
    (!period.is_zero()).then(|| period.max(SHORTEST_RESYNC))
}

/// The options of a handler.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{HandlerOptions, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let options = HandlerOptions::default().name("sync").resync_every(Duration::from_secs(600));
/// let changes = maps.changes_with(options)?;
/// assert_eq!(changes.registration().name(), "sync");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(crate) name: Option<String>,
    pub(crate) overflow: Overflow,
    pub(crate) resync_every: Option<Duration>,
    pub(crate) replay_after_relist: bool,
}

impl HandlerOptions {
    /// Sets the name of the handler in metrics and logs. Defaults to the smallest number that no
    /// other handler of the informer has.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the policy for a handler that is slower than the changes. Defaults to
    /// [`Overflow::Coalesce`].
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// Delivers every object again at this interval, as an update in which nothing changed. The
    /// shortest interval is one second; zero disables resyncs, as in client-go. A resync is skipped
    /// while the handler has not finished the one before. Defaults to the informer's interval.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync_every = Some(resync_period(period).unwrap_or_default());
        self
    }

    /// Delivers every object again after each relist, as an update in which nothing changed. Off by
    /// default: an object that a relist shows in its known version is then not delivered.
    #[must_use]
    pub fn replay_after_relist(mut self) -> Self {
        self.replay_after_relist = true;
        self
    }
}

/// The registration of a handler with an informer.
///
/// The handler stays until it is removed or the informer ends; dropping the registration has no
/// effect, because most handlers live as long as their informer. [`Self::scoped`] returns one that
/// removes the handler when it is dropped.
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
/// let registration = maps.on_delete(|map| println!("{:?}", map.last().metadata.name))?;
/// maps.start();
/// registration.synced().await?;
/// assert_eq!(registration.lag().pending, 0);
/// registration.shut_down().await; // no call runs any more
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registration {
    mailbox: Arc<dyn Subscription>,
}

/// The error of a handler that ended before it received the whole initial list.
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
/// let registration = maps.on_add(|_| {})?;
/// registration.remove();
/// let error = registration.synced().await.expect_err("the handler was removed");
/// assert!(error.to_string().contains(registration.name()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("handler {handler} ended before it was synced")]
pub struct HandlerEnded {
    handler: String,
}

/// A [`Registration`] that removes its handler when it is dropped, as [`Registration::remove`]
/// does.
///
/// ```
/// use dogwatch_client::{Api, Client};
/// use dogwatch_informer::SharedInformer;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let informer = SharedInformer::<ConfigMap>::new(Api::all(client));
/// let seen = informer.on_add(|map| println!("{:?}", map.metadata.name))?.scoped();
/// informer.start();
/// seen.synced().await?;
/// drop(seen); // The handler is called no more; the informer goes on.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the handler is removed when this is dropped"]
pub struct ScopedRegistration(Registration);

impl Deref for ScopedRegistration {
    type Target = Registration;

    fn deref(&self) -> &Registration {
        &self.0
    }
}

impl Drop for ScopedRegistration {
    fn drop(&mut self) {
        self.0.remove();
    }
}

impl Registration {
    /// Converts this into a registration that removes the handler when it is dropped.
    pub fn scoped(self) -> ScopedRegistration {
        ScopedRegistration(self)
    }

    pub(crate) fn new(mailbox: Arc<dyn Subscription>) -> Self {
        Self { mailbox }
    }

    /// Returns the number of the registration, which no other one in the process has, at any
    /// informer. Names may be equal.
    ///
    /// ```
    /// # use dogwatch_client::Api;
    /// # use dogwatch_informer::SharedInformer;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
    /// let (first, second) = (maps.on_add(|_| {})?, maps.on_add(|_| {})?);
    /// assert_ne!(first.id(), second.id());
    /// assert_eq!(maps.stats().handlers[1].id, second.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(&self) -> u64 {
        self.mailbox.id()
    }

    /// Returns the handler's name in metrics and logs.
    pub fn name(&self) -> &str {
        self.mailbox.name()
    }

    /// Returns true once the initial list is in the store and the handler has received all of it
    /// (rule IN-7). A call that panicked counts as made.
    pub fn is_synced(&self) -> bool {
        self.mailbox.progress().borrow().synced
    }

    /// Waits until the handler is synced.
    ///
    /// # Errors
    /// Returns an error if the handler is removed, or the informer ends, before that.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn synced(&self) -> Result<(), HandlerEnded> {
        match self.reached(|it| it.synced || it.ended).await {
            Progress { synced: true, .. } => Ok(()),
            _ => Err(HandlerEnded { handler: self.name().to_owned() }),
        }
    }

    /// Returns how far the handler is behind.
    pub fn lag(&self) -> Lag {
        self.mailbox.lag()
    }

    /// Removes the handler and drops its pending changes. It does not wait: a running call
    /// continues to its end, and no further one begins. Removing a handler twice has no effect
    /// (rule IN-8).
    pub fn remove(&self) {
        self.mailbox.remove();
    }

    /// Removes the handler and waits until a running call has returned. Must not be called from
    /// inside the handler, as it would wait for itself.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The handler is removed nevertheless, once the future was
    /// polled.
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

/// Delivers the changes in a mailbox to its handler, until the mailbox is closed and empty. One
/// task per handler runs this.
pub(crate) async fn serve<T: Object>(mut handler: impl EventHandler<T>, reader: Reader<T>) {
    let mailbox = &reader.0;
    mailbox.begin_serving();
    let mut current = TakenChanges::default();
    while poll_fn(|cx| mailbox.poll_take(AT_ONCE, &mut current, cx)).await {
        let began = is_behind(current.waiting).then(Instant::now);
        for change in current.changes() {
            if mailbox.is_removed() {
                break;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler.on_change(change))) {
                mailbox.panicked();
                report(mailbox.name(), change, &*panic);
            }
        }
        if let Some(took) = began.map(|it| it.elapsed()).filter(|it| is_slow_handler(*it)) {
            let (handler, waiting, calls) = (mailbox.name(), current.waiting, current.changes().len());
            tracing::info!(handler, waiting, calls, ?took, "a slow handler is falling behind");
        }
        tokio::task::yield_now().await;
    }
}

fn report<T: Object>(handler: &str, change: &Change<T>, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let key = change.object().key().map(String::from).unwrap_or_default();
    tracing::error!(handler, key, panic = text, "a handler panicked; continuing with the next change");
}

/// The reading end of a mailbox. Dropping it records that the handler is not called any more.
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

/// A stream of the changes of a collection, in the order in which a handler would receive them.
///
/// It ends when the informer does, after the pending changes. Dropping it removes it from the
/// informer. While it is not read, changes wait according to its [`Overflow`] policy.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_informer::{Change, SharedInformer};
/// use futures_util::StreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::builder(Api::<ConfigMap>::all(client))
///     .fields("metadata.name=settings".parse()?)
///     .build();
/// let mut changes = maps.changes()?;
/// maps.start();
/// let first = changes.next().await.expect("the informer runs");
/// assert!(matches!(first, Change::Added { initial: true, .. }));
/// assert_eq!(first.object().metadata.name.as_deref(), Some("settings"));
/// # Ok(())
/// # }
/// ```
pub struct Changes<T: Object> {
    reader: Reader<T>,
    current: TakenChanges<T>,
    /// The number of taken changes that were yielded.
    given: usize,
}

impl<T: Object> Changes<T> {
    pub(crate) fn new(reader: Reader<T>) -> Self {
        Self { reader, current: TakenChanges::default(), given: 0 }
    }

    /// Returns the registration of this stream, with which it can be waited for, measured and
    /// removed.
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
            match this.current.changes().get(this.given) {
                Some(change) if !mailbox.is_removed() => {
                    this.given += 1;
                    return Poll::Ready(Some(change.clone()));
                }
                _ => this.given = 0,
            }
            // One object at a time, so that changes which are not read yet can still be merged.
            match mailbox.poll_take(1, &mut this.current, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    this.current = TakenChanges::default();
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
