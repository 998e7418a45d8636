//! Snapshots for all browsers: one task takes them while a browser looks, and each browser reads
//! the newest.
//!
//! There is no queue: a browser that is slower than the snapshots misses some. Without a browser,
//! no snapshot is taken.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::unfold;
use hyper::body::{Bytes, Frame};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::activity::Activity;
use crate::sources::Sources;

/// The interval of snapshots.
pub(crate) const INTERVAL: Duration = Duration::from_millis(500);

/// The number of browsers that can look at the same time.
pub(crate) const MAX_STREAMS: usize = 16;

/// The first part of a stream: browsers that lose it try again after this many milliseconds.
const PREAMBLE: &str = "retry: 1000\n\n";

/// The newest snapshot, and the streams that read it.
#[derive(Debug)]
pub(crate) struct Broadcast {
    sources: Arc<Sources>,
    /// The newest snapshot as an event; `None` while no browser looks, so that the next one does
    /// not get an old one.
    newest: watch::Sender<Option<Bytes>>,
    /// Notified when a browser begins to look.
    demand: Notify,
    streams: Arc<Semaphore>,
}

/// The stream of one browser.
struct Subscriber {
    newest: watch::Receiver<Option<Bytes>>,
    activity: Activity,
    is_new: bool,
    _permit: OwnedSemaphorePermit,
}

impl Broadcast {
    pub(crate) fn new(sources: Arc<Sources>) -> Self {
        Self {
            sources,
            newest: watch::Sender::new(None),
            demand: Notify::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// Takes snapshots while a browser looks, until the future is dropped.
    pub(crate) async fn run(&self) {
        loop {
            // A permit is kept for the next waiter if a browser came before this one waits.
            self.demand.notified().await;
            let mut timer = tokio::time::interval(INTERVAL);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while self.newest.receiver_count() > 0 {
                timer.tick().await;
                self.newest.send_replace(Some(self.event()));
            }
            self.newest.send_replace(None);
            // A browser that came after the count was read, and before the reset, gets the next
            // one.
            if self.newest.receiver_count() > 0 {
                self.demand.notify_one();
            }
        }
    }

    /// Returns a snapshot as JSON.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let document = self.sources.document(INTERVAL);
        serde_json::to_vec(&document).expect("the document has only text keys and serialisable values")
    }

    fn event(&self) -> Bytes {
        let mut event = b"event: snapshot\ndata: ".to_vec();
        event.extend(self.snapshot());
        event.extend(b"\n\n");
        event.into()
    }

    /// Returns a stream of events for one browser; `None` if there are too many.
    pub(crate) fn subscribe(
        &self,
        activity: Activity,
    ) -> Option<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + use<>> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        let mut newest = self.newest.subscribe();
        newest.mark_changed();
        self.demand.notify_one();
        activity.stream();
        let subscriber = Subscriber { newest, activity, is_new: true, _permit: permit };
        Some(unfold(subscriber, |mut subscriber| async move {
            let event = subscriber.next().await?;
            Some((Ok(Frame::data(event)), subscriber))
        }))
    }
}

impl Subscriber {
    /// Waits for a snapshot that was not sent yet; `None` when the page ends.
    async fn next(&mut self) -> Option<Bytes> {
        self.activity.record();
        if std::mem::take(&mut self.is_new) {
            return Some(Bytes::from_static(PREAMBLE.as_bytes()));
        }
        loop {
            self.newest.changed().await.ok()?;
            if let Some(event) = self.newest.borrow_and_update().clone() {
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{StreamExt, poll};

    use super::*;

    fn broadcast() -> Arc<Broadcast> {
        Arc::new(Broadcast::new(Arc::new(Sources::new("test".to_owned()))))
    }

    async fn text(stream: &mut (impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Unpin)) -> String {
        let frame = stream.next().await.expect("the stream goes on").expect("never fails");
        String::from_utf8(frame.into_data().expect("it has no trailers").to_vec()).expect("it is text")
    }

    #[tokio::test(start_paused = true)]
    async fn snapshots_are_taken_only_while_a_browser_looks() {
        let broadcast = broadcast();
        let mut running = pin!(broadcast.run());
        assert!(poll!(running.as_mut()).is_pending());
        tokio::time::advance(INTERVAL * 10).await;
        assert!(poll!(running.as_mut()).is_pending());
        assert!(broadcast.newest.borrow().is_none());

        let mut stream = pin!(broadcast.subscribe(Activity::new()).expect("there is room"));
        let (_, texts) =
            tokio::join!(async { tokio::time::timeout(INTERVAL * 4, running.as_mut()).await }, async {
                [text(&mut stream).await, text(&mut stream).await, text(&mut stream).await]
            });
        assert_eq!(texts[0], PREAMBLE);
        assert!(texts[1].starts_with("event: snapshot\ndata: {\"program\"") && texts[1].ends_with("}\n\n"));
        assert!(texts[2].starts_with("event: snapshot"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_snapshot_is_dropped_with_the_last_browser() {
        let broadcast = broadcast();
        let mut running = pin!(broadcast.run());
        let stream = broadcast.subscribe(Activity::new()).expect("there is room");
        let _ = tokio::time::timeout(INTERVAL * 2, running.as_mut()).await;
        assert!(broadcast.newest.borrow().is_some());
        drop(stream);
        let _ = tokio::time::timeout(INTERVAL * 2, running.as_mut()).await;
        assert!(broadcast.newest.borrow().is_none());
        let _again = broadcast.subscribe(Activity::new()).expect("there is room");
        let _ = tokio::time::timeout(INTERVAL * 2, running.as_mut()).await;
        assert!(broadcast.newest.borrow().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_browser_gets_only_the_newest_snapshot() {
        let broadcast = broadcast();
        let mut slow = pin!(broadcast.subscribe(Activity::new()).expect("there is room"));
        assert_eq!(text(&mut slow).await, PREAMBLE);
        for number in 0..100 {
            broadcast.newest.send_replace(Some(Bytes::from(number.to_string())));
        }
        assert_eq!(text(&mut slow).await, "99");
        assert!(poll!(slow.next()).is_pending());
    }

    #[tokio::test]
    async fn the_number_of_streams_is_limited() {
        let broadcast = broadcast();
        let streams: Vec<_> = (0..MAX_STREAMS).map_while(|_| broadcast.subscribe(Activity::new())).collect();
        assert_eq!(streams.len(), MAX_STREAMS);
        assert!(broadcast.subscribe(Activity::new()).is_none());
        drop(streams);
        assert!(broadcast.subscribe(Activity::new()).is_some());
    }
}
