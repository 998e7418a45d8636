//! A watch that resumes at the last version it delivered (rule RW-1). It loses no event, or it ends
//! with an error.
//!
//! ```text
//! Open ──ended, lost, ERROR──► Waiting (1 s after the opening, and Retry-After after the error) ──► Open
//!   └──410 in the stream, 401/403 or a permanent error at an opening──► ended
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use dogwatch_core::{Object, ResourceVersion, WatchParams};
use dogwatch_wire::WatchEvent;
use futures_core::Stream;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::resume::{Action, EventInfo, OnGone, is_permanent, on_event, on_open_error};
use super::stream::{WatchSource, WatchStream};
use crate::error::{Error, InvalidRequest};

/// The minimum time between two attempts to open the watch. `NewRetryWatcherWithContext` in
/// client-go v0.36.4 `tools/watch/retrywatcher.go`.
const MIN_RESTART_DELAY: Duration = Duration::from_secs(1);

/// The interval at which the same error is logged at `warn`: an outage of a day is one line a
/// minute.
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// The events of a collection from one version on, over as many watches as necessary.
///
/// Bookmarks are not delivered. The stream ends:
///
/// - after an `ERROR` event, if the server's error is final: the history was compacted (410: list
///   again), or the caller may not watch (401, 403);
/// - after an `Err`, if no further attempt can succeed: the request, the settings, the certificates
///   or the credentials must be changed first, or the response is not a watch.
///
/// `Err(Error::Undecodable)` concerns one object, and the stream continues after it. Everything
/// else, such as a server that cannot be reached, is retried without end: the first error, and then
/// one a minute, is logged at `warn`. `Retry-After` counts from the error that carries it. Dropping
/// the stream closes the watch.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::{ListParams, WatchParams};
/// use dogwatch_wire::WatchEvent;
/// use futures_util::TryStreamExt;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let list = maps.list(&ListParams::default()).await?;
/// let mut events = maps.watch_from(WatchParams::after(list.metadata.version))?;
/// # let mut map = ConfigMap::default();
/// # map.metadata.name = Some("a".to_owned());
/// # maps.create(&Default::default(), &map).await?;
/// let first = events.try_next().await?;
/// assert!(matches!(first, Some(WatchEvent::Added(_))));
/// # Ok(())
/// # }
/// ```
#[must_use = "a watch is read only as its stream is polled"]
pub struct RetryWatcher<K> {
    events: BoxStream<'static, Result<WatchEvent<K>, Error>>,
}

struct Watcher<K> {
    source: WatchSource,
    params: WatchParams,
    open: Option<WatchStream<K>>,
    /// The time of the last attempt to open the watch.
    opened: Option<Instant>,
    /// The earliest time of the next attempt.
    not_before: Option<Instant>,
    /// True once the open watch has delivered something.
    delivered: bool,
    on_gone: OnGone,
    ended: bool,
    failures: FailureLog,
}

/// A log of the reasons for reopening a watch that does not fill up during an outage.
#[derive(Default)]
struct FailureLog {
    last: Option<(String, Instant)>,
}

impl<K: DeserializeOwned + Object> RetryWatcher<K> {
    /// Creates a watch that retries if it cannot be opened because the history was compacted:
    /// another server may still have it.
    pub(crate) fn new(source: WatchSource, params: WatchParams) -> Result<Self, Error> {
        Self::start(source, params, OnGone::TryAgain)
    }

    /// Creates a watch that ends if the history was compacted, even at the start: for a caller that
    /// lists again.
    pub(crate) fn ending_when_gone(source: WatchSource, params: WatchParams) -> Result<Self, Error> {
        Self::start(source, params, OnGone::End)
    }

    fn start(source: WatchSource, params: WatchParams, on_gone: OnGone) -> Result<Self, Error> {
        if !params.version.is_exact() {
            return Err(InvalidRequest::Version(params.version.to_string()).into());
        }
        let mut params = params;
        params.send_initial_events = None;
        params.version_match = None;
        params.bookmarks = true;
        let watcher = Watcher {
            source,
            params,
            open: None,
            opened: None,
            not_before: None,
            delivered: false,
            on_gone,
            ended: false,
            failures: FailureLog::default(),
        };
        let next = async |mut watcher: Watcher<K>| Some((watcher.next().await?, watcher));
        // Fused: an `unfold` panics if it is polled after its end, as `select!` loops do.
        Ok(Self { events: futures_util::stream::unfold(watcher, next).fuse().boxed() })
    }
}

