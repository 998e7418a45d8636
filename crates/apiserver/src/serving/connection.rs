//! One connection: HTTP/1.1 or HTTP/2, detected from its first bytes, until it is closed, is idle
//! for too long, or the server stops.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::{Executor, Read, Write};
use hyper::service::service_fn;
use pin_project_lite::pin_project;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::connection_parts::{ConnectionParts, StreamTasks};
use super::guard;
use super::handler::Handler;
use super::inner::Inner;
use super::limits::{GRACE, Limits};
use super::streams::{Stream, Streams};
use super::unread_body;
use super::wake_gate::WakeGate;
use super::write_coalescer::WriteCoalescer;
use crate::auth::PeerIdentity;
use crate::http::ConnectionInfo;

/// Serves one connection until it ends, also after it has switched protocols. `local` is the
/// address of the accepting socket, if there is one.
pub(super) async fn serve<H: Handler>(
    io: impl Read + Write + Unpin + Send + 'static,
    local: Option<SocketAddr>,
    peer: Option<PeerIdentity>,
    limits: Limits,
    inner: Arc<Inner<H>>,
) {
    let requests = InFlight::default();
    let info = ConnectionInfo::new(local);
    let service = {
        let (inner, requests, peer) = (Arc::clone(&inner), requests.clone(), Arc::new(peer));
        let info = info.clone();
        service_fn(move |request: http::Request<Incoming>| {
            let (handler, peer, in_flight) =
                (Arc::clone(&inner.handler), Arc::clone(&peer), requests.begin());
            let (mut request, unread) = unread_body::track(request);
            request.extensions_mut().insert(info.clone());
            async move {
                let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                match guard::respond(&*handler, request, (*peer).as_ref()).await {
                    Ok(mut response) => {
                        if let Some(unread) = unread
                            && !unread.drain_rest(limits.drain).await
                        {
                            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                        }
                        Ok(response.map(|body| TrackedBody { body, in_flight }))
                    }
                    // hyper closes the connection, or resets the stream, if the service returns an
                    // error.
                    Err(_cut) => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
                }
            }
        })
    };
    let parts = inner.parts;
    let tasks = (parts.streams == StreamTasks::TaskEach).then(|| inner.tasks.clone());
    let new_streams = NewStreams { streams: Arc::default(), tasks };
    let builder = limits.builder(new_streams.clone());
    let coalescer = WriteCoalescer::new(io, parts.write_coalescing);
    let ended = {
        let connection = builder.serve_connection_with_upgrades(coalescer.clone(), service);
        let mut connection = pin!(connection);
        let mut driver = ConnectionDriver::new(new_streams, coalescer.clone(), parts);
        let shutdown = inner.shutdown.graceful.clone();
        let ended = tokio::select! {
            biased;
            ended = driver.drive(connection.as_mut()) => Some(ended),
            () = shutdown.cancelled() => None,
            () = requests.idle(limits.idle) => None,
        };
        match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                // A client that ignores the graceful shutdown loses its connection after the grace
                // period.
                tokio::time::timeout(GRACE, driver.drive(connection)).await.unwrap_or(Ok(()))
            }
        }
    };
    match ended {
        // The connection is dropped: if it has not switched protocols in the end, the future finds
        // that out.
        Ok(()) => {
            if let Some(after_switch) = info.take_after_switch() {
                coalescer.write_through();
                after_switch.await;
            }
        }
        Err(error) => tracing::debug!(%error, "a connection ended early"),
    }
}

/// An executor that collects the streams that hyper's HTTP/2 spawns, for the task of their
/// connection.
#[derive(Clone)]
struct NewStreams {
    streams: Arc<Mutex<Vec<Stream>>>,
    /// Only in benchmarks: spawns a task for each stream instead.
    tasks: Option<TaskTracker>,
}

/// Drives a connection and its streams in one task. Streams always run before the connection
/// writes, so that the events of many watches about one change leave in one write, and all of them
/// end with the connection.
struct ConnectionDriver<IO> {
    new_streams: NewStreams,
    streams: StreamSet,
    coalescer: WriteCoalescer<IO>,
    /// Holds back wakes from the connection while the task is running. `None` only in benchmarks.
    wake_gate: Option<WakeGate>,
}

