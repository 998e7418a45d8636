//! A watch that starts again where it ended (rule RW-1). It loses no event, or says that it cannot go on.

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

use super::resume::{OnGone, Said, Verdict, on_event, on_refused_start};
use super::stream::{WatchSource, WatchStream};
use crate::error::{Error, InvalidRequest};

/// The shortest time between two openings. client-go's number.
const MIN_RESTART_DELAY: Duration = Duration::from_secs(1);

/// The events of a collection from one version on, over as many watches as it takes.
///
/// Bookmarks are not told. The stream ends after an `ERROR` event that says why it cannot go on: the history was
/// forgotten (410: list again), or the right to watch was lost (401, 403). An object that cannot be decoded comes as
/// `Err(Error::Undecodable)` and the stream goes on. Dropping it ends the watch.
#[must_use = "a watch is read only as its stream is polled"]
pub struct RetryWatcher<K> {
    events: BoxStream<'static, Result<WatchEvent<K>, Error>>,
}

struct Watcher<K> {
    source: WatchSource,
    params: WatchParams,
    open: Option<WatchStream<K>>,
    /// When the last watch was opened, or tried to be.
    opened: Option<Instant>,
    delay: Duration,
    on_gone: OnGone,
    ended: bool,
}

impl<K: DeserializeOwned + Object> RetryWatcher<K> {
    /// Tries again when a watch cannot be opened because the history is forgotten: another server may still keep it.
    pub(crate) fn new(source: WatchSource, params: WatchParams) -> Result<Self, Error> {
        Self::start(source, params, OnGone::TryAgain)
    }

    /// Ends when the history is forgotten, also at the start: for a caller that lists again.
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
        let delay = Duration::ZERO;
        let watcher = Watcher { source, params, open: None, opened: None, delay, on_gone, ended: false };
        let next = async |mut watcher: Watcher<K>| Some((watcher.next().await?, watcher));
        Ok(Self { events: futures_util::stream::unfold(watcher, next).boxed() })
    }
}

impl<K: DeserializeOwned + Object> Watcher<K> {
    async fn next(&mut self) -> Option<Result<WatchEvent<K>, Error>> {
        while !self.ended {
            let Some(open) = &mut self.open else {
                if let Some(end) = self.reopen().await {
                    return Some(Ok(end));
                }
                continue;
            };
            let (verdict, told) = match open.next().await {
                Some(Ok(event)) => (on_event(said(&event)), Some(Ok(event))),
                Some(Err(Error::Undecodable(bad))) => {
                    (on_event(Said::Bad(&bad)), Some(Err(Error::Undecodable(bad))))
                }
                // Lost or ended: either way, the next watch goes on where this one was.
                Some(Err(error)) => {
                    tracing::debug!(%error, version = %self.params.version, "the watch broke, opening it again");
                    (Verdict::Restart(Duration::ZERO), None)
                }
                None => (Verdict::Restart(Duration::ZERO), None),
            };
            match verdict {
                Verdict::Deliver(version) => {
                    self.params.version = version;
                    return told;
                }
                Verdict::Report => return told,
                Verdict::Advance(version) => self.params.version = version,
                Verdict::Restart(delay) => {
                    self.delay = delay;
                    self.open = None;
                }
                Verdict::End(status) => {
                    self.ended = true;
                    return Some(Ok(WatchEvent::Error(status)));
                }
            }
        }
        None
    }

    /// Opens the watch again, not too soon; gives the event that ends it all, if it does.
    async fn reopen(&mut self) -> Option<WatchEvent<K>> {
        if let Some(opened) = self.opened {
            tokio::time::sleep_until(opened + MIN_RESTART_DELAY.max(self.delay)).await;
        }
        self.opened = Some(Instant::now());
        self.delay = Duration::ZERO;
        match self.source.open(&self.params).await {
            Ok(open) => self.open = Some(open),
            Err(error) => match on_refused_start(&error, self.on_gone) {
                Verdict::End(status) => {
                    self.ended = true;
                    return Some(WatchEvent::Error(status));
                }
                Verdict::Restart(delay) => {
                    tracing::debug!(%error, "the watch could not be opened, trying again");
                    self.delay = delay;
                }
                _ => {}
            },
        }
        None
    }
}

fn said<K: Object>(event: &WatchEvent<K>) -> Said<'_> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Said::Object(object.version())
        }
        WatchEvent::Bookmark(bookmark) => Said::Bookmark(bookmark.version.clone()),
        WatchEvent::Error(status) => Said::Error(status),
        _ => Said::Bookmark(ResourceVersion::UNSET),
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
