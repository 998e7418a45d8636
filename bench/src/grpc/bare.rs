//! The cheapest possible pod: `h2` without a server around it, which writes everything it has at
//! once. With it, the client limits the number of calls per second.
//!
//! Tonic's server spends about as much time on a call as a client does, which would hide much of
//! the difference between clients.

use parking_lot::Mutex;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::{Stream, StreamExt};
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use prost::bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Flow-control windows that no burst of the benchmark fills.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// More concurrent calls than any burst makes.
const MAX_CONCURRENT_CALLS: u32 = 10_000;

/// Echoes the body of every request, whatever its method. Dropping the future closes the
/// connections too.
pub(super) async fn serve(incoming: impl Stream<Item = io::Result<TcpStream>> + Unpin) {
    let connections = incoming.filter_map(async |it| it.ok()).map(serve_connection);
    // A client that disconnects is not an error.
    connections.buffer_unordered(usize::MAX).for_each(async |_| ()).await;
}

/// Serves one connection until it ends, in one task.
async fn serve_connection(socket: TcpStream) -> io::Result<()> {
    let (read, mut write) = socket.into_split();
    let output = OutputBuffer::default();
    let mut settings = Builder::new();
    settings
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_CONCURRENT_CALLS);
    // Waits for the client's connection preface only.
    let opening = settings.handshake::<_, Bytes>(Socket { read, output: output.clone() });
    let mut connection = opening.await.map_err(io::Error::other)?;
    let mut calls = Vec::new();
    poll_fn(|cx| {
        let ended = poll_calls(&mut connection, &mut calls, cx);
        // A write that would block is retried with the next poll: until then the client has enough
        // to read.
        match output.poll_write_to(&mut write, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => ended.map(Ok),
        }
    })
    .await?;
    write.shutdown().await
}

/// Reads requests, and responds to those that are complete. Ready when the connection has ended.
fn poll_calls(
    connection: &mut Connection<Socket, Bytes>,
    calls: &mut Vec<Call>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        match connection.poll_accept(cx) {
            Poll::Ready(Some(Ok((request, response)))) => {
                calls.push(Call { request: request.into_body(), response, received: Vec::new() });
            }
            Poll::Ready(_) => return Poll::Ready(()),
            Poll::Pending => {
                let before = calls.len();
                calls.retain_mut(|it| it.poll(cx).is_pending());
                if calls.len() == before {
                    return Poll::Pending;
                }
            }
        }
    }
}

/// A call whose request is not complete yet.
struct Call {
    request: RecvStream,
    response: SendResponse<Bytes>,
    received: Vec<Bytes>,
}

impl Call {
    /// Ready when the response is queued or the client has cancelled the call.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(data) = ready!(self.request.poll_data(cx)) {
            let Ok(data) = data else { return Poll::Ready(()) };
            // Fails only for a stream that has ended.
            let _ = self.request.flow_control().release_capacity(data.len());
            // Some clients end a request with an empty DATA frame. Echoed, it would not be the last
            // frame, and `h2` limits the number of empty frames that do not end a stream.
            if !data.is_empty() {
                self.received.push(data);
            }
        }
        // Fails only if the client has cancelled the call.
        let _ = self.echo();
        Poll::Ready(())
    }

    fn echo(&mut self) -> Result<(), h2::Error> {
        let mut head = Response::new(());
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let mut body = self.response.send_response(head, false)?;
        for data in self.received.drain(..) {
            body.send_data(data, false)?;
        }
        let mut status = HeaderMap::with_capacity(1);
        status.insert("grpc-status", HeaderValue::from_static("0"));
        body.send_trailers(status)
    }
}

/// The bytes that `h2` has written and the socket has not sent yet.
#[derive(Clone, Default)]
struct OutputBuffer(Arc<Mutex<BytesMut>>);

impl OutputBuffer {
    fn add(&self, bytes: &[u8]) {
        self.0.lock().extend_from_slice(bytes);
    }

    fn poll_write_to(&self, write: &mut OwnedWriteHalf, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut output = self.0.lock();
        while !output.is_empty() {
            let count = ready!(Pin::new(&mut *write).poll_write(cx, &output))?;
            output.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

/// The I/O object of `h2`: reads the socket and writes into the [`OutputBuffer`].
struct Socket {
    read: OwnedReadHalf,
    output: OutputBuffer,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.output.add(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