/// The streams that run in the task of their connection.
enum StreamSet {
    Own(Streams),
    /// Only in benchmarks.
    Unordered(FuturesUnordered<Stream>),
}

impl<F> Executor<F> for NewStreams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let stream = Box::pin(async move {
            stream.await;
        });
        match &self.tasks {
            None => self.streams().push(stream),
            Some(tasks) => drop(tasks.spawn(stream)),
        }
    }
}

impl NewStreams {
    fn streams(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.streams.lock()
    }
}

impl StreamSet {
    fn add(&mut self, stream: Stream) {
        match self {
            Self::Own(streams) => streams.add(stream),
            Self::Unordered(streams) => streams.push(stream),
        }
    }

    fn run(&mut self, context: &mut Context<'_>) {
        match self {
            Self::Own(streams) => streams.run(context),
            Self::Unordered(streams) => while let Poll::Ready(Some(())) = streams.poll_next_unpin(context) {},
        }
    }
}

impl<IO: Read + Write + Unpin> ConnectionDriver<IO> {
    fn new(new_streams: NewStreams, coalescer: WriteCoalescer<IO>, parts: ConnectionParts) -> Self {
        let streams = match parts.streams {
            StreamTasks::Unordered => StreamSet::Unordered(FuturesUnordered::new()),
            StreamTasks::Own | StreamTasks::TaskEach => StreamSet::Own(Streams::default()),
        };
        Self { new_streams, streams, coalescer, wake_gate: parts.wake_gate.then(WakeGate::default) }
    }

    /// Runs the connection and its streams until the connection ends.
    async fn drive<C: Future>(&mut self, mut connection: Pin<&mut C>) -> C::Output {
        std::future::poll_fn(|context| {
            loop {
                // The connection is polled after the streams in any case, so they need not wake it.
                if let Some(gate) = &self.wake_gate {
                    gate.hold(context);
                }
                self.new_streams.streams().drain(..).for_each(|it| self.streams.add(it));
                self.streams.run(context);
                let polled = match &self.wake_gate {
                    Some(gate) => {
                        gate.release();
                        connection.as_mut().poll(&mut gate.context())
                    }
                    None => connection.as_mut().poll(context),
                };
                if polled.is_pending() && !self.new_streams.streams().is_empty() {
                    continue;
                }
                // A connection that has ended is not polled again: this is the last chance for its
                // final bytes to leave.
                if self.coalescer.flush_buffered(context) || polled.is_ready() {
                    return polled;
                }
            }
        })
        .await
    }
}

/// The number of requests in flight on a connection.
#[derive(Clone, Debug)]
struct InFlight(Arc<watch::Sender<usize>>);

/// A request in flight, until the last byte of its response.
#[derive(Debug)]
struct InFlightRequest(InFlight);

impl Default for InFlight {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl InFlight {
    fn begin(&self) -> InFlightRequest {
        self.0.send_modify(|count| *count += 1);
        InFlightRequest(self.clone())
    }

    /// Resolves when there has been no request for `limit`.
    async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        let mut count = self.0.subscribe();
        // The sender is `self`, so it cannot be closed.
        while count.wait_for(|it| *it == 0).await.is_ok() {
            if tokio::time::timeout(limit, count.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

pin_project! {
    /// A response body that keeps its request counted as in flight.
    struct TrackedBody<B> {
        #[pin]
        body: B,
        in_flight: InFlightRequest,
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_its_last_request_is_long_over() {
        let requests = InFlight::default();
        let start = Instant::now();
        let busy = requests.begin();
        let idle = requests.idle(Some(Duration::from_secs(10)));
        let work = async {
            tokio::time::advance(Duration::from_secs(60)).await;
            drop(busy);
            tokio::time::advance(Duration::from_secs(9)).await;
            drop(requests.begin());
        };
        tokio::join!(idle, work);
        assert_eq!(start.elapsed().as_secs(), 60 + 9 + 10);
    }
}
