//! Bodies that are dropped if their client does not read them in time.
//!
//! A body is polled only while its client has room for more. One that stops reading in the middle
//! of a list would otherwise keep the memory of the list for as long as it stays connected.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// The error of a body whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has not read the response within {0:?}")]
pub(crate) struct TimeOver(Duration);

/// Returns a body that is dropped after this time, and fails if it is read after it. Its task ends
/// with the body.
pub(crate) fn timed(body: ResponseBody, time: Duration) -> ResponseBody {
    let body = Arc::new(Mutex::new(Some(body)));
    let dropping = Arc::clone(&body);
    let timer = tokio::spawn(async move {
        tokio::time::sleep(time).await;
        drop(dropping.lock().take());
    });
    boxed(TimedBody { body, time, timer: timer.abort_handle() })
}

struct TimedBody {
    /// `None` when the time is over. Locked only while it is polled or dropped.
    body: Arc<Mutex<Option<ResponseBody>>>,
    time: Duration,
    timer: AbortHandle,
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.timer.abort();
        // Now, and not when the task has been dropped.
        drop(self.body.lock().take());
    }
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self.body.lock() {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(Some(Err(TimeOver(self.time).into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.lock().as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.lock().as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::Semaphore;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_a_list_that_is_not_read_is_given_back() {
        let memory = Arc::new(Semaphore::new(1));
        let share = Arc::clone(&memory).try_acquire_owned().unwrap();
        let frames = futures_util::stream::iter([b"first", b"other"]).map(move |it| {
            let _held = &share;
            Ok::<_, BoxError>(Frame::data(Bytes::from_static(it)))
        });
        let mut body = timed(boxed(StreamBody::new(frames)), TIME);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
        tokio::time::sleep(TIME - Duration::from_secs(1)).await;
        assert_eq!(memory.available_permits(), 0);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(memory.available_permits(), 1);
        let error = body.frame().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("has not read"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_read_in_time_is_complete_and_leaves_nothing_behind() {
        let body = timed(boxed(dogwatch_client::RequestBody::from("a list")), TIME);
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "a list");
        tokio::task::yield_now().await;
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    }
}