impl<K: DeserializeOwned + Object> Watcher<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        while !self.ended {
            let Some(open) = &mut self.open else {
                if let Some(end) = self.reopen().await {
                    return Some(end);
                }
                continue;
            };
            let (action, item) = match open.next().await {
                Some(Ok(event)) => (on_event(event_info(&event)), Some(Ok(event))),
                Some(Err(Error::Undecodable(bad))) => {
                    (on_event(EventInfo::Bad(&bad)), Some(Err(Error::Undecodable(bad))))
                }
                // The body is not a stream of events. After a first event this may be a broken
                // frame, which the next watch does not repeat; before it, the response is not a
                // watch.
                Some(Err(error @ Error::Malformed { .. })) if !self.delivered => {
                    self.ended = true;
                    return Some(Err(error));
                }
                // Lost or ended: either way, the next watch resumes from the last version.
                Some(Err(error)) => {
                    self.failures.log(&error, &self.params.version);
                    (Action::Restart(Duration::ZERO), None)
                }
                None => (Action::Restart(Duration::ZERO), None),
            };
            match action {
                Action::Deliver(version) => {
                    self.advance_to(version);
                    return item;
                }
                Action::Report => return item,
                Action::Advance(version) => self.advance_to(version),
                Action::Restart(delay) => {
                    self.open = None;
                    self.wait_at_least(delay);
                }
                Action::End(status) => {
                    self.ended = true;
                    return Some(Ok(WatchEvent::Error(status)));
                }
            }
        }
        None
    }

    /// Records that the watch reached a version.
    fn advance_to(&mut self, version: ResourceVersion) {
        self.params.version = version;
        self.delivered = true;
        self.failures = FailureLog::default();
    }

    /// Sets the earliest time of the next attempt: a second after the last one, and `delay` from
    /// now.
    fn wait_at_least(&mut self, delay: Duration) {
        let after_opening = self.opened.and_then(|it| it.checked_add(MIN_RESTART_DELAY));
        // A delay beyond the clock's range becomes one day.
        let now = Instant::now();
        let after_error = now.checked_add(delay).or(now.checked_add(Duration::from_secs(86_400)));
        self.not_before = after_opening.max(after_error);
    }

    /// Opens the watch again when its time has come; returns the last item of the stream if it ends
    /// here.
    async fn reopen(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        if let Some(not_before) = self.not_before {
            tokio::time::sleep_until(not_before).await;
        }
        self.opened = Some(Instant::now());
        self.delivered = false;
        match self.source.open(&self.params).await {
            Ok(open) => self.open = Some(open),
            Err(error) if is_permanent(&error) => {
                self.ended = true;
                return Some(Err(error));
            }
            Err(error) => match on_open_error(&error, self.on_gone) {
                Action::End(status) => {
                    self.ended = true;
                    return Some(Ok(WatchEvent::Error(status)));
                }
                Action::Restart(delay) => {
                    self.failures.log(&error, &self.params.version);
                    self.wait_at_least(delay);
                }
                _ => {}
            },
        }
        None
    }
}

impl FailureLog {
    fn log(&mut self, error: &Error, version: &ResourceVersion) {
        let text = error.to_string();
        let now = Instant::now();
        let repeated =
            self.last.as_ref().is_some_and(|(last, at)| *last == text && now - *at < WARN_INTERVAL);
        let cause = std::error::Error::source(error);
        if repeated {
            tracing::debug!(error = text, cause, %version, "watch failed again, reopening it");
        } else {
            tracing::warn!(error = text, cause, %version, "watch failed, reopening it");
            self.last = Some((text, now));
        }
    }
}

fn event_info<K: Object>(event: &WatchEvent<K>) -> EventInfo<'_> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            EventInfo::Object(object.version())
        }
        WatchEvent::Bookmark(bookmark) => EventInfo::Bookmark(bookmark.version.clone()),
        WatchEvent::Error(status) => EventInfo::Error(status),
        _ => EventInfo::Bookmark(ResourceVersion::UNSET),
    }
}

impl<K> Stream for RetryWatcher<K> {
    type Item = Result<WatchEvent<K>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl<K> std::fmt::Debug for RetryWatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryWatcher").finish_non_exhaustive()
    }
}
